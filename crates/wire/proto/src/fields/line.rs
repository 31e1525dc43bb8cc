//! The names of lines in field sections (RFC 7541; RFC 9204): those that are known go by number.

use super::known::{KNOWN, NameId};
use super::{FieldName, is_name};

/// The name of a line of a field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineName<'a> {
    /// One that begins with a colon and is known.
    Pseudo(PseudoName),
    /// A name that has a number.
    Known(NameId),
    /// Any other, as it came: nothing is known of its letters.
    Other(&'a [u8]),
}

/// Pseudo-fields (RFC 9113, section 8.3; RFC 9114, section 4.3; RFC 8441).
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
    /// How many there are.
    pub(crate) const COUNT: usize = 6;

    /// The pseudo-fields of requests.
    pub(crate) const OF_REQUESTS: [Self; 5] = [
        Self::Method,
        Self::Scheme,
        Self::Authority,
        Self::Path,
        Self::Protocol,
    ];

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

    const fn parse(name: &[u8]) -> Option<Self> {
        let pseudo = match name {
            b":method" => Self::Method,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":path" => Self::Path,
            b":protocol" => Self::Protocol,
            b":status" => Self::Status,
            _ => return None,
        };
        Some(pseudo)
    }
}

impl<'a> LineName<'a> {
    /// Numbers that [`Self::number`] gives.
    pub(crate) const NUMBERS: usize = PseudoName::COUNT + KNOWN;

    /// Reads a name as it came.
    pub fn parse(name: &'a [u8]) -> Self {
        if name.first() == Some(&b':') {
            return PseudoName::parse(name).map_or(Self::Other(name), Self::Pseudo);
        }
        match NameId::of(name) {
            NameId::OTHER => Self::Other(name),
            id => Self::Known(id),
        }
    }

    /// The name of a field in a message.
    pub(crate) fn of_field(id: NameId, name: FieldName<'a>) -> Self {
        match id {
            NameId::OTHER => Self::Other(name.as_str().as_bytes()),
            id => Self::Known(id),
        }
    }

    /// Its bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        match self {
            Self::Pseudo(name) => name.as_str().as_bytes(),
            Self::Known(id) => id.as_str().as_bytes(),
            Self::Other(name) => name,
        }
    }

    /// Whether it may be the name of a field: a token in lower case, and not too long.
    pub(crate) fn is_field(self) -> bool {
        match self {
            Self::Pseudo(_) => false,
            Self::Known(_) => true,
            Self::Other(name) => is_name(name),
        }
    }

    /// A number of its own, where it is known.
    pub(crate) const fn number(self) -> Option<usize> {
        match self {
            Self::Pseudo(name) => Some(name as usize),
            Self::Known(id) => Some(PseudoName::COUNT + id.index()),
            Self::Other(_) => None,
        }
    }
}

impl LineName<'static> {
    /// The same name without a lifetime; `None` if it borrows bytes.
    pub(crate) fn owned(name: LineName<'_>) -> Option<Self> {
        match name {
            LineName::Pseudo(name) => Some(Self::Pseudo(name)),
            LineName::Known(id) => Some(Self::Known(id)),
            LineName::Other(_) => None,
        }
    }

    /// The names of a static table, which are all known.
    pub(crate) const fn of_table<const ENTRIES: usize>(
        entries: &[(&str, &str); ENTRIES],
    ) -> [Self; ENTRIES] {
        let mut names = [Self::Pseudo(PseudoName::Method); ENTRIES];
        let mut index = 0;
        while index < ENTRIES {
            let name = entries[index].0;
            names[index] = match PseudoName::parse(name.as_bytes()) {
                Some(pseudo) => Self::Pseudo(pseudo),
                None => Self::Known(NameId::known(name)),
            };
            index += 1;
        }
        names
    }
}
