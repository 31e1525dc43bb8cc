//! Plugs in nodes of this process, with real sockets.

mod broker;
mod names;
mod node;
