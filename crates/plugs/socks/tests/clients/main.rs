//! Clients of SOCKS before a node: bytes by hand, hostile ones among them, and programs that others wrote.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

mod associations;
mod binds;
mod connections;
mod hops;
mod hostile;
mod node;
mod passwords;
mod programs;
mod six;
mod six_datagrams;
