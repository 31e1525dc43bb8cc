//! Where refusals are noted, on the way of exchanges that are refused.

use std::sync::Arc;

use hermes_config::{child, element};
use hermes_http::RequestHead;
use hermes_net::StreamInfo;
use hermes_observe::{POLICY_CHANGED, is_end_elsewhere};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ReportedFailure;
use hermes_proto::refusal_id::RefusalId;
use hermes_rules::judge::Phase;

use crate::refusals::remembered::{Cause, Circumstances, Instead, LastRefusals};
use crate::routed::Routed;
use crate::snapshot::{ListenerRules, Snapshot};

/// Remembers a refusal of an exchange on its route, which may have been forwarded already.
pub fn routed_refusal(routed: &Routed, arrival: Option<&Arrival>, refusal: &Refusal) -> RefusalId {
    let head = arrival.map(Arrival::head);
    let cause = Cause::of(refusal);
    remember(routed, head, cause, refusal.name())
}

/// Remembers that an exchange ended for a reason of this node's after it was answered; any other end is no refusal.
pub fn end(routed: &Routed, reason: &str) {
    // A later proxy may have refused it, which is known then.
    if is_end_elsewhere(reason) || routed.exchange.is_refused() {
        return;
    }
    let word = reason.split(':').next().unwrap_or_default();

    let cause = Cause {
        at: key_of(routed, word).map(|key| (Phase::Forward, key)),
        said: reason.to_owned(),
        status: None,
    };
    // The decision that ended it may have been told of.
    let named = routed.exchange.denial().filter(|_| word == POLICY_CHANGED);
    remember(routed, None, cause, named);
}

/// The key whose bound ended an exchange in this way; `None` where the next hop ended it.
fn key_of(routed: &Routed, word: &str) -> Option<String> {
    let route = element("routes", routed.route.index);
    let listener = child("listeners", &routed.listener.name);
    match word {
        POLICY_CHANGED => Some(route),
        "idle" => Some(child(&route, "timeouts")),
        "slow" | "evicted" => Some(child(&listener, "limits")),
        "memory" => Some("memory".to_owned()),
        _ => None,
    }
}

/// Remembers that a later proxy refused an exchange, by the name that it gave that.
pub fn later_refusal(routed: &Routed, id: RefusalId, told: &ReportedFailure) {
    let cause = Cause {
        at: None,
        said: told.to_string(),
        status: None,
    };
    let circumstances = on_route(routed, None);
    let refusals = &routed.worker.shared.refusals;
    refusals.remember(id, &circumstances, cause);
}

/// Under the name that it has already, if it has one.
fn remember(
    routed: &Routed,
    head: Option<&RequestHead>,
    cause: Cause,
    named: Option<RefusalId>,
) -> RefusalId {
    let id = named.unwrap_or_else(new_id);
    routed.exchange.refused(id);
    routed.exchange.claims(routed.known_user().claimed.iter());
    let circumstances = on_route(routed, head);
    routed
        .worker
        .shared
        .refusals
        .remember(id, &circumstances, cause);
    id
}

/// Remembers a refusal of an exchange that has no route yet, or of a request that is none.
pub fn refusal(
    refusals: &LastRefusals,
    circumstances: &Circumstances<'_>,
    refusal: &Refusal,
) -> RefusalId {
    let id = refusal.name().unwrap_or_else(new_id);
    if let Some(exchange) = circumstances.exchange {
        exchange.refused(id);
    }
    refusals.remember(id, circumstances, Cause::of(refusal));
    id
}

/// A handshake that came to nothing.
pub struct FailedHandshake<'a> {
    /// Its listener.
    pub listener: &'a ListenerRules,
    /// The connection.
    pub source: StreamInfo,
    /// The protocol of the handshake.
    pub instead: Instead,
    /// The key of the listener that bounds it.
    pub key: &'a str,
    /// The reason, in words.
    pub said: String,
}

/// Remembers a handshake that came to nothing.
pub fn handshake(
    refusals: &LastRefusals,
    snapshot: &Snapshot,
    failed: FailedHandshake<'_>,
) -> RefusalId {
    let FailedHandshake {
        listener,
        source,
        instead,
        key,
        said,
    } = failed;
    let circumstances = Circumstances {
        snapshot,
        listener,
        source: &Arc::new(source),
        exchange: None,
        instead,
        head: None,
        route: None,
    };
    let listener = child("listeners", &listener.name);
    let cause = Cause {
        at: Some((Phase::Accept, child(&listener, key))),
        said,
        status: None,
    };

    let id = new_id();
    refusals.remember(id, &circumstances, cause);
    id
}

/// Remembers that the rules of a snapshot denied a packet of a tunnel, at this place and in these words, under the name that it has
/// already, if it has one.
pub fn denied_packet(
    routed: &Routed,
    snapshot: &Snapshot,
    place: String,
    said: String,
    named: Option<RefusalId>,
) -> RefusalId {
    let circumstances = Circumstances {
        snapshot,
        instead: Instead::Packet,
        ..on_route(routed, None)
    };
    let cause = Cause {
        at: Some((Phase::Policy, place)),
        said,
        status: None,
    };

    let id = named.unwrap_or_else(new_id);
    let refusals = &routed.worker.shared.refusals;
    refusals.remember(id, &circumstances, cause);
    id
}

/// A name for a refusal. That it could be guessed does not matter: only the administrator learns the reason by it.
fn new_id() -> RefusalId {
    RefusalId::from_random(fastrand::u64(..))
}

/// The circumstances of an exchange on its route.
fn on_route<'a>(routed: &'a Routed, head: Option<&'a RequestHead>) -> Circumstances<'a> {
    Circumstances {
        snapshot: &routed.snapshot,
        listener: &routed.listener,
        source: &routed.source,
        exchange: Some(&routed.exchange),
        instead: Instead::Request,
        head,
        route: Some(routed.route.index),
    }
}
