//! HTTP/3 (RFC 9114) without input or output: frames, settings, heads, and the order in which they come.
//!
//! Bytes of a stream go into a [`FrameDecoder`]; the frames go into the machine of that stream,
//! [`Control`] or [`Sequence`], and field sections into [`decode_request`], [`decode_response`] or
//! [`decode_trailers`]. Every mistake of the peer is a [`Fault`], which says whether to close the
//! stream or the connection, and with which code.
//!
//! Not part of it: it opens no stream and closes none, and supports no server push.
//!
//! Specifications: RFC 9114, RFC 9204 (in [`qpack`](crate::qpack)), RFC 9218 (priorities), RFC 9220 (extended CONNECT), RFC
//! 9297 (HTTP datagrams).

mod code;
mod control;
pub mod datagram;
pub mod datagram_group;
pub mod datagram_order;
mod decoder;
mod fields;
pub mod frame;
#[cfg(test)]
mod fuzz;
mod priority;
mod request;
mod response;
mod sequence;
mod settings;
mod streams;

pub use crate::qpack::FieldSectionLimits;
pub use code::{Code, Fault, Scope};
pub use control::{Control, ControlEvent, Role, is_request};
pub use decoder::{CONTROL_FRAME, FrameDecoder, IDLE_FRAMES, IDLE_TIME, On, Piece};
pub use fields::{
    FieldEncodeError, Received, content_length, decode_trailers, encode_trailers, response_length,
    section_size,
};
pub use frame::{Frame, FrameType};
#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
pub use priority::{Priority, Signal};
pub use request::{BadRequest, RequestParts, decode_request, encode_request};
pub use response::{decode_response, encode_response};
pub use sequence::{Section, Sequence};
pub use settings::Settings;
pub use streams::{PeerStreams, StreamType, TypeDecoder};
