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
