//! Why exchanges end, in a fixed set of words that are fit for a metric's label.

use hermes_proto::proxy_status::ProxyError;

/// Ends that are no proxy error, or that say more than one would.
const ENDS: [&str; 10] = [
    "done",
    "abandoned",
    "responded",
    "redirected",
    "client_closed",
    "client_reset",
    "target_reset",
    "idle",
    "policy_changed",
    "evicted",
];

/// The client was gone before the answer.
pub const CLIENT_CLOSED: &str = ENDS[4];

/// The class of `reason`: the text before its first colon, if that is one of our own words or a
/// proxy error type (RFC 9209 section 2.3); `other` if not.
#[must_use]
pub fn class_of(reason: &str) -> &'static str {
    let word = reason.split(':').next().unwrap_or_default().trim();
    let tokens = ProxyError::ALL.iter().map(|error| error.token());
    ENDS.into_iter()
        .chain(tokens)
        .find(|class| *class == word)
        .unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_classed_by_its_first_word() {
        let cases = [
            ("done", "done"),
            ("connection_refused: 192.0.2.1:80", "connection_refused"),
            ("destination_not_found", "destination_not_found"),
            ("something a client wrote", "other"),
            ("", "other"),
        ];
        for (reason, class) in cases {
            assert_eq!(class_of(reason), class, "{reason}");
        }
    }
}
