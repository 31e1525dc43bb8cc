//! The parts of Noise handshakes (revision 34) that `snow`, which is the machine, does not have:
//! the text form of keys, and the primitives. Custody and WireGuard stand on it, each with a
//! pattern of its own. [`HandshakeBudget`] bounds the cost of handshakes that others begin.
//!
//! The primitives are those of aws-lc-rs, as everywhere else; BLAKE2s, which it has not, is that of `blake2`.
//!
//! Begin reading in [`Primitives`].

mod budget;
mod key;
mod primitives;

pub use budget::HandshakeBudget;
pub use key::{KEY, NoKey, PresharedKey, PrivateKey, PublicKey};
pub use primitives::{Primitives, TAG};
