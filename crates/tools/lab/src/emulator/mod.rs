//! A link with the faults that one asks for: delay, jitter, loss, a rate with a queue, reordering, and times when it is down.
//!
//! What it is: [`Direction`] decides about the packets of one direction. It knows neither time nor sockets: packets and
//! `now` go in, departures come out, and the same seed gives the same decisions. [`wire`] puts it between two namespaces.
//!
//! What it is not: `tc netem`, which is not in every kernel. It emulates a link, not the path behind it: no duplicates, no
//! corrupted bytes, no congestion but its own.

mod direction;
mod profile;
mod schedule;
pub mod wire;

pub use direction::{Direction, Fate};
pub use profile::{Loss, Profile, Rate};
pub use schedule::{Schedule, Turn};
