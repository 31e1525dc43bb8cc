//! The fields of a message (RFC 9110, section 5): its lines in their order, as ranges of one text.
//!
//! The text has each line as HTTP/1.1 writes it:
//!
//! ```text
//! name ":" SP value CRLF
//! ```
//!
//! so that the lines of an HTTP/1.1 message are taken by one copy, and lines that stand behind each
//! other go on by one copy, too. An edit writes a line behind the others, or leaves one out of the
//! index; so a message takes the memory of every line ever written into it, which the limits of
//! heads bound. Names are in lower case. Those that are known are compared by number. Where the
//! original spelling of names is kept, it stands in the text, too.

mod known;
mod line;
pub mod names;
mod spelling;
mod value;

use std::fmt;
use std::ops::Range;

use http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) use known::Class;
pub use known::NameId;
pub use line::{LineName, PseudoName};
pub use value::{AsFieldName, AsFieldValue, FieldName, FieldValue, NoText};

/// Bytes that are reserved with the first line.
#[doc(alias = "bound")]
const USUAL_BYTES: usize = 384;

/// Lines that are reserved with the first one.
#[doc(alias = "bound")]
const USUAL_LINES: usize = 10;

/// Bytes for lines that a proxy adds to a message.
#[doc(alias = "bound")]
const ADDED_BYTES: usize = 256;

/// Lines that a proxy adds to those that came.
#[doc(alias = "bound")]
const ADDED_LINES: usize = 6;

/// Most bytes of a name.
#[doc(alias = "bound")]
pub(crate) const NAME_BYTES: usize = 1 << 15;

/// Between a name and its value.
const COLON: &[u8] = b": ";

/// Behind a value.
const END: &[u8] = b"\r\n";

/// The fields of a message, in their order; those of one name are in the order that they came in.
#[derive(Clone, Default)]
pub struct Fields {
    text: Vec<u8>,
    lines: Vec<Line>,
}

/// Where a line stands in the text.
#[derive(Debug, Clone, Copy)]
struct Line {
    start: u32,
    value_length: u32,
    name_length: u16,
    id: NameId,
    sensitive: bool,
}

impl Line {
    fn name(self) -> Range<usize> {
        let start = self.start as usize;
        start..start + usize::from(self.name_length)
    }

    fn value(self) -> Range<usize> {
        let start = self.name().end + COLON.len();
        start..start + self.value_length as usize
    }

    /// All of it, with its end.
    fn whole(self) -> Range<usize> {
        self.start as usize..self.value().end + END.len()
    }
}

/// A value with a control character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value has a control character")]
pub(crate) struct BadValue;

