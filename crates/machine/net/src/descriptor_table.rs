//! The descriptors of a node that its successor can have, by name: sockets of listeners, of administration and metrics, ports of WireGuard,
//! queues of TUN devices.
//!
//! Whatever opens one enters it, and keeps the entry for as long as it serves there.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::handover::GivenSocket;

/// The descriptors of one node; of a node without a successor it has none. Bounded by the document, as what is entered is.
#[derive(Debug, Clone, Default)]
pub struct DescriptorTable(Option<Arc<Mutex<Entries>>>);

/// A descriptor in the table, until this is dropped.
#[derive(Debug, Default)]
pub struct DescriptorEntry(Option<EntryKey>);

/// Where an entry is.
#[derive(Debug)]
struct EntryKey {
    table: Arc<Mutex<Entries>>,
    number: u64,
}

/// The entries, in the order in which they came.
#[derive(Debug, Default)]
struct Entries {
    next: u64,
    by_number: BTreeMap<u64, NamedDescriptor>,
}

#[derive(Debug)]
struct NamedDescriptor {
    name: String,
    /// `None` once the table was emptied.
    descriptor: Option<OwnedFd>,
    is_given: bool,
}

impl DescriptorTable {
    /// The table of a node that may have a successor.
    #[must_use]
    pub fn for_successor() -> Self {
        Self(Some(Arc::default()))
    }

    /// Whether there may be a successor.
    #[must_use]
    pub fn has_successor(&self) -> bool {
        self.0.is_some()
    }

    /// Enters another descriptor of `opened` under a name, which several may have.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn enter(&self, name: &str, opened: &impl AsFd) -> io::Result<DescriptorEntry> {
        let Some(table) = &self.0 else {
            return Ok(DescriptorEntry::default());
        };

        let entry = NamedDescriptor {
            name: name.to_owned(),
            descriptor: Some(opened.as_fd().try_clone_to_owned()?),
            is_given: false,
        };
        let mut entries = table.lock();
        let number = entries.next;
        entries.next += 1;
        entries.by_number.insert(number, entry);
        Ok(DescriptorEntry(Some(EntryKey {
            table: table.clone(),
            number,
        })))
    }

    /// Duplicates of all descriptors, for a successor.
    ///
    /// # Errors
    /// When no descriptor is left, or the node was not started as one that has a successor.
    pub fn give(&self) -> io::Result<Vec<GivenSocket>> {
        let Some(table) = &self.0 else {
            let reason = "the node was not started as one that gives its sockets to a successor";
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        };

        let mut entries = table.lock();
        let mut given = Vec::with_capacity(entries.by_number.len());
        for entry in entries.by_number.values_mut() {
            let Some(descriptor) = &entry.descriptor else {
                continue;
            };
            given.push(GivenSocket {
                name: entry.name.clone(),
                descriptor: descriptor.try_clone()?,
            });
            entry.is_given = true;
        }
        Ok(given)
    }

    /// Closes its descriptors: a client of a node that stops must be refused, not left waiting.
    pub fn clear(&self) {
        if let Some(table) = &self.0 {
            for entry in table.lock().by_number.values_mut() {
                entry.descriptor = None;
            }
        }
    }
}

impl DescriptorEntry {
    /// Whether a successor was given it: a file that belongs to it is the successor's then.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.0.as_ref().is_some_and(|key| {
            let entries = key.table.lock();
            let entry = entries.by_number.get(&key.number);
            entry.is_some_and(|entry| entry.is_given)
        })
    }

    /// Gives it another name.
    pub fn rename(&self, name: &str) {
        if let Some(key) = &self.0
            && let Some(entry) = key.table.lock().by_number.get_mut(&key.number)
        {
            name.clone_into(&mut entry.name);
        }
    }
}

impl Drop for EntryKey {
    fn drop(&mut self) {
        self.table.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn names(table: &DescriptorTable) -> Vec<String> {
        let given = table.give().unwrap().into_iter();
        given.map(|given| given.name).collect()
    }

    #[test]
    fn what_is_open_is_given_under_its_name_of_now() {
        let table = DescriptorTable::for_successor();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let first = table.enter("voice", &socket).unwrap();
        let second = table.enter("voice", &socket).unwrap();
        assert!(!first.is_given());
        assert_eq!(names(&table), ["voice", "voice"]);
        assert!(first.is_given());

        second.rename("video");
        drop(first);
        assert_eq!(names(&table), ["video"]);
        table.clear();
        assert!(names(&table).is_empty());
        assert!(second.is_given());
    }

    #[test]
    fn a_node_without_a_successor_keeps_and_gives_nothing() {
        let table = DescriptorTable::default();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let entry = table.enter("voice", &socket).unwrap();
        assert!(!entry.is_given() && !table.has_successor());
        let refused = table.give().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    }
}
