//! The controller: one desired state of an overlay, and every node in step with it.
//!
//! An operator describes an overlay once, as [`resources`]. The [`store`] keeps each state of them, as git keeps files. The
//! [compiler](compile) makes of a state the document of each node; [`authority`] says who is a member.
//!
//! What it is not: the data plane, which runs without it, and the agent, which is the node's half.
//!
//! Specifications: RFC 5280 (certificates), SPIFFE ID and X.509-SVID, gRPC over HTTP/2.
//!
//! Begin reading in `resources/mod.rs`.

pub mod authority;
pub mod compile;
mod connection;
mod rates;
pub mod resources;
pub mod rollout;
pub mod service;
pub mod store;
