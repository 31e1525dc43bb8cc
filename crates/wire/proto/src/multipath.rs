//! `Hermes-Multipath`: a CONNECT whose connection to the target may use several paths at once (Multipath TCP, RFC 8684), as the Multipath
//! option of SOCKS6 asks for.
//!
//! The request says `Hermes-Multipath: ?1`. Where the tunnel ends, the connection is opened so, and the answer says by a Boolean (RFC 9651,
//! section 3.3.6) whether the target takes part; one that does not gets an ordinary connection. An answer without the field is one of a
//! proxy that knows nothing of this.

use http::{HeaderName, HeaderValue};

use crate::fields::Fields;

/// The field, in requests and in their answers.
pub const FIELD: HeaderName = HeaderName::from_static("hermes-multipath");

/// Whether the fields ask for several paths.
pub fn is_asked_for(fields: &Fields) -> bool {
    is_used(fields) == Some(true)
}

/// Whether the connection uses several paths, by the answer that opened its tunnel; `None` where it does not say.
pub fn is_used(fields: &Fields) -> Option<bool> {
    let mut lines = fields.values(FIELD);
    let (Some(only), None) = (lines.next(), lines.next()) else {
        return None;
    };
    match only.as_bytes().trim_ascii() {
        b"?1" => Some(true),
        b"?0" => Some(false),
        _ => None,
    }
}

/// The value that asks for several paths, or says whether there are.
pub fn value(is_multipath: bool) -> HeaderValue {
    HeaderValue::from_static(if is_multipath { "?1" } else { "?0" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_boolean_asks_and_answers() {
        let fields = |lines: &[&'static str]| -> Fields {
            let line = |text: &&'static str| (FIELD, HeaderValue::from_static(text));
            lines.iter().map(line).collect()
        };
        for is_used_there in [true, false] {
            let written = Fields::from_iter([(FIELD, value(is_used_there))]);
            assert_eq!(is_used(&written), Some(is_used_there));
            assert_eq!(is_asked_for(&written), is_used_there);
        }
        for lines in [&[][..], &["1"], &["?1", "?1"], &["?1;paths=2"], &["yes"]] {
            assert_eq!(is_used(&fields(lines)), None, "{lines:?}");
            assert!(!is_asked_for(&fields(lines)), "{lines:?}");
        }
    }
}
