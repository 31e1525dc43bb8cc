//! Names and values of fields, as they stand in a message.

use std::fmt;
use std::ops::Deref;

use http::{HeaderName, HeaderValue};

use super::known::NameId;

/// The name of a field in a message, in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldName<'a>(pub(super) &'a str);

impl<'a> FieldName<'a> {
    /// Its text, in lower case.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

impl Deref for FieldName<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.0
    }
}

impl fmt::Display for FieldName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Debug for FieldName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

impl PartialEq<str> for FieldName<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for FieldName<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<HeaderName> for FieldName<'_> {
    fn eq(&self, other: &HeaderName) -> bool {
        self.0 == other.as_str()
    }
}

impl PartialEq<&HeaderName> for FieldName<'_> {
    fn eq(&self, other: &&HeaderName) -> bool {
        self.0 == other.as_str()
    }
}

impl From<FieldName<'_>> for HeaderName {
    fn from(name: FieldName<'_>) -> Self {
        Self::from_lowercase(name.0.as_bytes()).expect("the name of a field is a token")
    }
}

/// Anything to look a field up by: a name in lower case.
///
/// Of text that a program does not have from such a type, make a [`HeaderName`]: only that is checked.
pub trait AsFieldName {
    /// The name.
    fn field_name(&self) -> FieldName<'_>;

    /// The number of the name.
    fn id(&self) -> NameId {
        NameId::of(self.field_name().as_bytes())
    }
}

impl AsFieldName for HeaderName {
    fn field_name(&self) -> FieldName<'_> {
        FieldName(self.as_str())
    }
}

impl AsFieldName for FieldName<'_> {
    fn field_name(&self) -> FieldName<'_> {
        *self
    }
}

/// A name written in the program: a token in lower case.
impl AsFieldName for &'static str {
    fn field_name(&self) -> FieldName<'_> {
        debug_assert!(
            HeaderName::from_lowercase(self.as_bytes()).is_ok(),
            "{self}"
        );
        FieldName(self)
    }
}

impl<N: AsFieldName> AsFieldName for &N {
    fn field_name(&self) -> FieldName<'_> {
        (**self).field_name()
    }

    fn id(&self) -> NameId {
        (**self).id()
    }
}

/// The value of a field in a message: no control characters but tabs, and no white space around it.
#[derive(Clone, Copy)]
pub struct FieldValue<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) sensitive: bool,
}

/// A value that is not ASCII text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value is not ASCII text")]
pub struct NoText;

impl<'a> FieldValue<'a> {
    /// A value of printable ASCII without spaces at its ends, of which the caller is certain.
    pub(crate) fn of_text(bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.iter().all(|byte| matches!(byte, b' '..=b'~')));
        debug_assert_eq!(bytes.trim_ascii().len(), bytes.len());
        Self {
            bytes,
            sensitive: false,
        }
    }

    /// Its bytes.
    pub fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Its text.
    ///
    /// # Errors
    /// The value has bytes that are not visible ASCII, spaces or tabs.
    pub fn to_str(self) -> Result<&'a str, NoText> {
        std::str::from_utf8(self.bytes)
            .ok()
            .filter(|text| text.is_ascii())
            .ok_or(NoText)
    }

    /// Its length in bytes.
    pub fn len(self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no byte.
    pub fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether nothing should keep it where others could guess it (RFC 7541, section 7.1.3).
    pub fn is_sensitive(self) -> bool {
        self.sensitive
    }

    /// The same value, which nothing should keep where others could guess it.
    #[must_use]
    pub fn secret(self) -> Self {
        Self {
            sensitive: true,
            ..self
        }
    }

    /// A value of its own.
    pub fn to_value(self) -> HeaderValue {
        let mut value =
            HeaderValue::from_bytes(self.bytes).expect("the value of a field has no controls");
        value.set_sensitive(self.sensitive);
        value
    }
}

impl fmt::Debug for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sensitive {
            return f.write_str("Sensitive");
        }
        write!(f, "\"{}\"", self.bytes.escape_ascii())
    }
}

impl PartialEq for FieldValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for FieldValue<'_> {}

impl PartialEq<str> for FieldValue<'_> {
    fn eq(&self, other: &str) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl PartialEq<&str> for FieldValue<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl PartialEq<String> for FieldValue<'_> {
    fn eq(&self, other: &String) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl PartialEq<HeaderValue> for FieldValue<'_> {
    fn eq(&self, other: &HeaderValue) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl PartialEq<&HeaderValue> for FieldValue<'_> {
    fn eq(&self, other: &&HeaderValue) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl From<FieldValue<'_>> for HeaderValue {
    fn from(value: FieldValue<'_>) -> Self {
        value.to_value()
    }
}

/// Anything that can be the value of a field.
pub trait AsFieldValue {
    /// The value.
    fn field_value(&self) -> FieldValue<'_>;
}

impl AsFieldValue for HeaderValue {
    fn field_value(&self) -> FieldValue<'_> {
        FieldValue {
            bytes: self.as_bytes().trim_ascii(),
            sensitive: self.is_sensitive(),
        }
    }
}

impl AsFieldValue for FieldValue<'_> {
    fn field_value(&self) -> FieldValue<'_> {
        *self
    }
}

impl<V: AsFieldValue> AsFieldValue for &V {
    fn field_value(&self) -> FieldValue<'_> {
        (**self).field_value()
    }
}
