//! `Hermes-Transform`: which changes of a tunnel's bytes the two ends of a hop have agreed on.
//!
//! A node that asks another for a tunnel of bytes names the transforms that it could apply, in its
//! order; the other names in its answer those that it undoes. An unconfirmed transform is not
//! applied, so a peer that does not know the field gets plain bytes. A node believes the field from
//! peer proxies only, and removes it everywhere else.
//!
//! ```text
//! Hermes-Transform: compress          ; in the request, and in its 2xx answer
//! ```

use http::{HeaderName, HeaderValue};

use crate::fields::Fields;

/// The field.
pub const FIELD: HeaderName = HeaderName::from_static("hermes-transform");

/// Names that are looked at in one field: no tunnel is changed in so many ways.
const NAMES: usize = 8;

/// A transform is named twice. Undone twice, a few bytes become the square of their possible
/// expansion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Hermes-Transform names a transform twice")]
pub struct NamedTwice;

/// Takes the names out of the fields.
///
/// # Errors
/// A name stands there twice.
pub fn take(fields: &mut Fields) -> Result<Vec<String>, NamedTwice> {
    let named = fields.take(FIELD);
    let text = named.as_ref().and_then(|named| named.to_str().ok());
    let listed = text.unwrap_or_default().split(',').map(str::trim);

    let mut names: Vec<String> = Vec::new();
    for name in listed.filter(|name| !name.is_empty()).take(NAMES) {
        if names.iter().any(|known| known == name) {
            return Err(NamedTwice);
        }
        names.push(name.to_owned());
    }

    Ok(names)
}

/// Writes names into the fields; no field for no names.
pub fn write<'a>(names: impl Iterator<Item = &'a str>, fields: &mut Fields) {
    let names: Vec<_> = names.collect();
    match HeaderValue::try_from(names.join(", ")) {
        Ok(value) if !names.is_empty() => {
            fields.insert(FIELD, value);
        }
        _ => {
            fields.remove(FIELD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_in_their_order() {
        let mut fields = Fields::new();
        write(["a", "b"].into_iter(), &mut fields);
        assert_eq!(fields.get(FIELD).unwrap(), "a, b");
        assert_eq!(take(&mut fields).unwrap(), ["a", "b"]);
        assert!(fields.is_empty() && take(&mut fields).unwrap().is_empty());
        write([].into_iter(), &mut fields);
        assert!(fields.is_empty());
    }

    #[test]
    fn hostile_lists_are_bounded() {
        let mut fields = Fields::new();
        let letters = ('a'..='z').map(|letter| format!(",{letter},,"));
        let listed: String = letters.collect();
        fields.insert(FIELD, listed.parse::<HeaderValue>().unwrap());
        assert_eq!(take(&mut fields).unwrap().len(), NAMES);
        fields.insert(FIELD, HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(take(&mut fields).unwrap().is_empty());
    }

    #[test]
    fn a_name_stands_once() {
        let mut fields = Fields::new();
        fields.insert(FIELD, HeaderValue::from_static("a, b,a"));
        assert_eq!(take(&mut fields), Err(NamedTwice));
        assert!(fields.is_empty());
    }
}
