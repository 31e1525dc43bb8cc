//! WebSocket between ends that are not Hermes, over every pair of HTTP versions, and its handshake at one hop.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "interop_websocket/handshake.rs"]
mod handshake;
#[path = "interop_websocket/peers.rs"]
mod peers;
