//! Codes and failures of HTTP/3 in the terms that every version shares.

use std::io;

use hermes_net::quic::{ConnectionError, ReadError, WriteError};
use hermes_net::tls::TlsErrorKind;
use hermes_proto::h3::{Code, Fault, Role};

use crate::error::{Cause, Processed, Reset, StreamError, UNREAD};

/// ENHANCE_YOUR_CALM and HTTP_1_1_REQUIRED (RFC 9113, 7), which HTTP/3 has under other names.
const CALM: u32 = 0xb;
const HTTP_1_1: u32 = 0xd;

/// The code that says this to a peer; `role` is ours.
pub(crate) fn code(reset: Reset, role: Role) -> Code {
    match reset {
        Reset::Cancel => Code::RequestCancelled,
        Reset::Unneeded => Code::NoError,
        Reset::Connect | Reset::Lost | Reset::Silent(_) => Code::ConnectError,
        // RFC 9114, 4.1.1: only a server can say that it did nothing.
        Reset::Refused if role == Role::Server => Code::RequestRejected,
        Reset::Refused => Code::RequestCancelled,
        // RFC 9114, 4.1.2 and RFC 9297, 3.3: on a stream, it is a message that is malformed.
        Reset::Protocol => Code::MessageError,
        Reset::Other(CALM) => Code::ExcessiveLoad,
        Reset::Other(HTTP_1_1) => Code::VersionFallback,
        Reset::Internal | Reset::Other(_) => Code::InternalError,
    }
}

/// A peer's code as a reset; RFC 9114, 8.1: an unknown code only means that the stream ended.
pub(crate) fn reset(code: Code) -> Reset {
    match code {
        Code::NoError => Reset::Unneeded,
        Code::ConnectError => Reset::Connect,
        Code::RequestRejected => Reset::Refused,
        Code::InternalError => Reset::Internal,
        Code::ExcessiveLoad => Reset::Other(CALM),
        Code::VersionFallback => Reset::Other(HTTP_1_1),
        Code::RequestCancelled | Code::RequestIncomplete | Code::Other(_) => Reset::Cancel,
        _ => Reset::Protocol,
    }
}

/// A stream that the peer reset or stopped. RFC 9114, 4.1.1: a rejected request was not processed.
pub(crate) fn by_peer(number: u64) -> StreamError {
    let code = Code::from(number);
    let processed = if code == Code::RequestRejected {
        Processed::No
    } else {
        Processed::Maybe
    };

    StreamError {
        cause: Cause::Reset(reset(code)),
        processed,
    }
}

impl From<Fault> for StreamError {
    fn from(fault: Fault) -> Self {
        match fault.code {
            Code::RequestIncomplete => Self::new(Cause::Incomplete),
            // A peer that ends at once may drop this stream before its connection: open streams
            // fail with the path, not for a mistake of the peer.
            Code::ClosedCriticalStream => Self::new(Cause::Io(io::Error::other(fault.to_string()))),
            _ => Self::new(Cause::Protocol(fault.to_string())),
        }
    }
}

impl From<ConnectionError> for StreamError {
    fn from(error: ConnectionError) -> Self {
        if let ConnectionError::Tls(error) = &error
            && let TlsErrorKind::Alert { id } = error.kind
        {
            return Self::alerted(id, error.detail.clone());
        }

        Self::new(match error {
            ConnectionError::Application { code, .. } if Code::from(code) == Code::NoError => {
                Cause::Incomplete
            }
            ConnectionError::TimedOut => Cause::Io(io::Error::new(io::ErrorKind::TimedOut, error)),
            ConnectionError::Local => Cause::Incomplete,
            error => Cause::Io(io::Error::other(error)),
        })
    }
}

impl From<ReadError> for StreamError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Reset(code) => by_peer(code),
            ReadError::Connection(error) => error.into(),
            ReadError::EarlyRejected => early(),
            ReadError::Closed => Self::new(Cause::Reset(Reset::Cancel)),
            ReadError::Still => Self::new(Cause::Memory(UNREAD)),
        }
    }
}

impl From<WriteError> for StreamError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(code) => by_peer(code),
            WriteError::Connection(error) => error.into(),
            WriteError::EarlyRejected => early(),
            WriteError::Closed => Self::new(Cause::Invalid("the stream has ended".to_owned())),
        }
    }
}

impl From<hermes_proto::h3::FieldEncodeError> for StreamError {
    fn from(error: hermes_proto::h3::FieldEncodeError) -> Self {
        Self::unprocessed(Cause::Invalid(error.to_string()))
    }
}

/// RFC 9001, 4.6.2: a server that rejected early data has not processed it.
fn early() -> StreamError {
    StreamError::unprocessed(Cause::Reset(Reset::Refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_says_the_other_understands() {
        let both = [
            Reset::Cancel,
            Reset::Unneeded,
            Reset::Connect,
            Reset::Refused,
            Reset::Internal,
            Reset::Protocol,
        ];
        for said in both
            .into_iter()
            .chain([Reset::Other(CALM), Reset::Other(HTTP_1_1)])
        {
            assert_eq!(reset(code(said, Role::Server)), said);
        }
        assert_eq!(code(Reset::Refused, Role::Client), Code::RequestCancelled);
        assert_eq!(reset(Code::Other(0x21)), Reset::Cancel);
        assert_eq!(reset(Code::MessageError), Reset::Protocol);
    }

    #[test]
    fn a_peer_that_ends_its_control_stream_is_gone() {
        let gone = StreamError::from(Fault::connection(
            Code::ClosedCriticalStream,
            "a control or QPACK stream was closed",
        ));
        assert_eq!(gone.reset(), Reset::Connect);
        let broken = StreamError::from(Fault::connection(
            Code::IdError,
            "a push that was not allowed",
        ));
        assert_eq!(broken.reset(), Reset::Protocol);
    }

    #[test]
    fn only_what_was_rejected_was_surely_not_processed() {
        assert_eq!(
            by_peer(Code::RequestRejected.number()).processed,
            Processed::No
        );
        for code in [
            Code::RequestCancelled,
            Code::InternalError,
            Code::NoError,
            Code::Other(0x21),
        ] {
            assert_eq!(by_peer(code.number()).processed, Processed::Maybe);
        }
    }
}
