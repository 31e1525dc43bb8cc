//! Errors that end connections and streams.

use std::fmt;

use rustls::AlertDescription;

use crate::tls::{Fault, TlsError, TlsErrorKind, of_text};

/// Codes of TLS alerts as QUIC carries them: 0x100 and the alert (RFC 9001 section 4.8).
const CRYPTO: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;
/// Alerts that mean a certificate which is not believed, also for its signature, or missing (RFC 8446 section 6).
const ABOUT_CERTIFICATES: &[u8] = &[42, 43, 44, 45, 46, 48, 51, 116];

/// Why a connection ended, or never was.
#[derive(Debug, Clone)]
pub enum ConnectionError {
    /// The peer closed it, with a code of HTTP/3 (RFC 9114 section 8.1).
    Application {
        /// The code.
        code: u64,
        /// The peer's words.
        reason: String,
    },
    /// A violation of QUIC: ours as the peer sees it, or the peer's (RFC 9000 section 20.1).
    Transport {
        /// The code.
        code: u64,
        /// The violation.
        reason: String,
    },
    /// The handshake of TLS failed.
    Tls(TlsError),
    /// The peer was silent for too long.
    TimedOut,
    /// The peer knows nothing of the connection: a stateless reset (RFC 9000 section 10.3).
    Reset,
    /// We closed it ourselves.
    Local,
    /// The peer speaks no version of QUIC that we do.
    Version,
    /// Anything else.
    Other(String),
}

/// Why nothing more can be read from a stream.
#[derive(Debug, Clone)]
pub enum ReadError {
    /// The peer reset the stream, with this code.
    Reset(u64),
    /// The connection ended.
    Connection(ConnectionError),
    /// The stream was opened in early data, which the server rejected. It was surely not processed.
    EarlyRejected,
    /// We stopped the stream ourselves.
    Closed,
    /// We ended the stream: its bytes were not read for some time, and no room was left for the
    /// other streams of the link.
    Still,
}

/// Why nothing more can be written to a stream.
#[derive(Debug, Clone)]
pub enum WriteError {
    /// The peer stopped the stream, with this code.
    Stopped(u64),
    /// The connection ended.
    Connection(ConnectionError),
    /// As [`ReadError::EarlyRejected`].
    EarlyRejected,
    /// The stream was finished or reset before.
    Closed,
}

/// How the sending side of a stream ended at the peer.
#[derive(Debug, Clone)]
pub enum Stopped {
    /// The peer reads no more, with this code.
    Code(u64),
    /// The peer has everything.
    Acked,
    /// The connection ended, or the stream was reset by us.
    Lost(ConnectionError),
}

impl ConnectionError {
    /// Stands in for the name of the server if it is invalid.
    pub(super) fn bad_name(name: &str) -> Self {
        let detail = format!("{name:?}: not a host name or address");
        Self::Tls(TlsError::new(TlsErrorKind::BadName, detail))
    }
}

impl From<quinn::ConnectionError> for ConnectionError {
    fn from(error: quinn::ConnectionError) -> Self {
        use quinn::ConnectionError as From;
        match error {
            From::VersionMismatch => Self::Version,
            From::TransportError(ours) => {
                let code = u64::from(ours.code);
                let said = of_text(&ours.reason);
                tls(code, said, kind_of_ours).unwrap_or_else(|| Self::Transport {
                    code,
                    reason: ours.to_string(),
                })
            }
            From::ConnectionClosed(theirs) => {
                let code = u64::from(theirs.error_code);
                let said = alert_in_words(code, &theirs.reason);
                tls(code, said, |id| TlsErrorKind::Alert { id }).unwrap_or_else(|| {
                    Self::Transport {
                        code,
                        reason: theirs.to_string(),
                    }
                })
            }
            From::ApplicationClosed(theirs) => Self::Application {
                code: theirs.error_code.into_inner(),
                reason: String::from_utf8_lossy(&theirs.reason).into_owned(),
            },
            From::Reset => Self::Reset,
            From::TimedOut => Self::TimedOut,
            From::LocallyClosed => Self::Local,
            From::CidsExhausted => Self::Other("no connection ID is left".to_owned()),
        }
    }
}

