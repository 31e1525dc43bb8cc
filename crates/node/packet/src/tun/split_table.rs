//! Splits the destinations of a device between several tunnels.

use std::net::IpAddr;
use std::sync::Arc;

use hermes_ip::{PrefixTable, PrefixTableError};
use hermes_proto::ip::IpPrefix;

/// One of several tunnels of a device, and its prefixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitPrefixes {
    /// Its name.
    pub tunnel: Arc<str>,
    /// The destinations of the packets that it takes, but for those of which another has a longer prefix.
    pub prefixes: Vec<IpPrefix>,
}

/// From destinations to tunnels. A prefix of a closed tunnel leads nowhere: a shorter prefix
/// belongs to another tunnel.
#[derive(Debug)]
pub(super) struct SplitTable<E> {
    table: PrefixTable<usize>,
    tunnels: Vec<SplitEntry<E>>,
}

#[derive(Debug)]
struct SplitEntry<E> {
    prefixes: SplitPrefixes,
    open: Option<OpenEntry<E>>,
}

/// The tunnel of an entry, by its number.
#[derive(Debug)]
struct OpenEntry<E> {
    number: u64,
    end: Arc<E>,
}

impl<E> Default for SplitTable<E> {
    fn default() -> Self {
        Self {
            table: PrefixTable::default(),
            tunnels: Vec::new(),
        }
    }
}

impl<E> SplitTable<E> {
    /// Sets the prefixes of each tunnel; open tunnels stay entered under their names.
    ///
    /// # Errors
    /// [`PrefixTableError`], with nothing changed.
    pub(super) fn set(&mut self, tunnels: &[SplitPrefixes]) -> Result<(), PrefixTableError> {
        let mut all = Vec::new();
        for (number, tunnel) in tunnels.iter().enumerate() {
            all.extend(tunnel.prefixes.iter().map(|prefix| (*prefix, number)));
        }
        self.table = PrefixTable::new(&all)?;

        let mut before = std::mem::take(&mut self.tunnels);
        let mut open_of = |name: &str| {
            let mut before = before.iter_mut();
            let found = before.find(|entry| *entry.prefixes.tunnel == *name);
            found.and_then(|entry| entry.open.take())
        };
        let entries = tunnels.iter().map(|prefixes| SplitEntry {
            prefixes: prefixes.clone(),
            open: open_of(&prefixes.tunnel),
        });
        self.tunnels = entries.collect();
        Ok(())
    }

    /// Enters an open tunnel under its name.
    pub(super) fn enter(&mut self, name: &str, number: u64, end: &Arc<E>) {
        let mut tunnels = self.tunnels.iter_mut();
        if let Some(entry) = tunnels.find(|entry| *entry.prefixes.tunnel == *name) {
            let end = end.clone();
            entry.open = Some(OpenEntry { number, end });
        }
    }

    /// Removes a tunnel that has ended.
    pub(super) fn leave(&mut self, number: u64) {
        for entry in &mut self.tunnels {
            entry.open.take_if(|open| open.number == number);
        }
    }

    /// The tunnel for a destination.
    pub(super) fn end_of(&self, destination: IpAddr) -> Option<&Arc<E>> {
        let number = self.table.find(destination)?;
        let open = self.tunnels.get(number)?.open.as_ref()?;
        Some(&open.end)
    }

    /// The prefixes of each tunnel.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = &SplitPrefixes> {
        self.tunnels.iter().map(|entry| &entry.prefixes)
    }
}