impl Fields {
    /// No fields.
    pub const fn new() -> Self {
        Self {
            text: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// No fields, with room for this many lines and bytes, and some more.
    pub fn with_capacity(lines: usize, bytes: usize) -> Self {
        Self {
            text: Vec::with_capacity(bytes + ADDED_BYTES),
            lines: Vec::with_capacity(lines + ADDED_LINES),
        }
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Bytes of all names and values.
    pub fn size(&self) -> usize {
        let size = |line: &Line| usize::from(line.name_length) + line.value_length as usize;
        self.lines.iter().map(size).sum()
    }

    /// Bytes of memory that the lines take.
    pub fn footprint(&self) -> usize {
        self.text.len() + self.lines.len() * size_of::<Line>()
    }

    /// The first value of this name.
    pub fn get(&self, name: impl AsFieldName) -> Option<FieldValue<'_>> {
        let at = self.find(&name)?;
        Some(self.value_of(self.lines[at]))
    }

    /// The values of this name, in their order.
    pub fn values(&self, name: impl AsFieldName) -> Values<'_> {
        let (first, lines) = match self.find(&name) {
            Some(at) => (Some(self.lines[at]), &self.lines[at..]),
            None => (None, &[][..]),
        };
        Values {
            fields: self,
            lines: lines.iter(),
            first,
        }
    }

    /// Whether there is one of this name.
    pub fn contains_key(&self, name: impl AsFieldName) -> bool {
        self.find(&name).is_some()
    }

    /// All lines, in their order.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            fields: self,
            lines: self.lines.iter(),
        }
    }

    /// All lines, with the numbers of their names.
    pub(crate) fn known(&self) -> impl Iterator<Item = (NameId, FieldName<'_>, FieldValue<'_>)> {
        let line = |line: &Line| (line.id, self.name_of(*line), self.value_of(*line));
        self.lines.iter().map(line)
    }

    /// The names of all lines; one that stands on several lines comes several times.
    pub fn names(&self) -> impl Iterator<Item = FieldName<'_>> {
        self.lines.iter().map(|line| self.name_of(*line))
    }

    /// Adds a line.
    pub fn append(&mut self, name: impl AsFieldName, value: impl AsFieldValue) {
        let line = self.write(&name, value.field_value());
        self.lines.push(line);
    }

    /// Makes this the only line of its name; it stands where the first one stood.
    pub fn insert(&mut self, name: impl AsFieldName, value: impl AsFieldValue) {
        let line = self.write(&name, value.field_value());
        match self.find(&name) {
            None => self.lines.push(line),
            Some(at) => {
                self.lines[at] = line;
                self.remove_from(at + 1, &name);
            }
        }
    }

    /// Removes all lines of this name; whether there were any.
    pub fn remove(&mut self, name: impl AsFieldName) -> bool {
        self.remove_from(0, &name)
    }

    /// Removes all lines of this name, and gives the first value.
    pub fn take(&mut self, name: impl AsFieldName) -> Option<HeaderValue> {
        let value = self.get(&name)?.to_value();
        self.remove(name);
        Some(value)
    }

    /// Takes all lines of others, in place of those of the same names.
    pub fn replace(&mut self, others: &Self) {
        self.retain(|name| !others.contains_key(name));
        self.extend(others);
    }

    /// Takes the lines of `others` with names that are absent here.
    pub fn extend_absent(&mut self, others: &Self) {
        let mut absent = others.clone();
        absent.retain(|name| !self.contains_key(name));
        self.extend(&absent);
    }

    /// Takes the lines of `others` with names that are present here, in place of these.
    pub fn replace_present(&mut self, others: &Self) {
        let mut present = others.clone();
        present.retain(|name| self.contains_key(name));
        self.replace(&present);
    }

    /// Keeps the lines with a wanted name.
    pub fn retain(&mut self, mut is_wanted: impl FnMut(FieldName<'_>) -> bool) {
        let Self { text, lines } = self;
        lines.retain(|line| is_wanted(name_in(text, *line)));
    }

    /// Removes all lines.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
    }

    /// Whether a line's name is of this class.
    pub(crate) fn has(&self, class: Class) -> bool {
        self.lines.iter().any(|line| line.id.is(class))
    }

    /// Removes the lines with names of this class.
    pub(crate) fn remove_class(&mut self, class: Class) {
        self.lines.retain(|line| !line.id.is(class));
    }

    /// Lines as HTTP/1.1 writes them, but those of a class: each piece is as long as no line between is left out.
    pub(crate) fn wire(&self, without: Class) -> impl Iterator<Item = &[u8]> {
        let mut lines = self
            .lines
            .iter()
            .filter(move |line| !line.id.is(without))
            .map(|line| line.whole())
            .peekable();
        std::iter::from_fn(move || {
            let mut piece = lines.next()?;
            while let Some(next) = lines.next_if(|next| next.start == piece.end) {
                piece.end = next.end;
            }
            Some(&self.text[piece])
        })
    }

    /// Adds a line of bytes from outside; the [name](LineName::is_field) was checked.
    ///
    /// # Errors
    /// The value cannot be one.
    pub(crate) fn append_line(
        &mut self,
        name: LineName<'_>,
        value: &[u8],
    ) -> Result<NameId, BadValue> {
        debug_assert!(name.is_field(), "{name:?}");
        if !is_value(value) {
            return Err(BadValue);
        }

        let id = match name {
            LineName::Known(id) => id,
            LineName::Pseudo(_) | LineName::Other(_) => NameId::OTHER,
        };
        let value = FieldValue {
            bytes: value.trim_ascii(),
            sensitive: false,
        };
        let line = self.write_line(id, name.as_bytes(), value);
        self.lines.push(line);
        Ok(id)
    }

    /// Takes the bytes of lines as they came over HTTP/1.1; [`Self::came`] then says where each line is.
    pub(crate) fn of_wire(text: &[u8], lines: usize) -> Self {
        let mut fields = Self::with_capacity(lines, text.len());
        fields.text.extend_from_slice(text);
        fields
    }

    /// The text that lines are in.
    pub(crate) fn text_mut(&mut self) -> &mut [u8] {
        &mut self.text
    }

    /// Indexes a line at these places of the text. Its name is in lower case; both parts were
    /// checked.
    pub(crate) fn came(&mut self, name: Range<usize>, value: Range<usize>) {
        let id = NameId::of(&self.text[name.clone()]);
        let is_canonical = value.start == name.end + COLON.len()
            && self.text[name.end..].starts_with(COLON)
            && self.text[value.end..].starts_with(END);
        let start = if is_canonical {
            name.start
        } else {
            self.write_again(name.clone(), value.clone())
        };
        self.lines.push(Line {
            start: number(start),
            value_length: number(value.len()),
            name_length: name.len() as u16,
            id,
            sensitive: false,
        });
    }

    /// Writes a line of the text once more, as it should stand there, and gives its new place.
    fn write_again(&mut self, name: Range<usize>, value: Range<usize>) -> usize {
        let start = self.text.len();
        self.text.extend_from_within(name);
        self.text.extend_from_slice(COLON);
        self.text.extend_from_within(value);
        self.text.extend_from_slice(END);
        start
    }

    fn write(&mut self, name: &impl AsFieldName, value: FieldValue<'_>) -> Line {
        self.write_line(name.id(), name.field_name().as_bytes(), value)
    }

    fn write_line(&mut self, id: NameId, name: &[u8], value: FieldValue<'_>) -> Line {
        let start = self.text.len();
        let length = name.len() + COLON.len() + value.len() + END.len();
        if self.text.capacity() - start < length {
            self.make_room(length);
        }

        self.text.extend_from_slice(name);
        self.text.extend_from_slice(COLON);
        self.text.extend_from_slice(value.bytes);
        self.text.extend_from_slice(END);
        Line {
            start: number(start),
            value_length: number(value.len()),
            name_length: u16::try_from(name.len()).expect("http bounds the length of names"),
            id,
            sensitive: value.sensitive,
        }
    }

    /// Room for a line of `length` bytes; the first time for as many lines as messages usually have.
    #[cold]
    fn make_room(&mut self, length: usize) {
        if self.text.is_empty() {
            self.lines.reserve(USUAL_LINES);
        }
        self.text.reserve(length.max(USUAL_BYTES));
    }

    fn find(&self, name: &impl AsFieldName) -> Option<usize> {
        let id = name.id();
        if id != NameId::OTHER {
            return self.lines.iter().position(|line| line.id == id);
        }

        let name = name.field_name().as_str().as_bytes();
        let is_it = |line: &Line| line.id == id && self.text[line.name()] == *name;
        self.lines.iter().position(is_it)
    }

    fn remove_from(&mut self, from: usize, name: &impl AsFieldName) -> bool {
        let id = name.id();
        let name = name.field_name().as_str().as_bytes();
        let Self { text, lines } = self;
        let before = lines.len();
        let mut at = 0;

        lines.retain(|line| {
            let is_named = line.id == id && (id != NameId::OTHER || text[line.name()] == *name);
            let is_it = at >= from && is_named;
            at += 1;
            !is_it
        });
        lines.len() < before
    }

    fn name_of(&self, line: Line) -> FieldName<'_> {
        name_in(&self.text, line)
    }

    fn value_of(&self, line: Line) -> FieldValue<'_> {
        FieldValue {
            bytes: &self.text[line.value()],
            sensitive: line.sensitive,
        }
    }
}

