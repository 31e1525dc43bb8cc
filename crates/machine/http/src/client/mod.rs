//! Exchanges that are opened: one on a connection of HTTP/1.1, any number on a link of HTTP/2 or HTTP/3.

pub mod h1;
pub(crate) mod h2;
pub(crate) mod h3;

pub use h2::TcpLink;
pub use h3::QuicLink;
