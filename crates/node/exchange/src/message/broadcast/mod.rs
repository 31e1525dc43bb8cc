//! Broadcast: one request becomes a copy for each endpoint, and their replies become one.
//!
//! The field that asks for it ends here, so that no copy is copied again. The request's content is kept in a store,
//! and replies in memory, within bounds, because one stream cannot feed several; that is why only messages can be broadcast.

mod copies;
mod gathered;
mod kept;
mod parts;
mod tally;

use std::time::Duration;

use hermes_admit::buffered::Limit;
use hermes_admit::routed::Routed;
use hermes_config::model::{Broadcast, Otherwise, Reply as Rule};
use hermes_http::{Incoming, Kind, Responder, ResponseHead};
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::names::{CACHE_CONTROL, CONTENT_TYPE, EXPECT};
use hermes_proto::hop;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::broadcast::{FIELD, asked, may};
use http::{HeaderValue, Method, StatusCode};
use tokio::time::Instant;

use crate::failed::{Failed, Unanswered};
use crate::reach::departure;
use copies::{Copies, Reply};
use gathered::GatheredContent;
use kept::keep;
use tally::{StopReason, Tally};

/// Copies of one request: one request makes so many.
#[doc(alias("bound", "copies"))]
const COPIES: usize = 16;

/// Bytes of a request's content that are kept for the copies.
#[doc(alias("bound", "request_bytes"))]
const REQUEST_BYTES: u64 = 64 * 1024;

/// Bytes of each reply's content that are kept in memory.
#[doc(alias("bound", "reply_bytes"))]
const REPLY_BYTES: usize = 1024 * 1024;

/// How long a broadcast may take as a whole: as long as one response head.
#[doc(alias = "bound")]
const TIME: Duration = Duration::from_secs(10);

/// An exchange on its way to a route that may have broadcasts.
#[expect(
    clippy::large_enum_variant,
    reason = "it is made and taken apart at once"
)]
pub(crate) enum Offer<'a> {
    /// No broadcast.
    Ordinary(Arrival),
    /// A broadcast, by this rule.
    Broadcast(&'a Broadcast, Arrival),
    /// A broadcast whose sender may not.
    Refused(Failed),
}

/// Whether an exchange is a broadcast here. On a route that knows of them, the field ends in any case.
pub(crate) fn offer(routed: &Routed, mut arrival: Arrival) -> Offer<'_> {
    let Some(rule) = &routed.route.config.broadcast else {
        return Offer::Ordinary(arrival);
    };
    let fields = &mut arrival.head_mut().fields;
    let asked = asked(fields);
    fields.remove(FIELD);
    if !asked {
        return Offer::Ordinary(arrival);
    }
    let source = routed.snapshot.source_of(&routed.listener, &routed.source);
    let details = if arrival.kind() != Kind::Message {
        "only messages can be broadcast"
    } else if may(rule, routed.user.as_deref(), &source) {
        return Offer::Broadcast(rule, arrival);
    } else {
        "the sender may not broadcast"
    };
    match rule.otherwise {
        Otherwise::Ignore => Offer::Ordinary(arrival),
        Otherwise::Refuse => {
            let refusal = Refusal::new(ProxyError::HttpRequestDenied, details);
            Offer::Refused(Failed::untouched(arrival, refusal))
        }
    }
}

/// Sends the copies and answers as the rule says.
pub async fn run(routed: &Routed, arrival: Arrival, rule: &Broadcast) -> Result<String, Failed> {
    let copies = match Copies::plan(routed, arrival.head(), rule) {
        Ok(copies) => copies,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };
    let Arrival::Offered(offered) = arrival else {
        let refusal = Refusal::new(
            ProxyError::ProxyInternalError,
            "a datagram is not a message",
        );
        return Err(Failed::untouched(arrival, refusal));
    };
    let (head, mut content, mut responder) = offered.message();
    let until = Instant::now() + rule.time.map_or(TIME, |time| time.0);
    // The content is read here before any copy is sent, so the 100 must come from here.
    if head.fields.contains_key(EXPECT)
        && responder
            .interim(&ResponseHead::new(StatusCode::CONTINUE))
            .await
            .is_err()
    {
        return Ok("client_closed: before the copies were sent".to_owned());
    }
    let gathered = tokio::select! {
        biased;
        () = responder.gone() => return Ok("client_closed: while the copies were out".to_owned()),
        gathered = gather(routed, rule, copies, &mut content, until) => gathered,
    };
    match gathered {
        Ok(mut gathered) => {
            // RFC 9110, 9.3.2: no content, also where several replies were merged into one.
            if head.method == Method::HEAD {
                gathered.content = GatheredContent::default();
            }
            Ok(answer(routed, gathered, responder).await)
        }
        Err(refusal) => Err(Failed {
            unanswered: Unanswered::Responder(responder),
            refusal,
        }),
    }
}

/// The replies, and how many of the copies succeeded.
struct Gathered {
    head: ResponseHead,
    content: GatheredContent,
    said: String,
}

