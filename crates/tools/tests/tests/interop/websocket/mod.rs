//! WebSocket between ends that are not Hermes, over every pair of HTTP versions, and its handshake at one hop.

mod handshake;
mod peers;
