//! Recovery of lost datagrams between the two ends of a tunnel of UDP: they are sent again, or computed from parity, within a bound of time.
//!
//! It is for programs that have no recovery of their own, as RTP from ffmpeg, over links that lose packets. A datagram that cannot be had
//! within [`RecoverySettings::within`] is given up, so that the delay stays bounded, which no tunnel over TCP can promise. It is not for programs
//! that want each datagram at once (DNS, voice with concealment): those are better without.
//!
//! The wire form is ours, since no specification has one for HTTP Datagrams. The two ends agree on a context ID ([RFC 9298], section 4) in which
//! each HTTP Datagram is one [frame](frame::Frame); proxies in between forward them as any other.
//!
//! [`RecoveryEnd`] is the machine of one end: it takes datagrams, frames and the time, and gives out frames, datagrams and the time when it is to be
//! called again. It reads no clock and no socket. Begin reading there.
//!
//! [RFC 9298]: https://www.rfc-editor.org/rfc/rfc9298#section-4

pub mod agreement;
mod end;
pub mod frame;
mod loss;
mod parity;
mod receiver;
mod retry_budget;
mod sender;
mod settings;

#[cfg(test)]
mod tests;

pub use end::{RecoveryEnd, RecoveryTally};
pub use settings::{ParityShare, RecoverySettings};

/// Datagrams that an end remembers in each direction, at most.
#[doc(alias = "bound")]
pub const WINDOW: u64 = 4096;
