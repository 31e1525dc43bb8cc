//! The sides of an exchange, and how a direction between them ends badly.

use std::fmt;

use hermes_http::{Cause, Reset, StreamError};
use hermes_net::UdpError;
use hermes_rules::reevaluate::Reason;

/// A side of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where the exchange came from.
    Client,
    /// Where it goes.
    Target,
}

impl Side {
    /// The opposite side.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Target,
            Self::Target => Self::Client,
        }
    }
}

/// The word for a side that was too slow.
const SLOW: &str = "slow";

/// The word for a side that was ended here, to make room for others.
const MEMORY: &str = "memory";

/// A direction that ended badly: the side that broke, how, and the message to the other side.
#[derive(Debug)]
pub struct Broken {
    /// The side that broke.
    pub side: Side,
    /// The reset for the other side.
    pub reset: Reset,
    /// The reason, if it was not an error.
    not_error: Option<&'static str>,
    details: String,
}

impl Broken {
    /// Reading from `side` failed.
    pub fn read(side: Side, error: &StreamError) -> Self {
        let not_error = match error.cause {
            Cause::Slow => Some(SLOW),
            Cause::Memory(_) => Some(MEMORY),
            _ => None,
        };
        Self {
            side,
            reset: error.reset(),
            not_error,
            details: error.to_string(),
        }
    }

    /// Whether the path broke, so that another may do: not if the side broke the protocol, was ended by a rule, or needs no more.
    pub fn is_of_the_path(&self) -> bool {
        self.not_error.is_none() && !matches!(self.reset, Reset::Protocol | Reset::Unneeded)
    }

    /// Whether the side was slower than it may be.
    pub fn is_slow(&self) -> bool {
        self.not_error == Some(SLOW)
    }

    /// Whether the side was ended here, because the other one does not take its data.
    pub fn is_of_memory(&self) -> bool {
        self.not_error == Some(MEMORY)
    }

    /// Writing to `side` failed.
    pub fn write(side: Side, error: &StreamError) -> Self {
        Self::read(side, error)
    }

    /// `side` reset a stream that was written to.
    pub fn reset(side: Side, reset: Reset) -> Self {
        let details = match reset {
            Reset::Silent(reason) => reason.to_owned(),
            Reset::Lost => "the connection was lost".to_owned(),
            reset => format!("the stream was reset ({reset:?})"),
        };
        Self {
            side,
            reset,
            not_error: None,
            details,
        }
    }

    /// `side` sent something that is no capsule or datagram (RFC 9297, 3.3).
    pub fn malformed(side: Side, details: String) -> Self {
        Self {
            side,
            reset: Reset::Protocol,
            not_error: None,
            details,
        }
    }

    /// The old path ended within a capsule, and the client has a piece of it: nothing can follow
    /// that.
    pub fn torn() -> Self {
        let details = "a way that was left ended within a capsule".to_owned();
        Self {
            side: Side::Target,
            reset: Reset::Cancel,
            not_error: Some("target_reset"),
            details,
        }
    }

    /// The UDP socket towards `side` failed.
    pub fn socket(side: Side, error: &UdpError) -> Self {
        Self {
            side,
            reset: Reset::Connect,
            not_error: None,
            details: error.to_string(),
        }
    }

    /// `side` was silent for too long.
    pub fn idle(side: Side) -> Self {
        Self {
            side,
            reset: Reset::Cancel,
            not_error: Some("idle"),
            details: "nothing came for too long".to_owned(),
        }
    }

    /// `side` was silent within contents for so long.
    pub fn silent(side: Side, time: &str) -> Self {
        Self {
            details: format!("nothing came for {time}"),
            ..Self::idle(side)
        }
    }

    /// The tunnel may not go on, by the rules that are in force now.
    pub fn policy(reason: &Reason) -> Self {
        Self {
            side: Side::Client,
            reset: Reset::Cancel,
            not_error: Some("policy_changed"),
            details: reason.to_string(),
        }
    }

    /// With more to say.
    #[must_use]
    pub fn note(mut self, more: &str) -> Self {
        self.details = format!("{} ({more})", self.details);
        self
    }

    /// The reason, without the word for the side.
    pub fn details(&self) -> &str {
        &self.details
    }

    /// The reason, for an access record.
    pub fn reason(&self) -> String {
        let word = match (self.side, self.not_error) {
            (_, Some(word)) => word,
            (Side::Client, None) => "client_reset",
            (Side::Target, None) => "target_reset",
        };
        format!("{word}: {}", self.details)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason())
    }
}
