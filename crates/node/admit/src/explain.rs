//! Which clients see why a request failed. To a stranger, the name of a next hop is something to
//! attack.

use hermes_config::model::{Auth, AuthMode};
use hermes_http::ResponseHead;
use hermes_net::StreamInfo;
use hermes_proto::fields::names::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use hermes_proto::proxy_status;
use hermes_rules::Source;

use crate::routed::Routed;
use crate::snapshot::{ListenerRules, Snapshot};

/// Whether the client at the other end learns reasons and next hops: on this machine, a peer, at a listener that asks its
/// clients who they are, or anyone where the configuration says `explain`. One of another operator's overlay is no peer here.
pub fn explains(snapshot: &Snapshot, listener: &ListenerRules, source: &StreamInfo) -> bool {
    let config = &listener.config;
    let asks = !matches!(config.auth(), None | Some(Auth::Word(AuthMode::None)))
        && !config.takes_anonymous();
    let is_local = source
        .peer
        .ip()
        .is_none_or(|ip| ip.to_canonical().is_loopback());

    if config.http().is_some_and(|http| http.explain) {
        return true;
    }
    match snapshot.source_of(listener, source) {
        Source::Client => asks || is_local,
        // Hops and reasons are for operators of this overlay.
        peer => peer.is_of_this_overlay(),
    }
}

/// Makes a response on its way back tell a stranger no more than our own do. Returns whether its content must go too:
/// an intermediary wrote it, for the operators of the overlay.
pub fn hide(routed: &Routed, head: &mut ResponseHead) -> bool {
    if explains(&routed.snapshot, &routed.listener, &routed.source) {
        return false;
    }
    let is_error = proxy_status::hide_details(&mut head.fields);
    if is_error {
        for name in [CONTENT_LENGTH, CONTENT_TYPE, CONTENT_ENCODING] {
            head.fields.remove(name);
        }
    }

    is_error
}
