//! UDP sessions whose way breaks: they go on on another, and keep their socket.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod chain;
mod pieces;
mod token;
