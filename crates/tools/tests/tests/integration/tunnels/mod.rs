//! Tunnels of bytes and of datagrams through real processes: every version in, every version out, one hop and three.

mod bulk;
mod bytes;
mod capsules;
mod datagrams;
mod early;
mod overlay;
mod peer;
mod pipe;
mod refusals;
mod resets;
mod sharing;
