//! Tunnels of bytes that outlive the path to them.

mod chain;
mod download;
mod row;
mod tickets;
