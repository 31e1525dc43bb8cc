//! Reasons for the end of exchanges, in a fixed set of words that are fit for a metric's label.

use hermes_proto::proxy_status::ProxyError;

/// Ends without anyone to blame, or by the choice of one of the far ends.
const FAR_ENDS: [&str; 7] = [
    "done",
    "abandoned",
    "responded",
    "redirected",
    CLIENT_CLOSED,
    "client_reset",
    "target_reset",
];

/// Ends by this node that are no proxy error, or that say more than one would.
const OWN_ENDS: [&str; 3] = ["idle", POLICY_CHANGED, "evicted"];

/// The client was gone before the answer.
pub const CLIENT_CLOSED: &str = "client_closed";

/// The rules do not allow a tunnel any more.
pub const POLICY_CHANGED: &str = "policy_changed";

/// Whether an exchange that ended for `reason` ended without anyone to blame, or by the choice of one of the far ends.
#[must_use]
pub fn is_end_elsewhere(reason: &str) -> bool {
    FAR_ENDS.contains(&first_word(reason))
}

/// The class of `reason`: the text before its first colon, if that is one of our own words or a
/// proxy error type (RFC 9209 section 2.3); `other` if not.
#[must_use]
pub fn class_of(reason: &str) -> &'static str {
    let word = first_word(reason);
    let tokens = ProxyError::ALL.iter().map(|error| error.token());
    FAR_ENDS
        .into_iter()
        .chain(OWN_ENDS)
        .chain(tokens)
        .find(|class| *class == word)
        .unwrap_or("other")
}

/// The text of a reason before its details.
fn first_word(reason: &str) -> &str {
    reason.split(':').next().unwrap_or_default().trim()
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
