//! The common part of HPACK and QPACK: entries of tables, and repeated lines.

use crate::fields::LineName;

/// The overhead of an entry beside its name and its value, in bytes (RFC 7541, section 4.1; RFC
/// 9204, section 3.2.1).
pub(crate) const ENTRY_OVERHEAD: usize = 32;

/// Lines that are remembered as seen once. A line that does not come again soon is not worth an
/// entry: it would only push others out of the table.
#[doc(alias = "bound")]
const SEEN: usize = 64;

/// An entry of a dynamic table: a name and a value, in one allocation.
#[derive(Debug)]
pub(crate) struct TableEntry {
    /// The name, where it is a known one.
    known: Option<LineName<'static>>,
    /// The value, behind the name where that is not known.
    text: Box<[u8]>,
    /// Where the value begins.
    value: usize,
}

impl TableEntry {
    /// Keeps a copy of a line.
    pub(crate) fn new(name: LineName<'_>, value: &[u8]) -> Self {
        let known = LineName::owned(name);
        let own_name = match known {
            Some(_) => &[],
            None => name.as_bytes(),
        };
        Self {
            known,
            text: [own_name, value].concat().into_boxed_slice(),
            value: own_name.len(),
        }
    }

    pub(crate) fn name(&self) -> LineName<'_> {
        self.known
            .unwrap_or_else(|| LineName::Other(&self.text[..self.value]))
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.text[self.value..]
    }

    /// Its size in the table, in bytes.
    pub(crate) fn size(&self) -> usize {
        size(self.name(), self.value())
    }

    /// Whether it is this line.
    pub(crate) fn is(&self, name: LineName<'_>, value: &[u8]) -> bool {
        (self.name(), self.value()) == (name, value)
    }
}

/// The size of a line in a table, in bytes.
pub(crate) fn size(name: LineName<'_>, value: &[u8]) -> usize {
    name.as_bytes().len() + value.len() + ENTRY_OVERHEAD
}

/// Lines that came a moment ago, by their hashes.
#[derive(Debug)]
pub(crate) struct Seen([u32; SEEN]);

impl Default for Seen {
    fn default() -> Self {
        Self([0; SEEN])
    }
}

impl Seen {
    /// Notes that a line came; whether it came a moment ago as well.
    pub(crate) fn again(&mut self, hash: u32) -> bool {
        // One hash a slot: a collision forgets a line, which costs one more literal.
        std::mem::replace(&mut self.0[hash as usize % SEEN], hash) == hash
    }
}

/// A short hash of a line. Lines that share one cost a comparison, nothing more.
pub(crate) fn hash(name: LineName<'_>, value: &[u8]) -> u32 {
    /// The golden ratio: its multiples are spread evenly.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(SPREAD).rotate_left(29);
    let text = |hash: u64, text: &[u8]| {
        let (words, rest) = text.as_chunks::<8>();
        let hash = words
            .iter()
            .fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        let rest = rest
            .iter()
            .fold(text.len() as u64, |rest, byte| rest << 8 | u64::from(*byte));
        mix(hash, rest)
    };

    let name = match name.number() {
        Some(number) => mix(SPREAD, number as u64),
        None => text(SPREAD, name.as_bytes()),
    };
    (text(name, value) >> 32) as u32
}
