//! Exchanges over HTTP/1.1 connections. The codec itself is `hermes_proto::h1`; here bytes move.

pub mod client;
mod connection;
mod incoming;
mod outgoing;
mod pieces;
mod rejoin;

pub use connection::Connection;
pub(crate) use connection::{ReadSide, WriteSide};
pub use incoming::BodyReceiver;
pub(crate) use incoming::Ends;
pub use outgoing::BodySender;
pub use rejoin::Home;
pub(crate) use rejoin::{Rejoin, WayBack};
