//! *Trace*: every exchange is a span of a trace (W3C Trace Context), whatever it carries.
//!
//! A peer proxy's context is believed, a client's only where its listener says so; without one a
//! new trace begins. The fields for the next hop are decided in `forward/departure.rs`.

use hermes_config::model::Continue;
use hermes_http::RequestHead;
use hermes_net::StreamInfo;
use hermes_observe::{Exchange, trace};
use hermes_rules::Source;

use crate::snapshot::{ListenerRules, Snapshot};

/// Gives an arriving exchange its span, and takes the fields that say so out of its head.
pub fn enter(
    snapshot: &Snapshot,
    listener: &ListenerRules,
    exchange: &Exchange,
    source: &StreamInfo,
    head: &mut RequestHead,
) {
    let config = &listener.config;
    trace::enter(
        exchange,
        &mut head.fields,
        |name| {
            let source = snapshot.source_of(listener, source);
            let is_accepted = source
                .accepts(config.accepts())
                .is_none_or(|accepts| trace::names(accepts, name));
            is_accepted || (config.trace == Continue::Continue && matches!(source, Source::Client))
        },
        snapshot.document.trace.sample,
    );
}
