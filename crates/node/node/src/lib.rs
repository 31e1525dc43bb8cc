//! The running node: it starts, is changed and drained, and tells of itself.
//!
//! - [`node`]: the process, from start to drain. `process`: its parts that administration reads and changes.
//! - [`answers`]: its answers to administrators.
//! - [`change`]: from one configuration to the next, and back if that is not confirmed. [`check`]: errors of a configuration.
//! - [`NodeHandle`]: changes the node from within its process, as an agent does.
//! - [`rehearsal`]: a dry run of a configuration with a supposed exchange.
//! - [`trial`]: whether the upstreams of a configuration can be reached.
//! - [`why`]: explains the end of an exchange, and forecasts that of another.
//! - `builtin`: plugs that every node has. `upkeep`: health checks and metrics, beside the exchanges. `scarcity`: whether the machine runs
//!   out of something.
//! - `handover`: gives the node's sockets to a successor.
//!
//! Exchanges are carried by `hermes-exchange`, admitted by `hermes-admit`, and accepted from sockets by `hermes-listen`.
//!
//! Limits: it reads no file but those a snapshot names, and it runs without any control plane.
//!
//! A future is as large as the largest one that it awaits, and is copied at each step on its way to
//! where it is kept. So long or rare work is boxed where it branches off: dialling, a TLS
//! handshake, a tunnel, an answer to an error. A waiting connection holds no buffer, except that
//! HTTP/1.1 keeps the room of its last head between two messages.

pub mod answers;
mod builtin;
pub mod change;
mod check;
mod documents;
mod handle;
mod handover;
mod metrics;
pub mod node;
mod nowhere;
mod process;
pub mod rehearsal;
mod scarcity;
mod status;
pub mod trial;
mod upkeep;
pub mod why;

pub use check::{all_mistakes, check, check_with, warnings};
pub use documents::{DocumentSource, last_confirmed, state_folder};
pub use handle::NodeHandle;
pub use hermes_admit::node_name::node_name;
pub use hermes_listen::PassedSockets;
pub use hermes_observe::Vitals;
pub use node::Proxy;
pub use process::LogFilter;
