//! Changes of configuration under traffic: what is kept, what moves, what ends, and that nothing else happens.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod beliefs;
mod capsules;
mod files;
mod listeners;
mod policy;
mod soak;
mod tunnels;

#[path = "../integration/tokens/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod tokens;

use std::net::{SocketAddr, TcpListener};

/// An address that is free now: to be named in a file, and again in the next one.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}
