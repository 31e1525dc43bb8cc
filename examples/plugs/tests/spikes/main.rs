//! Plugs in nodes of this process, with real sockets.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod between;
mod broker;
mod capitals;
mod ends;
mod fate;
mod feeds;
mod hostile;
mod memo;
mod names;
mod node;
mod queues;
mod settings;
mod socks;
mod stamps;
mod stores;
mod zones;
