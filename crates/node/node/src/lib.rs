//! The running node: it starts, is changed and drained, and tells of itself.
//!
//! - [`node`]: the process, from start to drain. `administered`: its parts that administration works on.
//! - [`change`]: from one configuration to the next, and back if that is not confirmed. [`check`]: what is wrong with one.
//! - [`rehearsal`]: what a configuration would decide about an exchange that is only supposed.
//! - [`trial`]: whether the upstreams of a configuration can be reached.
//! - [`why`]: what became of an exchange, and what would become of another.
//! - `builtin`: plugs that every node has. `upkeep`: health checks and metrics, beside the exchanges. `scarcity`: whether the machine runs
//!   out of something.
//!
//! What happens to an exchange is in `hermes-exchange`, who may do what in `hermes-admit`, sockets are in `hermes-listen`.
//!
//! What it is not: it reads no file but those a snapshot names, and it runs without any control plane.
//!
//! A future is as large as the largest one that it awaits, and is copied at each step on its way to
//! where it is kept. So long or rare work is boxed where it branches off: dialling, a TLS
//! handshake, a tunnel, an answer to an error. A waiting connection holds no buffer, except that
//! HTTP/1.1 keeps the room of its last head between two messages.

mod administered;
mod builtin;
pub mod change;
mod check;
pub mod node;
pub mod rehearsal;
mod scarcity;
mod status;
pub mod trial;
mod upkeep;
pub mod why;

pub use administered::LogFilter;
pub use check::{check, check_rest, check_with, doubts};
pub use hermes_admit::node_name::node_name;
pub use node::Proxy;
