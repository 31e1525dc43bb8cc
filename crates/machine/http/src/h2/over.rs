//! Why connections and streams end, in the words of the crate.

use std::io;

use hermes_proto::h2::{ConnectionError, Failure, Reason};

use crate::error::{Cause, NO_ROOM, Reset, StreamError};

/// Why a connection is over.
#[derive(Debug)]
pub(crate) enum Over {
    /// Closed by the peer or by us.
    Closed,
    /// Ended within a message or tunnel.
    Incomplete,
    /// Failed.
    Io(io::ErrorKind, String),
    /// The peer ended it with a TLS alert: its number and text.
    Alert(u8, String),
    /// The peer broke the protocol.
    Failed(ConnectionError),
}

impl Over {
    /// A connection that failed.
    pub(crate) fn io(error: io::Error) -> Self {
        match StreamError::from(error).cause {
            Cause::Incomplete => Self::Incomplete,
            Cause::Alert { id, text } => Self::Alert(id, text),
            Cause::Io(error) => Self::Io(error.kind(), error.to_string()),
            _ => Self::Closed,
        }
    }

    /// The error of its streams.
    pub(crate) fn error(&self) -> StreamError {
        if let Self::Alert(id, text) = self {
            return StreamError::alerted(*id, text.clone());
        }

        StreamError::new(match self {
            Self::Closed => Cause::Reset(Reset::Connect),
            Self::Incomplete => Cause::Incomplete,
            Self::Io(kind, text) => Cause::Io(io::Error::new(*kind, text.clone())),
            Self::Alert(id, text) => Cause::Alert {
                id: *id,
                text: text.clone(),
            },
            Self::Failed(error) => match error.reason {
                Reason::ENHANCE_YOUR_CALM => {
                    let text = format!("the peer sent {}", error.words);
                    Cause::Io(io::Error::other(text))
                }
                reason => broken(reason, error.words.to_owned()),
            },
        })
    }
}

fn broken(reason: Reason, words: String) -> Cause {
    match reason {
        Reason::PROTOCOL_ERROR => Cause::Protocol(words),
        reason => Cause::Reset(reason.into()),
    }
}

/// The error of one stream, for its owners.
pub(crate) fn failed(failure: &Failure) -> StreamError {
    match failure {
        // RFC 9113, 8.7: a refused stream was not processed.
        Failure::Reset(Reason::REFUSED_STREAM) => {
            StreamError::unprocessed(Cause::Reset(Reset::Refused))
        }
        Failure::Reset(reason) => StreamError::new(Cause::Reset((*reason).into())),
        Failure::Broken(Reason::ENHANCE_YOUR_CALM, _) => StreamError::new(Cause::Memory(NO_ROOM)),
        Failure::Broken(reason, words) => StreamError::new(broken(*reason, words.to_string())),
        Failure::Unprocessed => StreamError::unprocessed(Cause::Closing),
    }
}
