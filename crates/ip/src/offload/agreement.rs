//! `Hermes-Ip-Super-Packets`: two nodes agree on a context for super-packets.
//!
//! The client offers a context ID in the request, an even one as it allocates it (RFC 9484, section 5). A proxy that takes
//! super-packets repeats it in its answer; then both may send in that context. To anyone else, no super-packet is ever sent.

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

/// Says in an answer that this node takes super-packets, and in which context; `None`, and nothing in the answer, where the request
/// offered none.
pub fn agree(request: &Fields, answer: &mut Fields) -> Option<u64> {
    let context = offered(request);
    match context {
        Some(context) => {
            answer.insert(FIELD, value(context));
        }
        None => {
            answer.remove(FIELD);
        }
    }
    context
}

/// Whether an answer agrees to the context that was offered.
pub fn is_agreed(answer: &Fields, context: u64) -> bool {
    offered(answer) == Some(context)
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
    fn both_ends_agree_on_what_the_client_offers() {
        let mut request = Fields::new();
        request.insert(FIELD, value(CONTEXT));
        let mut answer = Fields::new();
        assert_eq!(agree(&request, &mut answer), Some(CONTEXT));
        assert!(is_agreed(&answer, CONTEXT) && !is_agreed(&answer, 4));
        assert!(!is_agreed(&Fields::new(), CONTEXT));
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
            let mut answer = fields(&["2"]);
            assert_eq!(agree(&fields(lines), &mut answer), None, "{lines:?}");
            assert_eq!(answer.values(FIELD).count(), 0);
        }
    }
}
