//! The harness of the integration tests: nodes as processes, origins, clients and certificates.
//!
//! It has everything for a test to start `hermes run` on a file of its own, put servers behind it
//! and talk to it as a user would. It links no crate of the product, so that a test
//! sees no more than an outsider does; its capsule codec and its clients are independent.
//!
//! A test is plain blocking code. Servers live on one background runtime ([`runtime`]), nodes are processes that are
//! ended by their own identifier when their [`Node`] is dropped, and waiting is done with [`eventually()`].
//!
//! Specifications: RFC 9112 (raw connections), RFC 9113 (`h2`), RFC 9297 and RFC 9298 (`capsules`).
//!
//! Begin reading in `node.rs`: a process of Hermes for one test.

#![allow(
    clippy::unwrap_used,
    reason = "a harness stops at the first surprise, as a test does"
)]

pub mod attacks;
pub mod capsules;
pub mod chromium;
pub mod collector;
pub mod corpus;
pub mod crowd;
pub mod curl;
pub mod cut;
pub mod echo;
pub mod envoy;
pub mod etcd;
pub mod eventually;
pub mod frames;
pub mod free;
pub mod gate;
pub mod h2c;
pub mod h3c;
pub mod h3flood;
pub mod h3mistake;
pub mod haproxy;
pub mod head;
pub mod http_peers;
pub mod ip_packets;
pub mod lab;
pub mod mortal;
mod named;
pub mod nginx;
pub mod node;
pub mod opa;
pub mod origins;
pub mod overlay;
pub mod passed;
pub mod peak;
pub mod pebble;
pub mod peers;
pub mod pki;
pub mod program;
pub mod raw;
pub mod resources;
pub mod runtime;
pub mod secured;
pub mod shown;
pub mod small_disk;
pub mod udp;

pub use collector::Collector;
pub use curl::curl;
pub use echo::Echo;
pub use envoy::Envoy;
pub use eventually::eventually;
pub use gate::Gate;
pub use haproxy::Haproxy;
pub use http_peers::{HttpPeer, HttpServer};
pub use mortal::Mortal;
pub use nginx::Nginx;
pub use node::Node;
pub use opa::{Opa, OpaEnvoy};
pub use passed::KeptSockets;
pub use pebble::Pebble;
pub use pki::Pki;
pub use secured::Secured;
pub use shown::{Role, shown};
