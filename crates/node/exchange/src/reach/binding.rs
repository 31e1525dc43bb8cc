//! Authentication that binds a connection to a user: NTLM, and Negotiate (RFC 4559) as many servers use it.
//!
//! An exchange that asks for it has a connection to the server that no one else's exchange ever has: that of its client's connection
//! in HTTP/1.1, or else one that ends with it. Over HTTP/2 and HTTP/3, where it is not defined, the server is spoken to in HTTP/1.1 if
//! it can be.

use hermes_admit::routed::Routed;
use hermes_http::RequestHead;
use hermes_proto::fields::AsFieldValue;
use hermes_proto::fields::names::AUTHORIZATION;
use hermes_rules::Source;
use hermes_upstream::Own;
use http::Version;

/// Schemes that authenticate a connection.
const BINDING: [&str; 2] = ["ntlm", "negotiate"];

/// Who must have the connection to the next hop alone; `None` if anyone may use it. `known` says
/// whether there is one that was authenticated before, and on which the client goes on without a
/// word.
pub(crate) fn own<'a>(
    routed: &'a Routed,
    head: &RequestHead,
    known: impl FnOnce(Own<'a>) -> bool,
) -> Option<Own<'a>> {
    let asks = || head.fields.values(AUTHORIZATION).any(binds);
    let pinned = routed
        .entrance
        .connection
        .as_ref()
        .map(|connection| &connection.pinned);
    if pinned.is_none_or(|pinned| pinned.is_empty()) && !asks() {
        return None;
    }

    let own = Own {
        pinned: pinned.filter(|_| has_client(routed, head)),
        user: routed.user.as_deref(),
    };

    (asks() || known(own)).then_some(own)
}

/// Whether the connection that an exchange came on is one client's. Versions with streams and proxies that this node knows mix
/// clients; the latter say of each exchange whose it is.
fn has_client(routed: &Routed, head: &RequestHead) -> bool {
    let one_by_one = matches!(head.version, Version::HTTP_10 | Version::HTTP_11);
    let is_client = matches!(
        routed.snapshot.source_of(&routed.listener, &routed.source),
        Source::Client
    );
    one_by_one && (is_client || routed.user.is_some())
}

fn binds(value: impl AsFieldValue) -> bool {
    let value = value.field_value();
    let scheme = value
        .as_bytes()
        .split(|byte| *byte == b' ')
        .next()
        .unwrap_or_default();
    BINDING
        .iter()
        .any(|binding| scheme.eq_ignore_ascii_case(binding.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_that_bind_are_known_whatever_their_letters() {
        let binds = |text| binds(http::HeaderValue::from_static(text));
        assert!(
            ["NTLM TlRM", "negotiate YII", "Negotiate", "nTLM"]
                .into_iter()
                .all(binds)
        );
        assert!(
            !["Basic TlRM", "Bearer ntlm", "", "NTLMv3 x"]
                .into_iter()
                .any(binds)
        );
    }
}
