//! HPACK (RFC 7541): field sections of HTTP/2.
//!
//! The [`HpackDecoder`] keeps the dynamic table that the peer writes, within the size that we
//! allow. The [`HpackEncoder`] writes one where the peer is another proxy, or a server that we
//! chose: a line that the sections of a link have in common then costs one byte. On the connections
//! of strangers it writes static references and literals only, so that it has no state there.

mod decode;
mod encode;
#[cfg(test)]
mod fuzz;
mod repeated;
mod static_table;
mod table;

pub use crate::fields::{LineName, PseudoName};
pub(super) use decode::TABLE_SIZE;
pub use decode::{HpackDecoder, HpackError};
pub use encode::HpackEncoder;
#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
