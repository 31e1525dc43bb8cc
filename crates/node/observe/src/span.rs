//! An exchange's place in its trace.

use hermes_proto::trace_context::{SpanId, TraceContext};
use http::HeaderValue;

/// An exchange's place in its trace.
#[derive(Debug, Clone)]
pub struct Span {
    /// The trace, and this exchange's own span, the parent of the next hop's.
    pub context: TraceContext,
    /// The span that this one is a part of; `None` where the trace begins here.
    pub parent: Option<SpanId>,
    /// The tracing systems' own state, in `tracestate`.
    pub state: Option<HeaderValue>,
}
