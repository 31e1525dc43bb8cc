//! *Trace*: every exchange is a span of a trace (W3C Trace Context), of every kind.
//!
//! A peer proxy's context is believed, a client's only where its listener says so; without one a new trace begins. The
//! next hop, and an origin that the operator named, are told this hop's own span; strangers are told nothing, unless the
//! route exposes it.

use hermes_config::model::{FieldPattern, Percent};
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::KnownName;
use hermes_proto::trace_context::{self, Id, TRACEPARENT, TRACESTATE, TraceContext};

use crate::{Exchange, Span};

/// Share of new traces that are recorded, where the configuration says nothing.
const SAMPLE: Percent = Percent(10_000);

/// Gives an arriving exchange its span, and takes the fields that say so out of its head. A field counts where it is `believed`; of
/// new traces `sample` are recorded, 1 % if it is not said.
pub fn enter(
    exchange: &Exchange,
    fields: &mut Fields,
    believed: impl Fn(KnownName) -> bool,
    sample: Option<Percent>,
) {
    let before = TraceContext::of(fields).filter(|_| believed(TRACEPARENT));
    // A state without its context means nothing (section 3.3 of the specification).
    let state = before
        .and_then(|_| trace_context::state(fields))
        .filter(|_| believed(TRACESTATE));
    fields.remove(TRACEPARENT);
    fields.remove(TRACESTATE);

    let context = match before {
        Some(before) => TraceContext {
            parent: random(fastrand::u64(..).to_be_bytes()),
            ..before
        },
        None => begin(sample.unwrap_or(SAMPLE)),
    };

    exchange.trace(Span {
        context,
        parent: before.map(|before| before.parent),
        state,
    });
}

/// Tells the next hop which trace this is, as far as it `may_know`. The route's own changes come later and win.
pub fn leave(exchange: &Exchange, fields: &mut Fields, may_know: impl Fn(KnownName) -> bool) {
    let Some(span) = exchange.span() else {
        return;
    };
    if may_know(TRACEPARENT) {
        fields.insert(TRACEPARENT, span.context.format());
    }

    if let Some(state) = span.state.as_ref().filter(|_| may_know(TRACESTATE)) {
        fields.insert(TRACESTATE, state.clone());
    }
}

/// Whether one of these patterns names the field.
#[must_use]
pub fn names(patterns: &[FieldPattern], name: KnownName) -> bool {
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

/// Whether a trace is one of `share`, by the last 7 bytes of its identifier: all who decide so for the same share decide
/// the same.
fn is_sampled(trace: [u8; 16], share: Percent) -> bool {
    const WHOLE: u128 = 1_000_000;
    let drawn = u128::from_be_bytes(trace) & ((1 << 56) - 1);
    (drawn * WHOLE) >> 56 >= WHOLE - u128::from(share.0)
}

/// An identifier of random bytes; if all were zero, the least valid one.
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
