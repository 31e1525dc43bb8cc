//! The bound on interim responses.

use hermes_proto::head::ResponseHead;

/// Interim responses (1xx) of one exchange. They pass no window, so a server could send them without end.
#[derive(Debug, Default)]
pub(crate) struct Interim {
    heads: usize,
    bytes: usize,
}

/// Interim responses of an exchange: few have more than one or two, and they pass no window.
#[doc(alias = "bound")]
const INTERIM: usize = 32;

/// Bytes of the fields of all interim responses together: those of one large head.
#[doc(alias = "bound")]
const INTERIM_BYTES: usize = 64 * 1024;

/// Bytes that a field costs beside its name and value (RFC 9113, 6.5.2).
const FIELD_COST: usize = 32;

impl Interim {
    /// Why an exchange fails that has more of them.
    pub(crate) const TOO_MANY: &str = "more than 32 interim responses, or 64 KiB of them";

    /// Counts another interim response; false if there are too many. A proxy must pass them on (RFC 9110, 15.2), so it
    /// does not drop any: the exchange fails.
    pub(crate) fn count(&mut self, head: &ResponseHead) -> bool {
        self.bytes += head.fields.size() + FIELD_COST * head.fields.len();
        self.heads += 1;
        self.heads <= INTERIM && self.bytes <= INTERIM_BYTES
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, StatusCode};

    use super::*;

    #[test]
    fn interim_responses_are_bounded_in_number_and_size() {
        let small = ResponseHead::new(StatusCode::EARLY_HINTS);
        let mut interim = Interim::default();
        assert!((0..INTERIM).all(|_| interim.count(&small)));
        assert!(!interim.count(&small));

        let mut large = small.clone();
        large.fields.insert(
            "link",
            HeaderValue::from_bytes(&[b'x'; INTERIM_BYTES / 4]).unwrap(),
        );
        let mut interim = Interim::default();
        assert_eq!(
            (0..INTERIM).take_while(|_| interim.count(&large)).count(),
            3
        );
    }
}
