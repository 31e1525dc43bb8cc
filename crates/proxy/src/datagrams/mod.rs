//! UDP on either side of a tunnel.
//!
//! Datagrams move in batches: what is ready at one wake-up becomes one DATA frame of capsules, and a frame of capsules becomes
//! as few sends as its lengths allow. Nothing waits for a batch to fill.

mod beside;
mod bound;
mod end;
mod lane;
mod limit;
mod queue;
mod quic;
mod received;
mod session;
mod shared;
mod stop;
mod stream;

pub(crate) use bound::{Bound, Egress};
pub use end::UdpEnd;
pub(crate) use end::UdpReader;
pub(crate) use lane::{Lane, Left, Origin, Sink};
pub(crate) use limit::Limits;
pub use queue::{Bounds, Queue};
pub(crate) use received::Received;
pub use session::{Early, Session};
pub(crate) use stop::Stop;
