//! Events of a connection.

use std::borrow::Cow;

use bytes::Bytes;
use http::StatusCode;

use super::reason::Reason;
use crate::fields::Fields;
use crate::h3::Signal;
use crate::head::{RequestHead, ResponseHead};

/// Why a stream has ended before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The peer reset it.
    Reset(Reason),
    /// The peer broke the protocol on it, and it was reset; in words.
    Broken(Reason, Cow<'static, str>),
    /// The peer is closing the connection and did not begin with it (RFC 9113, section 6.8).
    Unprocessed,
}

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A client asks for something.
    Request {
        /// The stream.
        stream: u32,
        /// The request.
        request: RequestHead,
        /// Whether that is all.
        end: bool,
    },
    /// A client asks for something that is to be refused with a status and the reason. Its content is passed over.
    Refuse {
        /// The stream.
        stream: u32,
        /// The status.
        status: StatusCode,
        /// The reason.
        words: Cow<'static, str>,
    },
    /// A server answers, with an interim response or with the final one.
    Response {
        /// The stream.
        stream: u32,
        /// The head.
        response: ResponseHead,
        /// Whether that is all.
        end: bool,
    },
    /// Content. It is to be [released](super::Connection::release).
    Data {
        /// The stream.
        stream: u32,
        /// The content; never empty.
        data: Bytes,
    },
    /// The peer's half of a stream has ended.
    End {
        /// The stream.
        stream: u32,
        /// Its trailers, if there are any.
        trailers: Option<Box<Fields>>,
    },
    /// A stream has ended before its time, in both directions.
    Failed {
        /// The stream.
        stream: u32,
        /// Why.
        failure: Failure,
    },
    /// More can be queued on a stream, and someone waits for that.
    Writable {
        /// The stream.
        stream: u32,
    },
    /// More streams can be opened.
    Openable,
    /// The peer's first SETTINGS are here.
    Settled,
    /// The peer answers a PING of ours.
    Pong,
    /// The peer closes the connection: it takes no more streams.
    Goaway {
        /// Why.
        reason: Reason,
    },
    /// The client changes the priority of a response (RFC 9218, section 7.1).
    PriorityUpdate {
        /// The stream, which may not be open yet.
        stream: u32,
        /// The priority.
        signal: Signal,
    },
    /// A budget of the connection's life is nearly used up: another one should take over.
    Retire,
}
