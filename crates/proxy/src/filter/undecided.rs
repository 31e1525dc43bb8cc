//! A question that no one decided, and whose doing that may be.
//!
//! `fail: open` is for servers that are gone. What a client can bring about never opens: else a refused client would look for a
//! request that cannot be asked about.

use hermes_http::Cause;
use hermes_upstream::{ConnectFailure, FailureKind};
use http::StatusCode;

use crate::buffered::Failure;

/// Bytes of a question above which its size may be why a server broke off: many take heads of 8
/// KiB, and some close without an answer above that.
#[doc(alias = "bound")]
pub(super) const LARGE: usize = 4 * 1024;

/// Why there is no decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Undecided {
    pub(super) reason: String,
    pub(super) whose: Whose,
}

/// Whose doing it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The server's, or that of the way to it: `fail` says what becomes of the exchange.
    Server,
    /// The client's, whose request cannot be asked about: 400.
    Client,
    /// Perhaps the client's: refused, whatever `fail` says.
    Unknown,
}

impl Undecided {
    pub(super) fn server(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            whose: Whose::Server,
        }
    }

    pub(super) fn client(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            whose: Whose::Client,
        }
    }

    pub(super) fn unknown(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            whose: Whose::Unknown,
        }
    }

    /// A status that decides nothing; `who` gave it.
    pub(super) fn status(status: StatusCode, who: &str) -> Self {
        Self {
            reason: format!("{who} answered {}", status.as_u16()),
            whose: of_status(status),
        }
    }

    /// No connection. What this machine has no room for, other clients may have taken.
    pub(super) fn connect(failure: &ConnectFailure) -> Self {
        let own = [
            FailureKind::Limit,
            FailureKind::Descriptors,
            FailureKind::Ports,
            FailureKind::Local,
        ];

        let whose = if own.contains(&failure.kind) {
            Whose::Unknown
        } else {
            Whose::Server
        };

        Self {
            reason: format!("{}: {}", failure.endpoint, failure.reason),
            whose,
        }
    }

    /// No whole answer to a question of this many bytes. `by_status`: 200 alone would have allowed.
    pub(super) fn broken(failure: &Failure, bytes: usize, by_status: bool) -> Self {
        let whose = match failure {
            Failure::Stream(error) if matches!(error.cause, Cause::Invalid(_)) => Whose::Client,
            Failure::Stream(_) if bytes > LARGE => Whose::Unknown,
            Failure::Stream(_) => Whose::Server,
            Failure::TooLarge(_, Some(StatusCode::OK)) if by_status => Whose::Server,
            Failure::TooLarge(_, Some(status)) if status.is_server_error() => of_status(*status),
            Failure::Overdrawn(_) => Whose::Client,
            Failure::TooLarge(..) | Failure::Tunnel | Failure::Store(_) => Whose::Unknown,
        };
        Self {
            reason: failure.to_string(),
            whose,
        }
    }
}

/// What stands in an answer may come from what the client wrote.
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
        500..=599 => Whose::Server,
        // No outage, and no decision either.
        _ => Whose::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use hermes_http::StreamError;

    use super::*;

    #[test]
    fn only_what_no_client_can_bring_about_is_the_server_s() {
        let status = |code: u16| Undecided::status(StatusCode::from_u16(code).unwrap(), "it").whose;
        assert_eq!([500, 502, 503, 504].map(status), [Whose::Server; 4]);
        assert_eq!([400, 413, 414, 431, 501].map(status), [Whose::Client; 5]);
        assert_eq!([403, 404, 429, 302].map(status), [Whose::Unknown; 4]);
        let broken = |cause, bytes| {
            Undecided::broken(&Failure::Stream(StreamError::new(cause)), bytes, true).whose
        };
        let too_large = |by_status| {
            Undecided::broken(&Failure::TooLarge(1, Some(StatusCode::OK)), 1, by_status).whose
        };
        assert_eq!(
            [too_large(true), too_large(false)],
            [Whose::Server, Whose::Unknown]
        );
        assert_eq!(broken(Cause::Incomplete, LARGE), Whose::Server);
        assert_eq!(broken(Cause::Incomplete, LARGE + 1), Whose::Unknown);
        assert_eq!(
            broken(Cause::Invalid("a name".to_owned()), 1),
            Whose::Client
        );
        assert_eq!(Undecided::from("no JSON").whose, Whose::Unknown);
    }
}