fn name_in(text: &[u8], line: Line) -> FieldName<'_> {
    if line.id != NameId::OTHER {
        return FieldName(line.id.as_str());
    }
    // Names are tokens, which are ASCII; were one not, it would be no name that anyone looks for.
    FieldName(std::str::from_utf8(&text[line.name()]).unwrap_or_default())
}

/// A place or a length in a text, which the limits of heads keep far below 4 GiB.
fn number(size: usize) -> u32 {
    u32::try_from(size).expect("the fields of a message stay below 4 GiB")
}

/// Whether it is a token in lower case, and not too long.
pub(crate) fn is_name(name: &[u8]) -> bool {
    let fits = |byte: &u8| crate::quoted::is_tchar(*byte) && !byte.is_ascii_uppercase();
    !name.is_empty() && name.len() <= NAME_BYTES && name.iter().all(fits)
}

/// Whether all bytes may stand in a value (RFC 9110, 5.5): no controls but tabs. It does not stop
/// early, so that the compiler can vectorise the loop.
pub(crate) fn is_value(value: &[u8]) -> bool {
    value
        .iter()
        .fold(true, |all, byte| all & is_value_byte(*byte))
}

/// Whether a byte may stand in a value.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The lines of a message; see [`Fields::iter`].
#[derive(Clone)]
pub struct Iter<'a> {
    fields: &'a Fields,
    lines: std::slice::Iter<'a, Line>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (FieldName<'a>, FieldValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.lines.next()?;
        Some((self.fields.name_of(*line), self.fields.value_of(*line)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.lines.size_hint()
    }
}

