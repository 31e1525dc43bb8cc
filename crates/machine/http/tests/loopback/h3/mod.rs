//! Parts that only HTTP/3 has: datagrams, early data, and peers that write frames by hand.

mod client;
mod datagrams;
mod early;
mod goaway;
mod groups;
mod priorities;
mod probes;
mod requests;
mod streams;
mod tables;
mod wire;
