//! Plugs in nodes of this process, with real sockets.

mod broker;
mod fate;
mod names;
mod node;
