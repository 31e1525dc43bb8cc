//! `Hermes-Transform`: which changes of a tunnel's bytes the two ends of a hop have agreed on.
//!
//! A node that asks another for a tunnel of bytes names what it could do to them, in its order; the other names in its answer what
//! of that it undoes. What is not confirmed is not done, so a peer that does not know the field gets plain bytes. A node believes
//! the field from peer proxies only, and removes it everywhere else.
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

/// Takes the names out of the fields.
pub fn take(fields: &mut Fields) -> Vec<String> {
    let named = fields.take(FIELD);
    let text = named.as_ref().and_then(|named| named.to_str().ok());
    let names = text.unwrap_or_default().split(',').map(str::trim);

    names
        .filter(|name| !name.is_empty())
        .take(NAMES)
        .map(str::to_owned)
        .collect()
}

/// Writes names into the fields; none where there are none.
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
        assert_eq!(take(&mut fields), ["a", "b"]);
        assert!(fields.is_empty() && take(&mut fields).is_empty());
        write([].into_iter(), &mut fields);
        assert!(fields.is_empty());
    }

    #[test]
    fn hostile_lists_are_bounded() {
        let mut fields = Fields::new();
        fields.insert(FIELD, ",a,,".repeat(100).parse::<HeaderValue>().unwrap());
        assert_eq!(take(&mut fields), vec!["a"; NAMES]);
        fields.insert(FIELD, HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(take(&mut fields).is_empty());
    }
}
