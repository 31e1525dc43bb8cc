//! Error codes (RFC 9114, section 8.1; RFC 9204, section 6; RFC 9297, section 5.2) and the errors
//! that carry them.

use std::fmt;

/// Codes of the registry "HTTP/3 Error Codes", for streams and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// `0x33`: an HTTP datagram that cannot be (RFC 9297).
    DatagramError,
    /// `0x100`: nothing is wrong.
    NoError,
    /// `0x101`: the peer broke the protocol in a way that has no code of its own.
    GeneralProtocolError,
    /// `0x102`: a failure of our own.
    InternalError,
    /// `0x103`: a stream that the peer must not open.
    StreamCreationError,
    /// `0x104`: a stream ended that must last as long as the connection.
    ClosedCriticalStream,
    /// `0x105`: a frame that is not allowed there or then.
    FrameUnexpected,
    /// `0x106`: a frame of the wrong shape or length.
    FrameError,
    /// `0x107`: the peer causes more work than it should.
    ExcessiveLoad,
    /// `0x108`: an identifier that cannot be.
    IdError,
    /// `0x109`: a setting that cannot be.
    SettingsError,
    /// `0x10a`: the control stream does not begin with SETTINGS.
    MissingSettings,
    /// `0x10b`: the server did nothing with the request.
    RequestRejected,
    /// `0x10c`: the request, or its response, is no longer wanted.
    RequestCancelled,
    /// `0x10d`: the client's stream ended before the request did.
    RequestIncomplete,
    /// `0x10e`: a malformed message.
    MessageError,
    /// `0x10f`: the connection of a tunnel broke.
    ConnectError,
    /// `0x110`: to be asked over HTTP/1.1.
    VersionFallback,
    /// `0x200`: a field section cannot be read.
    QpackDecompressionFailed,
    /// `0x201`: an impossible instruction of the peer's encoder.
    QpackEncoderStreamError,
    /// `0x202`: an impossible instruction of the peer's decoder.
    QpackDecoderStreamError,
    /// A code without a name here; those of the form 0x1f * N + 0x21 mean no more than [`Code::NoError`].
    Other(u64),
}

/// Numbers and names of the codes that have one.
const NAMED: [(Code, u64, &str); 21] = [
    (Code::DatagramError, 0x33, "H3_DATAGRAM_ERROR"),
    (Code::NoError, 0x100, "H3_NO_ERROR"),
    (
        Code::GeneralProtocolError,
        0x101,
        "H3_GENERAL_PROTOCOL_ERROR",
    ),
    (Code::InternalError, 0x102, "H3_INTERNAL_ERROR"),
    (Code::StreamCreationError, 0x103, "H3_STREAM_CREATION_ERROR"),
    (
        Code::ClosedCriticalStream,
        0x104,
        "H3_CLOSED_CRITICAL_STREAM",
    ),
    (Code::FrameUnexpected, 0x105, "H3_FRAME_UNEXPECTED"),
    (Code::FrameError, 0x106, "H3_FRAME_ERROR"),
    (Code::ExcessiveLoad, 0x107, "H3_EXCESSIVE_LOAD"),
    (Code::IdError, 0x108, "H3_ID_ERROR"),
    (Code::SettingsError, 0x109, "H3_SETTINGS_ERROR"),
    (Code::MissingSettings, 0x10a, "H3_MISSING_SETTINGS"),
    (Code::RequestRejected, 0x10b, "H3_REQUEST_REJECTED"),
    (Code::RequestCancelled, 0x10c, "H3_REQUEST_CANCELLED"),
    (Code::RequestIncomplete, 0x10d, "H3_REQUEST_INCOMPLETE"),
    (Code::MessageError, 0x10e, "H3_MESSAGE_ERROR"),
    (Code::ConnectError, 0x10f, "H3_CONNECT_ERROR"),
    (Code::VersionFallback, 0x110, "H3_VERSION_FALLBACK"),
    (
        Code::QpackDecompressionFailed,
        0x200,
        "QPACK_DECOMPRESSION_FAILED",
    ),
    (
        Code::QpackEncoderStreamError,
        0x201,
        "QPACK_ENCODER_STREAM_ERROR",
    ),
    (
        Code::QpackDecoderStreamError,
        0x202,
        "QPACK_DECODER_STREAM_ERROR",
    ),
];

impl Code {
    /// The number on the wire.
    pub fn number(self) -> u64 {
        match self {
            Self::Other(number) => number,
            named => NAMED
                .iter()
                .find(|(code, ..)| *code == named)
                .map_or(0, |(_, number, _)| *number),
        }
    }
}

impl From<u64> for Code {
    fn from(number: u64) -> Self {
        NAMED
            .iter()
            .find(|(_, named, _)| *named == number)
            .map_or(Self::Other(number), |(code, ..)| *code)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMED.iter().find(|(code, ..)| code == self) {
            Some((_, _, name)) => f.write_str(name),
            None => write!(f, "{:#x}", self.number()),
        }
    }
}

/// How far an error reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One stream is reset.
    Stream,
    /// The connection is closed.
    Connection,
}

/// The peer broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} ({code})")]
pub struct Fault {
    /// The code to end the stream or the connection with.
    pub code: Code,
    /// Which of them ends.
    pub scope: Scope,
    /// The mistake of the peer.
    pub reason: &'static str,
}

impl Fault {
    /// An error that ends the connection.
    pub const fn connection(code: Code, reason: &'static str) -> Self {
        Self {
            code,
            scope: Scope::Connection,
            reason,
        }
    }

    /// An error that ends one stream.
    pub const fn stream(code: Code, reason: &'static str) -> Self {
        Self {
            code,
            scope: Scope::Stream,
            reason,
        }
    }

    /// A malformed message (RFC 9114, section 4.1.2).
    pub const fn message(reason: &'static str) -> Self {
        Self::stream(Code::MessageError, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_codes_lead_to_each_other() {
        for (code, number, name) in NAMED {
            assert_eq!(code.number(), number);
            assert_eq!(Code::from(number), code);
            assert_eq!(code.to_string(), name);
        }
        assert_eq!(Code::from(0x21), Code::Other(0x21));
        assert_eq!(Code::Other(0x21).number(), 0x21);
        assert_eq!(Code::Other(0x21).to_string(), "0x21");
    }
}
