//! A strict HTTP/1.1 codec for a proxy that stands between clients and origins.
//!
//! The codec takes bytes and gives messages, or takes messages and gives bytes. It holds no socket,
//! no clock and no buffer of its own. It refuses any input that two implementations could read in
//! two ways, and never passes a received line on unchanged: each message is written anew from
//! checked parts. Defects of responses that RFC 9110 and RFC 9112 say how to repair are repaired.
//!
//! Every decoder gives the same result however its input is cut into pieces.
//!
//! Pipelining, time limits, and who closes a connection belong to the caller.
//!
//! Specifications: RFC 9110 (semantics), RFC 9112 (HTTP/1.1), RFC 9931 (optimistic protocol transitions).

mod body_decode;
mod body_encode;
mod chunk;
mod connection;
#[cfg(test)]
mod corpus_tests;
mod encode;
mod error;
mod framing;
#[cfg(test)]
mod fuzz;
mod head;
mod limits;
mod repair;
mod request;
mod response;
mod target;
mod trailers;

pub use body_decode::{BodyDecoder, BodyEvent};
pub use body_encode::BodyEncoder;
pub use encode::{encode_request, encode_request_for, encode_response};
pub use error::{DecodeError, DecodeErrorKind, MessageEncodeError};
pub use framing::Framing;
#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
pub use limits::MessageLimits;
pub use request::{RequestHead, decode_request};
pub use response::{ResponseHead, decode_response};
pub use target::RequestTarget;
pub use trailers::is_forbidden_trailer;
