//! Fields by which two ends agree on a session that outlives the path to it.
//!
//! A request asks for a session with `?1`, or to go on with one; the answer names the session. All
//! other values are byte sequences (RFC 9651, 3.3.5).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};

use crate::fields::Fields;

/// A value that stands for a session.
pub trait SessionValue: Sized {
    /// The field that has it.
    const FIELD: HeaderName;

    /// Its bytes.
    fn encode(&self) -> Vec<u8>;

    /// The value with these bytes; `None` if they are malformed.
    fn decode(bytes: &[u8]) -> Option<Self>;

    /// Takes it out of a message; `None` if it is malformed.
    fn take(fields: &mut Fields) -> Option<Self> {
        parse(only(fields, &Self::FIELD)?.as_bytes())
    }

    /// Writes it.
    fn write(&self, fields: &mut Fields) {
        let text = format!(":{}:", STANDARD.encode(self.encode()));
        if let Ok(mut value) = HeaderValue::try_from(text) {
            value.set_sensitive(true);
            fields.insert(Self::FIELD, value);
        }
    }
}

/// The wish of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionRequest<T> {
    /// A session.
    New,
    /// To go on with one.
    Again(T),
}

impl<T: SessionValue> SessionRequest<T> {
    /// Takes the wish out of a request; `None` if it is malformed.
    pub fn take(fields: &mut Fields) -> Option<Self> {
        let value = only(fields, &T::FIELD)?;
        match value.as_bytes() {
            b"?1" => Some(Self::New),
            bytes => parse(bytes).map(Self::Again),
        }
    }

    /// Writes the wish.
    pub fn write(&self, fields: &mut Fields) {
        match self {
            Self::New => fields.insert(T::FIELD, HeaderValue::from_static("?1")),
            Self::Again(value) => value.write(fields),
        }
    }
}

/// The value of the field, which is removed; of several lines none counts.
fn only(fields: &mut Fields, field: &HeaderName) -> Option<HeaderValue> {
    let is_one = fields.values(field).count() == 1;
    fields.take(field).filter(|_| is_one)
}

fn parse<T: SessionValue>(value: &[u8]) -> Option<T> {
    let text = value.strip_prefix(b":")?.strip_suffix(b":")?;
    T::decode(&STANDARD.decode(text).ok()?)
}
