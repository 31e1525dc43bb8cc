//! *Accept*, *identify* and *tag*: the target of an exchange, its user, and the fields that are believed.

use std::sync::Arc;

use hermes_http::{Kind, RequestHead};
use hermes_identity::AuthContext;
use hermes_packet::Asked;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::{Forms, Target};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::{functions_field, hop, path, transform, via};
use hermes_rules::judge::RemovedFields;
use http::header::CONTENT_LENGTH;
use http::{Method, StatusCode};

use super::entered::Entered;
use crate::entrance::Proven;
use crate::hop_report;
use crate::max_forwards;

/// Proxies that a request may pass: more than any sensible overlay has, few enough to end a loop
/// soon that lacks our name in `Via`.
#[doc(alias = "bound")]
const MAX_HOPS: usize = 16;

/// The exchange after *identify*.
pub struct Identified {
    pub user: Option<String>,
    pub auth: AuthContext,
    pub target: Target,
    pub asked: Option<Asked>,
    /// Of a TRACE: its fields as the client sent them.
    pub received: Fields,
    /// Whether its client is told the way that it takes.
    pub is_traced: bool,
}

/// Takes an exchange through these phases.
///
/// # Errors
/// It is malformed, goes in circles, or is not believed whose it is.
pub(crate) async fn identify(
    entered: &Entered,
    head: &mut RequestHead,
) -> Result<Identified, Refusal> {
    let exchange = &entered.exchange;
    exchange.method(head.wire_method());
    // Read before a hop changes it: TRACE sends back the fields as received (RFC 9110, 9.3.8).
    let received = max_forwards::received(head);

    let tls = entered.source.tls.is_some();
    let carrier = entered.entrance.carrier.as_deref();
    let forms = entered.listener.forms();
    let target = match carrier {
        None => Target::of(head, &forms, tls)?,
        // A request that this node wrote does not follow the templates of the listener.
        Some(_) => Target::of(head, &Forms::OWN, tls)?,
    };
    entered.note_target(head, &target);

    let entry = entered.entry();
    entry.verify().inspect_err(|_| entered.entrance.dismiss())?;
    path::refuse_dots(head.path()).map_err(|error| bad_request(error.to_string()))?;
    refuse_circles(entered, head)?;
    // RFC 9110, 7.6.1: later phases see the fields of the exchange, none of the connection's.
    hop::strip(&mut head.fields).map_err(|error| bad_request(error.to_string()))?;
    // RFC 9110, 9.3.6: a tunnel has no content whose length could be told.
    if head.method == Method::CONNECT {
        head.fields.remove(CONTENT_LENGTH);
    }

    forget_unbelieved(entered, head);
    let is_traced = hop_report::believe(entered, head);
    let asked = Asked::take(&mut head.fields).filter(|_| head.kind().carries_packets());
    let mut auth = authenticate(entered, head).await?;
    let mut removed = RemovedFields::default();
    let believed = entry.believe_noting(&auth, &target, head, &mut removed);
    if !removed.0.is_empty() {
        exchange.removed(removed.0);
    }
    let user = believed?;

    if let Some(user) = &user {
        exchange.user(user);
    }
    auth.user.clone_from(&user);
    Ok(Identified {
        auth,
        target,
        asked,
        is_traced: is_traced && hop_report::has_turn(entered, user.as_deref(), head),
        user,
        received,
    })
}

/// The proof of its user: the tunnel that it came out of, the word of an ingress, or credentials.
async fn authenticate(entered: &Entered, head: &mut RequestHead) -> Result<AuthContext, Refusal> {
    let entry = entered.entry();
    if let Some(carrier) = &entered.entrance.carrier {
        return Ok(carrier.within(Arc::new(head.clone())));
    }
    match &entered.entrance.proven {
        Some(Proven::Word(user)) => entry.identify_proven(user, head),
        Some(Proven::Identity(identity)) => entry.identify_again(identity, head),
        None => entry.identify(head).await,
    }
}

/// Removes what the request says of changes of its tunnel, unless it is believed about them: only a peer proxy is. Bytes alone are
/// undone, and functions are asked for of datagrams, too.
fn forget_unbelieved(entered: &Entered, head: &mut RequestHead) {
    let kind = head.kind();
    let is_bytes = matches!(kind, Kind::Connect | Kind::ConnectTcp | Kind::Upgrade);
    let source = || {
        entered
            .snapshot
            .source_of(&entered.listener, &entered.source)
    };

    let fields = [transform::FIELD, functions_field::FIELD];
    let asks = fields.iter().any(|field| head.fields.contains_key(field));
    let is_believed = asks && source().is_of_this_overlay();
    if !is_believed || !is_bytes {
        head.fields.remove(transform::FIELD);
    }
    if !is_believed || !is_bytes && kind != Kind::ConnectUdp {
        head.fields.remove(functions_field::FIELD);
    }
}

fn bad_request(reason: String) -> Refusal {
    Refusal::new(ProxyError::HttpRequestError, reason).status(StatusCode::BAD_REQUEST)
}

/// Requests that go round in circles. Another overlay may have nodes of the names of ours: they get the domain of theirs.
fn refuse_circles(entered: &Entered, head: &mut RequestHead) -> Result<(), Refusal> {
    let snapshot = &entered.snapshot;
    // RFC 9110, 7.6.3: Via shows loops.
    let passed = snapshot.node.via.passed(&head.fields);
    if passed.hops == 0 {
        return Ok(());
    }
    let source = snapshot.source_of(&entered.listener, &entered.source);
    let other = source.other_domain();
    let details = if passed.own > 0 && other.is_none() {
        "a node of this name had the request before: routes lead in a circle, or two nodes share a name (`node:`)"
    } else if passed.hops >= MAX_HOPS {
        "the request passed too many proxies"
    } else {
        if let Some(domain) = other {
            via::qualify(&mut head.fields, domain);
        }
        return Ok(());
    };

    Err(Refusal::new(ProxyError::ProxyLoopDetected, details).status(StatusCode::LOOP_DETECTED))
}
