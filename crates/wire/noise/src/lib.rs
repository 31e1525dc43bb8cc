//! What handshakes of the Noise protocol (revision 34) need beside the machine, which is that of `snow`: keys, as they are written, and the
//! primitives. Custody and WireGuard stand on it, each with a pattern of its own. [`HandshakeBudget`] bounds what handshakes of others cost.
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
