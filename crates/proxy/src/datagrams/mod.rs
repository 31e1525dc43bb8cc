//! UDP on either side of a tunnel.
//!
//! Datagrams move in batches: what is ready at one wake-up becomes one DATA frame of capsules, and a frame of capsules becomes
//! as few sends as its lengths allow. Nothing waits for a batch to fill.

mod carry;
mod end;
mod queue;
mod session;

pub use carry::{carry_udp, carry_udp_to_udp};
pub use end::UdpEnd;
pub use queue::{Bounds, Queue};
pub use session::Session;
