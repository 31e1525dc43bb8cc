//! Error codes (RFC 9113, section 7) and the errors that carry them.

use std::fmt;

/// A code of the registry "HTTP/2 Error Code".
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reason(u32);

/// Names of the codes, by number.
const NAMES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

impl Reason {
    /// No error.
    pub const NO_ERROR: Self = Self(0x0);
    /// The peer broke the protocol in a way that has no code of its own.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// A failure of our own.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// More was sent than a window allows.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// SETTINGS were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// A frame for a stream that had ended.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame of a length that it cannot have.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The stream was refused before anything was done with it.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(0x8);
    /// A field section cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The connection of a tunnel broke.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer causes more work than it should.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// The properties of TLS are not good enough.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// To be asked over HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// The number on the wire.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl From<u32> for Reason {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

impl From<Reason> for u32 {
    fn from(reason: Reason) -> Self {
        reason.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A mistake of the peer that ends a connection (RFC 9113, section 5.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{words} ({reason})")]
pub struct ConnectionError {
    /// The code for GOAWAY.
    pub reason: Reason,
    /// The mistake.
    pub words: &'static str,
}

impl ConnectionError {
    pub(super) const fn new(reason: Reason, words: &'static str) -> Self {
        Self { reason, words }
    }

    pub(super) const fn protocol(words: &'static str) -> Self {
        Self::new(Reason::PROTOCOL_ERROR, words)
    }

    pub(super) const fn size(words: &'static str) -> Self {
        Self::new(Reason::FRAME_SIZE_ERROR, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_called_what_the_registry_calls_them() {
        assert_eq!(Reason::NO_ERROR.to_string(), "NO_ERROR");
        assert_eq!(Reason::CANCEL.to_string(), "CANCEL");
        assert_eq!(Reason::HTTP_1_1_REQUIRED.to_string(), "HTTP_1_1_REQUIRED");
        assert_eq!(Reason::from(0x10).to_string(), "0x10");
    }
}
