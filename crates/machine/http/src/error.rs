//! Failures of a stream, and whether the peer may have acted before.

use std::fmt;
use std::io;

use hermes_net::tls::{TlsError, TlsErrorKind, alert_ends_handshake, remedy_of_alert};
use hermes_proto::h2::Reason;

/// Whether a request may have had an effect before it failed (RFC 9110, 9.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processed {
    /// The peer said, or it is certain, that it did not act.
    No,
    /// The peer may have acted.
    Maybe,
}

/// Why a stream was reset, in terms that every HTTP version can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The exchange is not needed any more.
    Cancel,
    /// The receiver needs no more; nothing went wrong (`NO_ERROR`; RFC 9113, 8.1).
    Unneeded,
    /// The other side of a tunnel broke (RFC 9113, 8.5).
    Connect,
    /// The request was refused before anything was done with it.
    Refused,
    /// The connection is gone.
    Lost,
    /// The connection was given up because nothing came back on it any more; in words.
    Silent(&'static str),
    /// This proxy failed.
    Internal,
    /// The peer broke the protocol.
    Protocol,
    /// Any other code of HTTP/2.
    Other(u32),
}

impl Reset {
    /// The HTTP/2 error code.
    pub fn reason(self) -> Reason {
        match self {
            Self::Cancel => Reason::CANCEL,
            Self::Unneeded => Reason::NO_ERROR,
            Self::Connect | Self::Lost | Self::Silent(_) => Reason::CONNECT_ERROR,
            Self::Refused => Reason::REFUSED_STREAM,
            Self::Internal => Reason::INTERNAL_ERROR,
            Self::Protocol => Reason::PROTOCOL_ERROR,
            Self::Other(code) => code.into(),
        }
    }
}

impl From<Reason> for Reset {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::CANCEL => Self::Cancel,
            Reason::NO_ERROR => Self::Unneeded,
            Reason::CONNECT_ERROR => Self::Connect,
            Reason::REFUSED_STREAM => Self::Refused,
            Reason::INTERNAL_ERROR => Self::Internal,
            Reason::PROTOCOL_ERROR => Self::Protocol,
            other => Self::Other(other.into()),
        }
    }
}

/// Why a stream ends that has no memory for its fields.
pub(crate) const NO_ROOM: &str = "its fields need more memory than its other end has left";

/// Why a connection is ended that holds too much.
pub(crate) const EVICTED: &str =
    "the connection was ended: the node holds more than memory.total, and the peer takes nothing";

/// Why a stream is ended that was not read.
pub(crate) const UNREAD: &str = "the stream was ended: its content is not read, and unread contents fill \
                                 what memory.connection gives the link";

/// The kinds of failures.
#[derive(Debug)]
pub enum Cause {
    /// The peer reset the stream.
    Reset(Reset),
    /// The connection ended in the middle of a message.
    Incomplete,
    /// The connection failed.
    Io(io::Error),
    /// The connection fell silent, while the peer could be reached otherwise; the text says more.
    Silent(&'static str),
    /// We ended the stream, which held memory that others needed; the text names the bound.
    Memory(&'static str),
    /// The peer broke the protocol; the text says how.
    Protocol(String),
    /// The peer is closing the connection, and did not begin with the exchange (GOAWAY).
    Closing,
    /// The peer ended the connection with this TLS alert, often because it wants another certificate.
    Alert {
        /// Its number (RFC 8446, section 6).
        id: u8,
        /// The alert in words, with the peer's own if there are any.
        text: String,
    },
    /// The client was slower than it may be while it was waited for (RFC 9110, 15.5.9).
    Slow,
    /// We were about to break it ourselves, for instance with more content than was announced.
    Invalid(String),
    /// The peer does not offer a required feature, such as extended CONNECT.
    Unsupported(&'static str),
}

/// Failure of one stream; other streams of the connection are not affected by it.
#[derive(Debug)]
pub struct StreamError {
    /// The kind of failure.
    pub cause: Cause,
    /// Whether the peer may have acted.
    pub processed: Processed,
}

impl StreamError {
    /// A failure after which the peer may have acted.
    pub fn new(cause: Cause) -> Self {
        Self {
            cause,
            processed: Processed::Maybe,
        }
    }

    /// A failure before the peer could act.
    pub fn unprocessed(cause: Cause) -> Self {
        Self {
            cause,
            processed: Processed::No,
        }
    }

    /// A connection that the peer ended with this alert. One that ends the handshake came before the peer could act: with TLS 1.3
    /// a client has sent its request by then.
    pub fn alerted(id: u8, text: String) -> Self {
        let cause = Cause::Alert { id, text };
        if alert_ends_handshake(id) {
            Self::unprocessed(cause)
        } else {
            Self::new(cause)
        }
    }

    /// The same failure, of which this alert was the cause.
    pub(crate) fn by_alert(self, id: u8, text: String) -> Self {
        let alerted = Self::alerted(id, text);
        if self.processed == Processed::No {
            return Self::unprocessed(alerted.cause);
        }
        alerted
    }

    /// The reset to pass on to the other side of the exchange.
    pub fn reset(&self) -> Reset {
        match &self.cause {
            Cause::Reset(reset) => *reset,
            Cause::Closing => Reset::Refused,
            Cause::Incomplete | Cause::Io(_) | Cause::Alert { .. } => Reset::Connect,
            Cause::Protocol(_) | Cause::Unsupported(_) => Reset::Protocol,
            Cause::Slow => Reset::Cancel,
            Cause::Memory(_) => Reason::ENHANCE_YOUR_CALM.into(),
            Cause::Silent(reason) => Reset::Silent(reason),
            Cause::Invalid(_) => Reset::Internal,
        }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Reset(reset) => write!(f, "the stream was reset ({reset:?})"),
            Cause::Incomplete => f.write_str("the connection ended in the middle of a message"),
            Cause::Io(error) => write!(f, "the connection failed: {error}"),
            Cause::Silent(reason) | Cause::Memory(reason) => f.write_str(reason),
            Cause::Protocol(reason) => write!(f, "the peer broke the protocol: {reason}"),
            Cause::Closing => f.write_str("the peer is closing the connection"),
            Cause::Alert { id, text } => {
                write!(f, "the peer refused the connection: {text}")?;
                match remedy_of_alert(*id) {
                    "" => Ok(()),
                    remedy => write!(f, "; {remedy}"),
                }
            }
            Cause::Slow => f.write_str("the client was slower than limits.min_rate"),
            Cause::Invalid(reason) => write!(f, "the message cannot be sent: {reason}"),
            Cause::Unsupported(what) => write!(f, "the peer does not offer {what}"),
        }
    }
}

impl std::error::Error for StreamError {}

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> Self {
        let tls = TlsError::from_io(&error);
        if let TlsErrorKind::Alert { id } = tls.kind {
            return Self::alerted(id, tls.detail);
        }

        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                Self::new(Cause::Reset(Reset::Connect))
            }
            io::ErrorKind::UnexpectedEof => Self::new(Cause::Incomplete),
            _ => Self::new(Cause::Io(error)),
        }
    }
}

impl From<hermes_proto::h1::DecodeError> for StreamError {
    fn from(error: hermes_proto::h1::DecodeError) -> Self {
        Self::new(Cause::Protocol(error.to_string()))
    }
}

impl From<hermes_proto::h1::MessageEncodeError> for StreamError {
    fn from(error: hermes_proto::h1::MessageEncodeError) -> Self {
        Self::new(Cause::Invalid(error.to_string()))
    }
}
