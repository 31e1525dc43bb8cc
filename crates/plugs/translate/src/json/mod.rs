//! JSON (RFC 8259) as translations need it: numbers keep their digits, a name stands once in an object, and each mistake has its place.

mod builder;
mod decode;
mod scanner;
mod write;

use indexmap::IndexMap;

pub(crate) use builder::Builder;
pub(crate) use decode::is_number;
pub(crate) use scanner::{Event, Malformed, ScanBounds, Scanner};
pub(crate) use write::write_string;

/// Bytes of memory that a value takes beside its text, with its place in a list or an object.
pub(crate) const VALUE: usize = 128;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, as it was written: a double has not the digits for all of them.
    Number(Box<str>),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object.
    Map(Box<Members>),
}

/// The members of an object, in the order in which they came.
pub(crate) type Members = IndexMap<String, Json>;

impl Json {
    /// An object without members.
    pub(crate) fn map() -> Self {
        Self::Map(Box::default())
    }

    /// Reads a whole text.
    ///
    /// # Errors
    /// The first mistake.
    pub(crate) fn parse(text: &[u8], bounds: ScanBounds) -> Result<Self, Malformed> {
        let mut scanner = Scanner::new(bounds);
        let mut builder = Builder::default();
        let mut whole = None;
        let mut take = |event: Event| -> Result<(), &'static str> {
            whole = builder.take(event)?.or(whole.take());
            Ok(())
        };
        scanner.push(text, &mut take)?;
        scanner.finish(&mut take)?;
        whole.ok_or_else(|| scanner.malformed("there is no value"))
    }

    /// Its kind, for reasons.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "an array",
            Self::Map(_) => "an object",
        }
    }

    /// The text of a value that has no parts: a number and a boolean as they are written, `null` as nothing.
    pub(crate) fn plain(&self) -> Option<&str> {
        match self {
            Self::Null => Some(""),
            Self::Bool(true) => Some("true"),
            Self::Bool(false) => Some("false"),
            Self::Number(number) => Some(number),
            Self::Text(text) => Some(text),
            Self::List(_) | Self::Map(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
