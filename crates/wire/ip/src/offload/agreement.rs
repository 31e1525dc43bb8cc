//! `Hermes-Ip-Super-Packets`: two nodes agree on a context for super-packets.
//!
//! The client says with the field that it takes super-packets, and in which context: an even one, as it allocates it (RFC 9484, section
//! 5). A proxy that takes them in turn says so with a [capsule](super::SuperCapsule::Takes), and takes it back with another
//! ([`TakesNone`](super::SuperCapsule::TakesNone)). To anyone else, no super-packet is ever sent.

use hermes_proto::fields::Fields;
use hermes_proto::varint;
use http::{HeaderName, HeaderValue};

/// The field.
pub const FIELD: HeaderName = HeaderName::from_static("hermes-ip-super-packets");

/// The context that we offer.
pub const CONTEXT: u64 = 2;

/// The field's value for a context.
pub fn value(context: u64) -> HeaderValue {
    HeaderValue::from(context)
}

/// The context that a request offers; `None` for one that no client may allocate, and where there is not exactly one.
pub fn offered(request: &Fields) -> Option<u64> {
    let mut lines = request.values(FIELD);
    let (Some(only), None) = (lines.next(), lines.next()) else {
        return None;
    };

    let text = str::from_utf8(only.as_bytes()).ok()?.trim_ascii();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let context: u64 = is_number.then(|| text.parse().ok())??;
    (context != 0 && context.is_multiple_of(2) && context <= varint::MAX).then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[&str]) -> Fields {
        let mut fields = Fields::new();
        for line in lines {
            fields.append(FIELD, line.parse::<HeaderValue>().unwrap());
        }
        fields
    }

    #[test]
    fn what_the_client_offers_is_read() {
        let mut request = Fields::new();
        assert_eq!(offered(&request), None);
        request.insert(FIELD, value(CONTEXT));
        assert_eq!(offered(&request), Some(CONTEXT));
        assert_eq!(offered(&fields(&[" 4 "])), Some(4));
    }

    #[test]
    fn what_no_client_may_allocate_is_not_agreed_to() {
        for lines in [
            &[][..],
            &["0"],
            &["3"],
            &["-2"],
            &["+2"],
            &["2, 4"],
            &["2", "4"],
            &["4611686018427387904"],
            &["99999999999999999999"],
            &["?1"],
        ] {
            assert_eq!(offered(&fields(lines)), None, "{lines:?}");
        }
    }
}
