//! HPACK (RFC 7541): field sections of HTTP/2.
//!
//! The [`Decoder`] keeps the dynamic table that the peer writes, within the size that we allow. The encoder writes static
//! references and literals only, so it has no state, and no two requests on a connection can be told from how they shrink.

mod decode;
mod encode;
mod static_table;
mod table;

pub use decode::{Decoder, HpackError};
pub use encode::{encode_field, encode_pseudo, encode_table_size};
pub use table::{LineName, PseudoName};
