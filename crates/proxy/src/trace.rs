//! *Trace*: every exchange is a span of a trace (W3C Trace Context), whatever it carries.
//!
//! A peer proxy's context is believed, a client's only where its listener says so; without one a new trace begins. The
//! next hop, and an origin that the operator named, are told this hop's own span; strangers are told nothing, unless the
//! route exposes it.

use hermes_config::model::{Continue, FieldPattern, Percent};
use hermes_http::RequestHead;
use hermes_http::h1::client::Receiver;
use hermes_net::StreamInfo;
use hermes_proto::trace_context::{self, Id, TRACEPARENT, TRACESTATE, TraceContext};
use hermes_rules::Source;
use http::HeaderName;

use crate::next::Next;
use crate::routed::Routed;
use crate::seeing::{Exchange, Span};
use crate::snapshot::{ListenerRules, Snapshot};

/// Share of new traces that are recorded, where the configuration says nothing.
const SAMPLE: Percent = Percent(10_000);

/// Gives an arriving exchange its span, and takes the fields that say so out of its head.
pub(crate) fn enter(
    snapshot: &Snapshot,
    listener: &ListenerRules,
    exchange: &Exchange,
    source: &StreamInfo,
    head: &mut RequestHead,
) {
    let config = &listener.config;
    let believed = |name: &HeaderName| {
        config.trace == Continue::Continue
            || names(&config.accepts, name)
            || !matches!(snapshot.source_of(listener, source), Source::Client)
    };
    let before = TraceContext::of(&head.fields).filter(|_| believed(&TRACEPARENT));
    // A state without its context means nothing (section 3.3 of the specification).
    let state = before
        .and_then(|_| trace_context::state(&head.fields))
        .filter(|_| believed(&TRACESTATE));
    head.fields.remove(TRACEPARENT);
    head.fields.remove(TRACESTATE);
    let share = snapshot.document.trace.sample.unwrap_or(SAMPLE);
    let context = match before {
        Some(before) => TraceContext {
            parent: random(fastrand::u64(..).to_be_bytes()),
            ..before
        },
        None => begin(share),
    };
    exchange.trace(Span {
        context,
        parent: before.map(|before| before.parent),
        state,
    });
}

/// Tells the next hop which trace this is, if it may know. The route's own changes come later and win.
pub(crate) fn leave(routed: &Routed, next: &Next, expose: &[FieldPattern], head: &mut RequestHead) {
    let Some(span) = routed.exchange.span() else {
        return;
    };
    let known = !next.is_target();
    let may_know =
        |name: &HeaderName| known || next.receiver() == Receiver::Proxy || names(expose, name);
    if may_know(&TRACEPARENT) {
        head.fields.insert(TRACEPARENT, span.context.format());
    }
    if let Some(state) = span.state.as_ref().filter(|_| may_know(&TRACESTATE)) {
        head.fields.insert(TRACESTATE, state.clone());
    }
}

fn names(patterns: &[FieldPattern], name: &HeaderName) -> bool {
    patterns
        .iter()
        .any(|pattern| pattern.matches(name.as_str()))
}

/// A new trace, recorded if it is one of `share`.
fn begin(share: Percent) -> TraceContext {
    let bytes = fastrand::u128(..).to_be_bytes();
    let trace = random(bytes);
    let parent = random(fastrand::u64(..).to_be_bytes());
    TraceContext {
        trace,
        parent,
        sampled: is_sampled(bytes, share),
        random: true,
    }
}

/// Whether a trace is one of `share`, by the last 7 bytes of its identifier: whoever decides so for the same share decides
/// the same.
fn is_sampled(trace: [u8; 16], share: Percent) -> bool {
    const WHOLE: u128 = 1_000_000;
    let drawn = u128::from_be_bytes(trace) & ((1 << 56) - 1);
    (drawn * WHOLE) >> 56 >= WHOLE - u128::from(share.0)
}

/// The identifier of random bytes; should all be zero, of the least that is none.
fn random<const N: usize>(mut bytes: [u8; N]) -> Id<N> {
    loop {
        match Id::new(bytes) {
            Some(id) => return id,
            None => bytes[N - 1] = 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_traces_is_sampled() {
        let traces = |share| {
            (0..1024_u128)
                .filter(|at| is_sampled((at << 46).to_be_bytes(), Percent(share)))
                .count()
        };
        assert_eq!(
            [0, 10_000, 500_000, 1_000_000].map(traces),
            [0, 10, 512, 1024]
        );
    }

    #[test]
    fn no_identifier_is_zero() {
        assert_eq!(random([0; 8]).bytes(), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert!(begin(Percent(1_000_000)).sampled && !begin(Percent(0)).sampled);
    }
}
