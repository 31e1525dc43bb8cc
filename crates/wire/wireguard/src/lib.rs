//! WireGuard without input or output: an [`Interface`] has a key and peers, takes datagrams and packets, and gives packets and datagrams.
//!
//! It speaks the protocol of stock ends (the kernel's, wireguard-go, those of phones), so that a
//! host without Hermes can send its packets here, or be sent packets. Handshakes with and without a
//! preshared key, cookies under load, replay windows, keepalives, roaming, and routing by key: a
//! packet counts only if its source is one that its peer may have.
//!
//! It opens no socket and no device, and reads no clock; its random numbers are those of aws-lc-rs.
//! It fragments no packets and writes no errors about them: that is left to the caller.
//!
//! | module | specification |
//! |---|---|
//! | `handshake` | J. A. Donenfeld, "WireGuard: Next Generation Kernel Network Tunnel", sections 5.4.2 and 5.4.3; Noise, revision 34, `IKpsk2` |
//! | `message` | the same, section 5.4 |
//! | `macs` | the same, sections 5.4.4 and 5.4.7 |
//! | `transport`, `replay` | the same, section 5.4.6; RFC 6479 |
//! | `timers` | the same, section 6 |
//! | `xchacha` | draft-irtf-cfrg-xchacha-03, section 2 |
//!
//! The machine of the handshake is that of `snow`; keys and primitives are those of [`hermes_noise`].
//!
//! Begin reading in [`Interface`].

#[cfg(test)]
mod fuzz;
mod handshake;
#[cfg(test)]
mod hostile_tests;
mod indices;
mod interface;
mod macs;
mod message;
mod own;
mod peer;
mod replay;
mod sessions;
mod timers;
mod timestamp;
mod transport;
mod waiting;
mod xchacha;

#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
pub use hermes_noise::{NoKey, PresharedKey, PrivateKey, PublicKey};
pub use indices::PeerId;
pub use interface::{Interface, PeerTwice, RefusedDatagrams};
pub use message::OVERHEAD;
pub use own::Outgoing;
pub use peer::{PeerCounters, PeerSettings, PeerView};
pub use timestamp::WallClock;
