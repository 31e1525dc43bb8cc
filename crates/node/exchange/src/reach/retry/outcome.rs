//! Failures and responses as a retry policy sees them.

use std::time::{Duration, SystemTime};

use hermes_http::{Cause, Processed, StreamError};
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::RETRY_AFTER;
use hermes_rules::retry::Outcome;
use hermes_upstream::FailureKind;

/// A stream that failed before its response; `None` if another attempt would end in the same way. `reused`: the connection had
/// served other exchanges.
pub(crate) fn of_stream(error: &StreamError, reused: bool) -> Option<Outcome> {
    match &error.cause {
        Cause::Invalid(_) | Cause::Slow | Cause::Memory(_) => None,
        Cause::Alert { .. } if error.processed == Processed::No => Some(Outcome::Untrusted),
        _ if error.processed == Processed::No => Some(Outcome::Refused),
        Cause::Silent(_) => Some(Outcome::Silent),
        Cause::Incomplete | Cause::Reset(_) if reused => Some(Outcome::Stale),
        Cause::Incomplete | Cause::Reset(_) | Cause::Io(_) | Cause::Closing => Some(Outcome::Reset),
        Cause::Alert { .. } => Some(Outcome::Reset),
        Cause::Protocol(_) | Cause::Unsupported(_) => None,
    }
}

/// A stream that could not be opened, so that nothing was processed; `None` as of [`of_stream`].
pub(crate) fn of_opening(error: &StreamError) -> Option<Outcome> {
    match of_stream(error, false)? {
        Outcome::Untrusted => Some(Outcome::Untrusted),
        _ => Some(Outcome::Refused),
    }
}

/// A connection that did not come about; `None` if a rule or a limit forbids it, now and the next time.
pub(crate) fn of_connect(kind: FailureKind) -> Option<Outcome> {
    match kind {
        FailureKind::Dotless | FailureKind::Prohibited | FailureKind::Limit => None,
        FailureKind::Descriptors | FailureKind::Ports => None,
        kind if kind.is_of_trust() => Some(Outcome::Untrusted),
        _ => Some(Outcome::ConnectFailure),
    }
}

/// `Retry-After` (RFC 9110, 10.2.3): seconds, or a date, which may have passed.
pub(super) fn retry_after(fields: &Fields, now: SystemTime) -> Option<Duration> {
    let value = fields.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are as good as never.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let after = |text: &str| {
            let fields =
                Fields::from_iter([(RETRY_AFTER, text.parse::<http::HeaderValue>().unwrap())]);
            retry_after(&fields, now).map(|after| after.as_secs())
        };
        assert_eq!(after("120"), Some(120));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:38 GMT"), Some(1));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:30 GMT"), Some(0));
        assert_eq!(after("99999999999999999999999"), Some(u64::MAX));
        for odd in ["", "-1", "1.5", "soon"] {
            assert_eq!(after(odd), None, "{odd}");
        }
        assert_eq!(retry_after(&Fields::new(), now), None);
    }

    #[test]
    fn a_certificate_that_is_not_believed_is_final_for_its_endpoint_wherever_it_is_found() {
        const UNKNOWN_CA: u8 = 48;
        const INTERNAL_ERROR: u8 = 80;
        for kind in [
            FailureKind::Tls { certificate: true },
            FailureKind::TlsAlert(UNKNOWN_CA),
            FailureKind::Alpn,
        ] {
            assert_eq!(of_connect(kind), Some(Outcome::Untrusted), "{kind:?}");
        }
        for kind in [
            FailureKind::Tls { certificate: false },
            FailureKind::TlsAlert(INTERNAL_ERROR),
            FailureKind::Timeout,
        ] {
            assert_eq!(of_connect(kind), Some(Outcome::ConnectFailure), "{kind:?}");
        }

        let alerted = |id| StreamError::alerted(id, String::new());
        assert_eq!(
            of_stream(&alerted(UNKNOWN_CA), false),
            Some(Outcome::Untrusted)
        );
        assert_eq!(of_opening(&alerted(UNKNOWN_CA)), Some(Outcome::Untrusted));
        assert_eq!(
            of_stream(&alerted(INTERNAL_ERROR), false),
            Some(Outcome::Reset)
        );
    }

    #[test]
    fn an_old_connection_that_ends_is_no_failure_of_the_next_hop() {
        let ended = || StreamError::new(Cause::Incomplete);
        assert_eq!(of_stream(&ended(), true), Some(Outcome::Stale));
        assert_eq!(of_stream(&ended(), false), Some(Outcome::Reset));
        let refused = StreamError::unprocessed(Cause::Closing);
        assert_eq!(of_stream(&refused, true), Some(Outcome::Refused));
        assert_eq!(
            of_stream(
                &StreamError::unprocessed(Cause::Invalid(String::new())),
                false
            ),
            None
        );
    }
}
