//! A tunnel that the next hop is asked for: an attempt, its answer, and the meaning of a refusal.

use std::pin::pin;
use std::time::Duration;

use hermes_admit::next::Next;
use hermes_admit::post;
use hermes_admit::routed::Routed;
use hermes_http::{Cause, Event, Outgoing, Pending, RequestHead, ResponseHead, StreamError};
use hermes_packet::Early;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::{CONTENT_LENGTH, TRANSFER_ENCODING};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::{functions_field, hop, transform};
use hermes_rules::retry::Outcome;
use hermes_rules::session::Silence;
use hermes_upstream::Active;

use super::cause;
use super::early_bytes::EarlyBytes;
use super::retry::{self, Tries};
use super::verdict;
use super::{Reached, Unreached};
use crate::reach;

/// A tunnel that the next hop answered.
pub(crate) struct Open {
    pub(crate) outgoing: Outgoing,
    pub(crate) answer: Event,
    pub(crate) active: Active,
    /// Silence after which a tunnel of datagrams ends.
    pub(crate) silence: Silence,
    /// Datagrams that it has carried already.
    pub(crate) early: Option<Early>,
}

/// Asks the next hop for the tunnel, and again as the policy says. An attempt may have sent datagrams, which may arrive twice, or the
/// `first` bytes, which have their own bounds.
pub(crate) async fn open(
    tries: &Tries<'_>,
    head: &RequestHead,
    target: &Target,
    first: &mut EarlyBytes<'_>,
) -> Result<Open, Refusal> {
    loop {
        let deadline = tries.begin();
        let attempt = retry::within(deadline, pin!(attempt(tries, head, target, first))).await;
        match attempt.unwrap_or_else(|| Err(too_late(tries))) {
            Ok(open) => match again(tries, &open.answer) {
                Some(pause) => {
                    // Its stream and its place at the endpoint are free while this one waits.
                    drop(open);
                    tokio::time::sleep(pause).await;
                }
                None => return Ok(open),
            },
            Err(unreached) => reach::pause(tries, unreached).await?,
        }
    }
}

/// Whether the next hop refused in a way that is tried again, and after which pause.
fn again(tries: &Tries<'_>, answer: &Event) -> Option<Duration> {
    match answer {
        Event::Final(head, _) => tries.again(Some(retry::of_response(head)), true).ok(),
        Event::Tunnel(..) | Event::Interim(_) => None,
    }
}

/// The time of an attempt was over before the next hop had answered.
fn too_late(tries: &Tries<'_>) -> Unreached {
    let refusal = tries.attempt().no_head(tries);
    let refusal = match tries.tried().last() {
        Some(endpoint) => refusal.next_hop(endpoint),
        None => refusal,
    };

    Unreached {
        refusal,
        outcome: Some(Outcome::Timeout),
    }
}

async fn attempt(
    tries: &Tries<'_>,
    head: &RequestHead,
    target: &Target,
    first: &mut EarlyBytes<'_>,
) -> Result<Open, Unreached> {
    let is_post = post::is_post(head);
    // A POST carries the tunnel as its content; a CONNECT has none (RFC 9110, 9.3.6).
    let length = if is_post { None } else { Some(0) };
    let reached = reach::open(tries, head, target, length).await?;

    let Reached {
        mut outgoing,
        mut pending,
        active,
        endpoint,
        reused,
        hop,
    } = reached;

    let early = tries.first_datagrams().filter(|_| outgoing.takes_early());
    first.begin(tries, &outgoing);
    let answered = answer(
        tries,
        first,
        early.as_ref(),
        &mut outgoing,
        &mut pending,
        is_post,
    );

    let wait = tries.header(hop);
    let answered = retry::within(wait.deadline(), pin!(answered)).await;
    match answered {
        Some(Ok(answer)) => {
            active.served();
            Ok(Open {
                outgoing,
                answer,
                active,
                silence: reach::silence(&tries.next.timeouts),
                early,
            })
        }
        Some(Err(error)) => {
            verdict::broke(&active, &error);
            Err(Unreached {
                refusal: Refusal::of_stream(&error, &endpoint),
                outcome: retry::of_stream(&error, reused),
            })
        }
        None => Err(Unreached {
            refusal: wait.no_head(tries).next_hop(&endpoint),
            outcome: Some(Outcome::Timeout),
        }),
    }
}

/// Waits for the answer, and sends early bytes meanwhile.
async fn answer(
    tries: &Tries<'_>,
    first: &mut EarlyBytes<'_>,
    early: Option<&Early>,
    outgoing: &mut Outgoing,
    pending: &mut Pending,
    is_post: bool,
) -> Result<Event, StreamError> {
    if let Some(early) = early {
        outgoing.early(early.capsules.clone())?;
    }

    outgoing.flush().await?;
    loop {
        let event = tokio::select! {
            biased;
            data = first.next(), if first.is_awaited() => {
                first.send(tries, data, outgoing);
                if first.gone.is_some() {
                    let gone = "the client is gone".to_owned();
                    return Err(StreamError::new(Cause::Invalid(gone)));
                }
                continue;
            }
            event = pending.event(Some(outgoing)) => event?,
        };

        match event {
            Event::Interim(_) => {}
            answer if is_post => return Ok(post::opened(answer)),
            answer => {
                outgoing.flush().await?;
                return Ok(answer);
            }
        }
    }
}

/// Why the next hop refused: in the words of the proxy that refused, or else by the status.
pub(crate) fn refused(routed: &Routed, next: &Next, head: &ResponseHead) -> Refusal {
    let refusal = match cause::of(routed, next, head) {
        Some(told) => Refusal::new(told.error, told.words()),
        None => Refusal::new(
            ProxyError::HttpUpgradeFailed,
            format!("the next hop answered {}", head.status),
        ),
    };

    // A status that is no error, such as 200 where 101 is needed, is an error here because no tunnel came of it: 502.
    if verdict::is_failure(head.status) {
        refusal.status(head.status)
    } else {
        refusal
    }
}

/// Fields of a response that go on to the client.
pub(crate) fn passed_on(mut fields: Fields) -> Fields {
    if hop::strip(&mut fields).is_err() {
        fields.clear();
    }
    fields.remove(CONTENT_LENGTH);
    fields.remove(TRANSFER_ENCODING);
    fields.remove(transform::FIELD);
    fields.remove(functions_field::FIELD);
    fields
}
