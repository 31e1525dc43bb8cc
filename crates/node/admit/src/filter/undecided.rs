//! A question that no one decided, and whose doing that may be.
//!
//! `fail: open` is for servers that are [away](super::presence). A failure that a client can bring about never opens: else a refused client
//! would look for a request that cannot be asked about. An answer to its question, however bad, is no absence: a policy that contradicts
//! itself about some input, or a server that it makes fail, would be a way past.

use hermes_http::Cause;
use hermes_upstream::{ConnectFailure, FailureKind};
use http::StatusCode;

use super::presence::Evidence;
use crate::buffered::Failure;

/// Bytes of a question above which its size may be why a server broke off: many take heads of 8
/// KiB, and some close without an answer above that.
#[doc(alias = "bound")]
pub const LARGE: usize = 4 * 1024;

/// Why there is no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Undecided {
    pub reason: String,
    pub whose: Whose,
    /// The evidence about the server, where the node asked by itself.
    pub(super) evidence: Evidence,
}

/// Whose doing it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The server's, which the node itself has found away: `fail` decides about the exchange.
    Away,
    /// Perhaps that of the server, which gave no answer: refused, unless it turns out to be away.
    Absent,
    /// The client's, whose request cannot be asked about: 400.
    Client,
    /// Perhaps the client's: refused, whatever `fail` says.
    Unknown,
}

impl Undecided {
    pub(super) fn away(reason: impl Into<String>) -> Self {
        Self::new(reason, Whose::Away)
    }

    pub(super) fn absent(reason: impl Into<String>) -> Self {
        Self {
            evidence: Evidence::Silent,
            ..Self::new(reason, Whose::Absent)
        }
    }

    pub fn client(reason: impl Into<String>) -> Self {
        Self::new(reason, Whose::Client)
    }

    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::new(reason, Whose::Unknown)
    }

    fn new(reason: impl Into<String>, whose: Whose) -> Self {
        Self {
            reason: reason.into(),
            whose,
            evidence: Evidence::Nothing,
        }
    }

    /// A status that decides nothing; `who` gave it.
    pub fn status(status: StatusCode, who: &str) -> Self {
        let reason = format!("{who} answered {}", status.as_u16());
        Self::new(reason, of_status(status))
    }

    /// No connection. Other clients may have taken the descriptors or ports of this machine.
    pub fn connect(failure: &ConnectFailure) -> Self {
        let own = [
            FailureKind::Limit,
            FailureKind::Descriptors,
            FailureKind::Ports,
            FailureKind::Local,
        ];
        let reason = format!("{}: {}", failure.endpoint, failure.reason);
        if own.contains(&failure.kind) {
            return Self::unknown(reason);
        }

        let absent = Self::absent(reason);
        match failure.kind {
            FailureKind::Refused => Self {
                evidence: Evidence::Refused,
                ..absent
            },
            _ => absent,
        }
    }

    /// No whole answer to a question of this many bytes.
    pub fn broken(failure: &Failure, bytes: usize) -> Self {
        let reason = failure.to_string();
        match failure {
            Failure::Stream(error) if matches!(error.cause, Cause::Invalid(_)) => {
                Self::client(reason)
            }
            Failure::Stream(_) if bytes > LARGE => Self::unknown(reason),
            Failure::Stream(_) => Self::absent(reason),
            Failure::TooLarge(_) | Failure::Tunnel => Self {
                evidence: Evidence::Answered,
                ..Self::unknown(reason)
            },
            Failure::Overdrawn(_) => Self::client(reason),
            Failure::Store(_) => Self::unknown(reason),
        }
    }
}

/// An answer may contain text that the client wrote.
impl From<String> for Undecided {
    fn from(reason: String) -> Self {
        Self::unknown(reason)
    }
}

impl From<&str> for Undecided {
    fn from(reason: &str) -> Self {
        Self::unknown(reason)
    }
}

/// Statuses that speak of the request are caused by its author.
fn of_status(status: StatusCode) -> Whose {
    match status.as_u16() {
        400 | 405 | 411 | 413 | 414 | 415 | 417 | 422 | 431 | 501 | 505 => Whose::Client,
        // No absence, and no decision either.
        _ => Whose::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use hermes_http::StreamError;

    use super::*;

    #[test]
    fn no_answer_is_an_absence_and_none_is_away_by_itself() {
        let status = |code: u16| Undecided::status(StatusCode::from_u16(code).unwrap(), "it").whose;
        assert_eq!([500, 502, 503, 504].map(status), [Whose::Unknown; 4]);
        assert_eq!([400, 413, 414, 431, 501].map(status), [Whose::Client; 5]);
        assert_eq!([403, 404, 429, 302].map(status), [Whose::Unknown; 4]);
        let broken = |cause, bytes| {
            Undecided::broken(&Failure::Stream(StreamError::new(cause)), bytes).whose
        };
        let large = Undecided::broken(&Failure::TooLarge(1), 1);
        assert_eq!(
            (large.whose, large.evidence),
            (Whose::Unknown, Evidence::Answered)
        );
        assert_eq!(broken(Cause::Incomplete, LARGE), Whose::Absent);
        assert_eq!(broken(Cause::Incomplete, LARGE + 1), Whose::Unknown);
        assert_eq!(
            broken(Cause::Invalid("a name".to_owned()), 1),
            Whose::Client
        );
        assert_eq!(Undecided::from("no JSON").whose, Whose::Unknown);
    }
}
