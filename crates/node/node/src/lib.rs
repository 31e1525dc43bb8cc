//! The data plane: listeners, identity, the pipeline, and what happens to an exchange.
//!
//! Everything that enters becomes an exchange and takes one path, whatever it carries and on every node:
//!
//! ```text
//! accept -> identify -> tag -> authorize -> route -> forward
//! ```
//!
//! - [`plug`]: what other crates can plug in: traits, and the names that the configuration chooses by.
//! - [`listeners`]: *accept*; sockets to exchanges. `arrival`: an exchange that has arrived, of whatever kind.
//! - `entry`: *identify* and *tag*; the crate `hermes-identity` says who a client is.
//! - [`pipeline`]: *route* and the order of all steps. `filter`: *authorize*.
//! - [`forward`]: to the next proxy, to an origin, into a TCP or UDP socket, or a local answer.
//! - `max_forwards` and `pac`: requests for this proxy itself. `explain`: which clients see why
//!   something failed.
//! - `memory_limits`: how much of contents the node holds at most.
//! - [`snapshot`]: a valid configuration, compiled for use. [`node`]: the running process, and
//!   [`change`]: from one configuration to the next.
//! - Datagrams, and sessions that outlive the path to them, are in `hermes-packet`.
//! - `reevaluate`: what happens to open tunnels when the snapshot changes, or a credential or
//!   decision expires.
//! - [`rehearsal`]: what a configuration would decide about an exchange that is only supposed.
//! - [`trial`]: whether the upstreams of a configuration can be reached.
//! - [`why`]: the last refusals, and what was compared.
//! - `trace`: an exchange's place in a trace. What the operator sees and asks is in `hermes-observe`.
//!
//! What it is not: it reads no file but those a snapshot names, and it runs without any control plane.
//!
//! A future is as large as the largest one that it awaits, and is copied at each step on its way to
//! where it is kept. So long or rare work is boxed where it branches off: dialling, a TLS
//! handshake, a tunnel, an answer to an error. A waiting connection holds no buffer, except that
//! HTTP/1.1 keeps the room of its last head between two messages.
//!
//! Specifications: RFC 9110 (proxy role), RFC 9209 (Proxy-Status), RFC 9298 (CONNECT-UDP), RFC 7239 (Forwarded).
//!
//! Begin reading in `pipeline/mod.rs`: an exchange from its arrival to its end.

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
