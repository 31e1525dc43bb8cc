//! Whether a request is a broadcast, and whether its sender may ask for one.

use hermes_config::model::Broadcast;
use hermes_proto::fields::Fields;
use http::HeaderName;

use crate::trust::Source;

/// Name of the field that asks for copies. It is an overlay field: a client's value counts only if
/// the listener accepts it.
pub const FIELD: HeaderName = HeaderName::from_static("x-hermes-broadcast");

/// Whether these fields ask for copies: the field stands there once, and says `true`.
pub fn asked(fields: &Fields) -> bool {
    let mut lines = fields.values(FIELD);
    let first = lines.next();
    first.is_some_and(|line| line.as_bytes().trim_ascii().eq_ignore_ascii_case(b"true"))
        && lines.next().is_none()
}

/// Whether the sender may: its user and the peer that hands it over are named. Where no one is named, no one may.
pub fn may(broadcast: &Broadcast, user: Option<&str>, source: &Source<'_>) -> bool {
    let user_may =
        || user.is_some_and(|user| broadcast.users.iter().any(|pattern| pattern.matches(user)));
    let peer_may = || matches!(source, Source::Peer { name, .. } if broadcast.peers.iter().any(|peer| peer == name));
    match (broadcast.users.is_empty(), broadcast.peers.is_empty()) {
        (true, true) => false,
        (false, true) => user_may(),
        (true, false) => peer_may(),
        (false, false) => user_may() && peer_may(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::{Border, Mandate};

    fn fields(lines: &[&str]) -> Fields {
        lines
            .iter()
            .map(|line| (FIELD, line.parse::<http::HeaderValue>().unwrap()))
            .collect()
    }

    #[test]
    fn only_one_line_that_says_true_asks() {
        assert!(asked(&fields(&["true"])) && asked(&fields(&[" True "])));
        for lines in [
            &[][..],
            &["false"],
            &["1"],
            &["true", "true"],
            &["true, true"],
        ] {
            assert!(!asked(&fields(lines)), "{lines:?}");
        }
    }

    #[test]
    fn users_and_peers_that_are_named_may() {
        let peer = Source::Peer {
            name: "dp",
            speaks_for: Mandate::of(&[]),
            border: Border::default(),
        };
        let stranger = Source::Peer {
            name: "other",
            speaks_for: Mandate::of(&[]),
            border: Border::default(),
        };
        let rule = |users: &[&str], peers: &[&str]| Broadcast {
            users: users.iter().map(|user| user.parse().unwrap()).collect(),
            peers: peers.iter().map(|peer| (*peer).to_owned()).collect(),
            ..Broadcast::default()
        };
        assert!(!may(&rule(&[], &[]), Some("alice"), &peer));
        assert!(may(&rule(&["al*"], &[]), Some("alice"), &Source::Client));
        assert!(!may(&rule(&["al*"], &[]), Some("bob"), &Source::Client));
        assert!(!may(&rule(&["*"], &[]), None, &Source::Client));
        assert!(may(&rule(&[], &["dp"]), None, &peer));
        assert!(
            !may(&rule(&[], &["dp"]), None, &stranger)
                && !may(&rule(&[], &["dp"]), None, &Source::InsecurePeer)
        );
        assert!(may(&rule(&["*"], &["dp"]), Some("bob"), &peer));
        assert!(!may(&rule(&["*"], &["dp"]), Some("bob"), &Source::Client));
    }
}
