//! Real software that was not tuned for Hermes, through several nodes, as its users run it.
//!
//! One module a kind of traffic.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod apt;
mod browse;
mod calls;
mod database;
mod dns;
mod four;
mod grpc;
mod laptop;
mod late;
mod mending;
mod overlay;
mod push;
mod roles;
mod row;
mod socks;
mod tun;
mod video;
mod wireguard;
