//! Admission: a configuration compiled for use, and the phases that decide on an exchange by it.
//!
//! - [`snapshot`]: a valid configuration, compiled for use. [`worker`]: the state of one worker, and the state that all share.
//! - [`phases`]: from an arrival to an admitted exchange: *identify*, *tag*, and the decision.
//! - [`decide`]: the decision: *policy*, *authorize*, *route*. The same for arrivals, open tunnels, exchanges of handlers and dry runs.
//! - [`filter`]: the filters that are asked. [`decision_log`]: a line for each decision. [`refusals`] and [`note`]: kept for later questions.
//! - [`reevaluate`] and [`tunnels`]: open tunnels are decided on again when the snapshot changes, or a credential or decision expires.
//! - [`shares`] and [`memory_limits`]: limits of one source or user. [`outliving`]: tunnels that outlive the path to them.
//! - [`max_forwards`] and [`pac`]: requests for this proxy itself. [`explain`]: which clients see why something failed. [`hop_report`]: which way it
//!   took, for those who ask.
//!
//! Specifications: RFC 9110 (proxy role), RFC 9209 (Proxy-Status), RFC 7239 (Forwarded).

pub mod admission;
pub mod alternative;
pub mod buffered;
pub mod captures;
mod client_address;
pub mod current_snapshot;
pub mod decide;
pub mod decision_log;
pub mod denied_flow;
pub mod devices;
pub mod entrance;
pub mod entry;
pub mod explain;
pub mod filter;
mod fixed_target;
pub mod hop_report;
pub mod joins;
pub mod max_forwards;
pub mod memory_limits;
pub mod next;
pub mod node_name;
pub mod note;
mod original_target;
pub mod outliving;
pub mod pac;
pub mod phases;
pub mod post;
pub mod reevaluate;
pub mod refusals;
pub mod remote_device;
pub mod routed;
pub mod shares;
mod signed_routes;
pub mod snapshot;
mod trace;
pub mod tunnels;
pub mod upgrades;
pub mod worker;