/// Keeps the request's content, sends the copies, and waits as long as the rule says. Copies that are still out afterwards are
/// cancelled.
async fn gather(
    routed: &Routed,
    rule: &Broadcast,
    mut copies: Copies,
    content: &mut Incoming,
    until: Instant,
) -> Result<Gathered, Refusal> {
    let kept = keep(routed, rule, content, until).await?;

    let unfit = copies.take_unfit();
    let mut tally = Tally::new(rule.reply, copies.len());
    let labels = copies.labels();
    let bytes = rule.reply_bytes.map_or(REPLY_BYTES, |size| {
        usize::try_from(size.0).unwrap_or(REPLY_BYTES)
    });
    let limit = Limit {
        bytes,
        account: Some(routed.account()),
    };
    let (mut out, held) = copies.send(&routed.worker.client, kept, &limit);

    let mut replies: Vec<Reply> = Vec::new();
    let end = loop {
        tokio::select! {
            biased;
            Some(Ok(reply)) = out.join_next() => {
                let end = tally.take(reply.is_success());
                replies.push(reply);
                if let Some(end) = end {
                    break end;
                }
            }
            () = tokio::time::sleep_until(until) => break StopReason::Time,
        }
    };
    // Cancels copies that are still out, and gives their descriptors back before the reply leaves.
    drop((out, held));

    let successes = replies.iter().filter(|reply| reply.is_success()).count();
    let route = &routed.route.name;
    let cancelled = labels.len() - replies.len();
    let counts = [successes, replies.len() - successes, cancelled, unfit.len()];
    routed.worker.shared.telemetry.broadcast(route, counts);

    let said = match unfit.len() {
        0 => tally.to_string(),
        count => format!("{tally}, {count} not asked"),
    };
    // `all` speaks of every endpoint, so also of those that were not asked.
    if rule.reply == Rule::All {
        replies.extend(unfit);
    }
    conclude(routed, rule.reply, end, replies, labels, said)
}

/// The one reply that the rule makes of those that came.
fn conclude(
    routed: &Routed,
    rule: Rule,
    end: StopReason,
    mut replies: Vec<Reply>,
    labels: Vec<(usize, String)>,
    said: String,
) -> Result<Gathered, Refusal> {
    if rule == Rule::All && replies.iter().any(|reply| reply.outcome.is_ok()) {
        let came: Vec<usize> = replies.iter().map(|reply| reply.number).collect();
        let late = labels
            .into_iter()
            .filter(|(number, _)| !came.contains(number));
        replies.extend(late.map(|(number, label)| Reply::too_late(number, label)));
        replies.sort_by_key(|reply| reply.number);
        return Ok(merged(routed, replies, said));
    }
    let wanted = |reply: &Reply| match (rule, end) {
        // No copy succeeded: the first reply is still an answer.
        (Rule::First, StopReason::Exhausted) => reply.outcome.is_ok(),
        (_, StopReason::Enough) => reply.is_success(),
        _ => false,
    };
    let Some(found) = replies.iter().position(wanted) else {
        return Err(if end == StopReason::Time {
            too_slow(&said)
        } else {
            unavailable(&said)
        });
    };
    let reply = replies.swap_remove(found);
    routed
        .exchange
        .upstream(&reply.upstream, &reply.endpoint, None);
    match reply.outcome {
        Ok((head, content)) => Ok(Gathered {
            head: returning(routed, head),
            content: content.into(),
            said,
        }),
        Err(_) => Err(unavailable(&said)),
    }
}

fn merged(routed: &Routed, replies: Vec<Reply>, said: String) -> Gathered {
    if let Some(reply) = replies.first() {
        routed
            .exchange
            .upstream(&reply.upstream, &"(all)".into(), None);
    }
    let boundary = parts::boundary(&replies, || fastrand::u64(..));
    let mut head = ResponseHead::new(StatusCode::OK);
    if let Ok(kind) = HeaderValue::try_from(format!("multipart/mixed; boundary={boundary}")) {
        head.fields.insert(CONTENT_TYPE, kind);
    }
    head.fields
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let pieces = parts::merge(&replies, &boundary);
    Gathered {
        head,
        content: GatheredContent::of_many(pieces, parts::charges(replies)),
        said,
    }
}

/// A response head on its way back, without fields of the connection that it came on.
fn returning(routed: &Routed, mut head: ResponseHead) -> ResponseHead {
    departure::keep_own_challenge(&mut head);
    routed
        .snapshot
        .node
        .via
        .append(&mut head.fields, head.version);
    head
}

async fn answer(routed: &Routed, gathered: Gathered, responder: Responder) -> String {
    let Gathered {
        mut head,
        content,
        said,
    } = gathered;
    // A connection field that cannot be read names nothing that could be kept.
    let _ = hop::strip(&mut head.fields);
    routed.exchange.status(head.status.as_u16());
    let length = content.bytes();
    let answered = async {
        let mut outgoing = responder.respond(head, content.length()).await?;
        content.send(&mut outgoing).await
    };
    match answered.await {
        Ok(()) => {
            routed.exchange.counters().to_client(length);
            format!("done: {said}")
        }
        Err(error) => format!("client_closed: {error}"),
    }
}

fn too_slow(details: &str) -> Refusal {
    Refusal::new(ProxyError::HttpResponseTimeout, details)
}

fn unavailable(details: &str) -> Refusal {
    Refusal::new(ProxyError::DestinationUnavailable, details).status(StatusCode::BAD_GATEWAY)
}