/// The values of one name; see [`Fields::values`].
#[derive(Clone, Debug)]
pub struct Values<'a> {
    fields: &'a Fields,
    lines: std::slice::Iter<'a, Line>,
    /// A line of this name.
    first: Option<Line>,
}

impl<'a> Values<'a> {
    fn of(&self, line: Line) -> Option<FieldValue<'a>> {
        let text = &self.fields.text;
        let first = self.first?;
        let is_it = line.id == first.id
            && (line.id != NameId::OTHER || text[line.name()] == text[first.name()]);
        is_it.then(|| self.fields.value_of(line))
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = FieldValue<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let line = *self.lines.next()?;
            if let Some(value) = self.of(line) {
                return Some(value);
            }
        }
    }
}

impl DoubleEndedIterator for Values<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            let line = *self.lines.next_back()?;
            if let Some(value) = self.of(line) {
                return Some(value);
            }
        }
    }
}

impl<'a> IntoIterator for &'a Fields {
    type Item = (FieldName<'a>, FieldValue<'a>);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<N: AsFieldName, V: AsFieldValue> Extend<(N, V)> for Fields {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, lines: I) {
        for (name, value) in lines {
            self.append(name, value);
        }
    }
}

impl<N: AsFieldName, V: AsFieldValue> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(lines: I) -> Self {
        let mut fields = Self::new();
        fields.extend(lines);
        fields
    }
}

/// The same lines; the order counts only among those of one name (RFC 9110, section 5.3).
impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        let same = |name| self.values(name).eq(other.values(name));
        self.len() == other.len() && self.names().all(same)
    }
}

impl Eq for Fields {}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl From<&HeaderMap> for Fields {
    fn from(map: &HeaderMap) -> Self {
        map.iter().collect()
    }
}

impl From<&Fields> for HeaderMap {
    fn from(fields: &Fields) -> Self {
        let line = |(name, value)| (HeaderName::from(name), HeaderValue::from(value));
        let mut map = Self::new();
        for (name, value) in fields.iter().map(line) {
            map.append(name, value);
        }
        map
    }
}

#[cfg(test)]
mod tests;
