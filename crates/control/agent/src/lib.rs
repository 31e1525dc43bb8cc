//! A node's half of the control plane: it joins an overlay, follows its controllers, and lives without them.
//!
//! [`join`](enrol::join) makes a key that never leaves the node and a [`Membership`] with a certificate. [`Machine`] decides, without
//! input or output, which statements of a controller are followed; [`attend()`] is the loop around it. Everything that a node
//! needs to start is on its disk ([`State`]): controllers may be away for as long as they like.
//!
//! What it is not: the data plane. A node without an agent has none of this.
//!
//! Specifications: RFC 2986 (requests for certificates), SPIFFE X.509-SVID, gRPC over HTTP/2.
//!
//! Begin reading in `machine.rs`.

mod agreements;
pub mod attend;
mod backoff;
mod blocking;
mod connection;
mod controllers;
pub mod enrol;
mod file_bounds;
mod health;
mod machine;
mod membership;
pub mod node;
mod operator;
mod renewal;
mod secrets;
mod state;
#[cfg(test)]
mod state_tests;

pub use agreements::{Agreements, Proposals, agreements};
pub use attend::{Agent, Ended, Subject, attend};
pub use connection::{ControllerUrl, NotConnected};
pub use machine::{Effect, Machine, Refused};
pub use membership::Membership;
pub use state::{Current, State};
