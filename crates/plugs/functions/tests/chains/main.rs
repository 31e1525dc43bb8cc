//! Functions on the way of exchanges, in nodes of this process.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

mod beyond;
mod builtin;
mod hops;
mod node;
mod processors;
mod programs;
mod scanners;