/// An error of TLS, if the code is one.
fn tls(code: u64, said: String, kind: impl FnOnce(u8) -> TlsErrorKind) -> Option<ConnectionError> {
    if !CRYPTO.contains(&code) {
        return None;
    }
    let alert = (code & 0xff) as u8;
    let plain = TlsError::new(kind(alert), said);
    let ours = !matches!(plain.kind, TlsErrorKind::Alert { .. });

    Some(ConnectionError::Tls(TlsError {
        fault: if ours {
            Fault::of_alert(alert)
        } else {
            plain.fault
        },
        ..plain
    }))
}

/// An alert in the words of TLS over TCP, with the peer's reason.
fn alert_in_words(code: u64, said: &[u8]) -> String {
    let alert = AlertDescription::from((code & 0xff) as u8);
    if said.is_empty() {
        return format!("received fatal alert: {alert:?}");
    }
    let said = String::from_utf8_lossy(said);
    format!("received fatal alert: {alert:?}: {said}")
}

/// The fault that our own alert reports.
fn kind_of_ours(alert: u8) -> TlsErrorKind {
    if ABOUT_CERTIFICATES.contains(&alert) {
        TlsErrorKind::Certificate
    } else {
        TlsErrorKind::Protocol
    }
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application { code, reason } if reason.is_empty() => {
                write!(f, "the peer closed the connection with code {code:#x}")
            }
            Self::Application { code, reason } => {
                write!(
                    f,
                    "the peer closed the connection with code {code:#x}: {reason}"
                )
            }
            Self::Transport { reason, .. } => write!(f, "QUIC failed: {reason}"),
            Self::Tls(error) => error.fmt(f),
            Self::TimedOut => f.write_str("nothing came from the peer for too long"),
            Self::Reset => f.write_str("the peer knows nothing of the connection any more"),
            Self::Local => f.write_str("the connection was closed here"),
            Self::Version => f.write_str("the peer speaks no version of QUIC that we do"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ConnectionError {}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset(code) => write!(f, "the peer reset the stream with code {code:#x}"),
            Self::Connection(error) => error.fmt(f),
            Self::EarlyRejected => f.write_str("the server did not take early data"),
            Self::Closed => f.write_str("the stream was stopped here"),
            Self::Still => f.write_str(
                "the stream was ended here: it was not read, and others needed its room",
            ),
        }
    }
}

impl std::error::Error for ReadError {}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(code) => write!(f, "the peer stopped the stream with code {code:#x}"),
            Self::Connection(error) => error.fmt(f),
            Self::EarlyRejected => f.write_str("the server did not take early data"),
            Self::Closed => f.write_str("the stream was finished or reset here"),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<quinn::ReadError> for ReadError {
    fn from(error: quinn::ReadError) -> Self {
        match error {
            quinn::ReadError::Reset(code) => Self::Reset(code.into_inner()),
            quinn::ReadError::ConnectionLost(error) => Self::Connection(error.into()),
            quinn::ReadError::ZeroRttRejected => Self::EarlyRejected,
            // Reads are always ordered.
            quinn::ReadError::ClosedStream | quinn::ReadError::IllegalOrderedRead => Self::Closed,
        }
    }
}

impl From<quinn::WriteError> for WriteError {
    fn from(error: quinn::WriteError) -> Self {
        match error {
            quinn::WriteError::Stopped(code) => Self::Stopped(code.into_inner()),
            quinn::WriteError::ConnectionLost(error) => Self::Connection(error.into()),
            quinn::WriteError::ZeroRttRejected => Self::EarlyRejected,
            quinn::WriteError::ClosedStream => Self::Closed,
        }
    }
}
