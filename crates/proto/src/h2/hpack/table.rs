//! The tables that indexes refer to (RFC 7541, section 2.3).

use std::collections::VecDeque;
use std::sync::LazyLock;

use bytes::Bytes;
use http::HeaderName;

use super::static_table::ENTRIES;

/// What an entry costs beside its name and its value, in bytes (RFC 7541, section 4.1).
const ENTRY_OVERHEAD: usize = 32;

/// The name of a field line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineName {
    /// One that begins with a colon and is known.
    Pseudo(PseudoName),
    /// A token in lower case.
    Field(HeaderName),
    /// Anything else. It makes its message malformed, and still has its entry in the table.
    Bad(Bytes),
}

/// Pseudo-fields (RFC 9113, section 8.3; RFC 8441).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PseudoName {
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `:path`
    Path,
    /// `:protocol`
    Protocol,
    /// `:status`
    Status,
}

impl PseudoName {
    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Method => ":method",
            Self::Scheme => ":scheme",
            Self::Authority => ":authority",
            Self::Path => ":path",
            Self::Protocol => ":protocol",
            Self::Status => ":status",
        }
    }
}

impl LineName {
    /// Reads a name as it came. What is kept of it shares no memory with `bytes`.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let pseudo = match bytes {
            b":method" => PseudoName::Method,
            b":scheme" => PseudoName::Scheme,
            b":authority" => PseudoName::Authority,
            b":path" => PseudoName::Path,
            b":protocol" => PseudoName::Protocol,
            b":status" => PseudoName::Status,
            _ => {
                return match HeaderName::from_lowercase(bytes) {
                    Ok(name) => Self::Field(name),
                    Err(_) => Self::Bad(Bytes::copy_from_slice(bytes)),
                };
            }
        };
        Self::Pseudo(pseudo)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Pseudo(name) => name.as_str().as_bytes(),
            Self::Field(name) => name.as_str().as_bytes(),
            Self::Bad(name) => name,
        }
    }
}

/// A name and a value.
#[derive(Debug, Clone)]
pub(super) struct TableEntry {
    pub(super) name: LineName,
    pub(super) value: Bytes,
}

impl TableEntry {
    fn size(&self) -> usize {
        self.name.as_bytes().len() + self.value.len() + ENTRY_OVERHEAD
    }
}

static STATIC: LazyLock<Vec<TableEntry>> = LazyLock::new(|| {
    let entries = ENTRIES.iter();
    entries
        .map(|(name, value)| TableEntry {
            name: LineName::parse(name.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
        })
        .collect()
});

/// The dynamic table, behind the static one.
#[derive(Debug)]
pub(super) struct DynamicTable {
    /// The newest first.
    entries: VecDeque<TableEntry>,
    size: usize,
    /// What the peer has chosen of what it may.
    most: usize,
}

impl DynamicTable {
    pub(super) fn new(most: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            most,
        }
    }

    /// The entry of an index (RFC 7541, section 2.3.3).
    pub(super) fn entry(&self, index: u64) -> Option<&TableEntry> {
        let at = usize::try_from(index).ok()?.checked_sub(1)?;
        match at.checked_sub(ENTRIES.len()) {
            Some(dynamic) => self.entries.get(dynamic),
            None => STATIC.get(at),
        }
    }

    /// RFC 7541, section 4.4: what is larger than the table empties it.
    pub(super) fn insert(&mut self, entry: TableEntry) {
        let size = entry.size();
        self.evict(self.most.saturating_sub(size));
        if size <= self.most {
            self.size += size;
            self.entries.push_front(entry);
        }
    }

    pub(super) fn resize(&mut self, most: usize) {
        self.most = most;
        self.evict(most);
    }

    fn evict(&mut self, most: usize) {
        while self.size > most {
            let Some(entry) = self.entries.pop_back() else {
                return;
            };
            self.size -= entry.size();
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    #[cfg(test)]
    pub(super) fn lines(&self) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let lines = self.entries.iter();
        lines
            .map(|entry| (text(entry.name.as_bytes()), text(&entry.value)))
            .collect()
    }
}
