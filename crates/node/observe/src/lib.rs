//! The visible state of a node: live exchanges, access records, metrics, traces and usage, and the
//! administrator's socket.
//!
//! One [`Telemetry`] serves the process. Every exchange holds an [`Exchange`] guard, whose
//! [`Counters`] are relaxed atomics: moving a packet costs one addition, takes no lock and looks
//! nothing up. The counters' increase goes to the listener's metrics when these are read, and when
//! the exchange ends.
//!
//! - [`Exchange`]: begin reading here; the guard that the data plane reports events to. `live`: the
//!   table of them.
//! - `record`, `access`: one line of JSON at the end of each, written by a thread of its own.
//! - `metrics`, `series`, `usage` and `top`: counts, in bounded memory for any input of clients.
//! - [`trace`] and `otlp`: an exchange's place in a trace, and how spans and metrics reach a collector.
//! - [`validity`]: certificates that end. [`shown`]: text that someone else chose, where it meets a terminal.
//! - [`admin`]: the Unix socket that answers; its commands to the process are the trait
//!   [`admin::Control`].
//!
//! It decides nothing about an exchange, knows routes and listeners only by name, and is not the
//! log: that is `tracing`, which has lines about exchanges under the target [`LOG`].
//!
//! Specifications: W3C Trace Context, OpenMetrics 1.0, OTLP 1.0 (JSON over HTTP).

mod access;
pub mod admin;
mod batch;
mod broadcasts;
mod certificate_metrics;
mod counters;
mod counts;
mod decisions;
mod exchange;
mod filters;
mod flow_record;
mod functions;
mod lines;
mod listener;
mod live;
mod looked_up;
mod metrics;
mod otlp;
mod periodic;
mod plug_gauges;
mod policies;
mod post;
mod process;
mod reason;
mod record;
mod recovery;
mod renewals;
mod series;
pub mod shown;
mod span;
mod telemetry;
mod top;
pub mod trace;
mod upstreams;
mod usage;
pub mod validity;
mod vitals;
mod waiting;
mod writer;

#[cfg(test)]
mod tests;

pub use access::AccessSink;
pub use counters::{Counters, FlowCounters};
pub use counts::Counts;
pub use decisions::DecisionLine;
pub use exchange::Exchange;
pub use flow_record::{MovedPackets, SeenFlow};
pub use functions::{FunctionBytes, FunctionCount, FunctionCounts, FunctionView};
pub use lines::LineShares;
pub use listener::{ConnectionGuard, ListenerTelemetry};
pub use live::{
    Begin, ExchangeView, FlowCountsView, Id, LONG_AFTER, LaterRefusal, Learnt, MovedPath,
};
pub use metrics::DropReason;
pub use periodic::Periodic;
pub use plug_gauges::{GaugeFamily, LabelledGauge};
pub use policies::PolicyTally;
pub use post::Destination;
pub use reason::{CLIENT_CLOSED, POLICY_CHANGED, class_of, is_end_elsewhere};
pub use recovery::{FrameRecoveryView, GroupRecoveryView, RecoverySource, RecoveryView};
pub use renewals::RenewalView;
pub use span::Span;
pub use telemetry::{Telemetry, VIEW_LIMIT};
pub use usage::UsageView;
pub use vitals::Vitals;

/// The target of the log's lines about exchanges: filters such as `hermes_node=debug` name the data
/// plane as a whole.
pub const LOG: &str = "hermes_proxy";
