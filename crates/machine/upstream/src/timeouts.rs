//! Time-outs with their defaults filled in.

use std::time::Duration;

use hermes_config::model;

/// Time-outs of an exchange. There is no overall limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection is usable, TLS and tunnels through other proxies included.
    pub connect: Duration,
    /// Until a response head arrives; `None` where nothing is configured, see [`Self::header_of`].
    pub header: Option<Duration>,
    /// Longest silence within a message's content; `None` where nothing is configured, see [`Self::idle_of`].
    pub idle: Option<Duration>,
    /// Longest silence of a UDP session that is a conversation.
    pub udp: Duration,
    /// Idle time of a `udp` listener's session without an answer of the target.
    pub udp_unanswered: Duration,
    /// Idle time of a `udp` listener's session with one turn of questions and answers.
    pub udp_answered: Duration,
}

/// The other end of a hop. It decides about default time-outs: the node nearest to a fault is to
/// find it, and the others wait for its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// An origin: the overlay ends here.
    Origin,
    /// Another proxy, on a link with noticed ends: by PING over HTTP/2, by silence over HTTP/3.
    Link,
    /// Another proxy over HTTP/1.1, which has neither.
    Unwatched,
}

/// How long an origin may take to answer: more than most servers give themselves.
#[doc(alias("bound", "timeouts.header"))]
const ORIGIN: Duration = Duration::from_secs(60);

/// How long another proxy may take over HTTP/1.1, where nothing tells that it has died.
#[doc(alias("bound", "timeouts.header"))]
const UNWATCHED: Duration = Duration::from_secs(300);

/// Longest silence within contents where the overlay ends.
#[doc(alias("bound", "timeouts.idle"))]
const IDLE: Duration = Duration::from_secs(300);

/// How much longer a hop before the end of the overlay waits, so that the end speaks first.
#[doc(alias = "bound")]
const LATER: Duration = Duration::from_secs(10);

/// How long a link may have no room for a further exchange, and how long a proxy may take to let
/// this node be attached.
#[doc(alias = "bound")]
pub const OPENING: Duration = Duration::from_secs(10);

/// How long a connection may take to be usable, TLS included.
#[doc(alias("bound", "timeouts.connect"))]
const CONNECT: Duration = Duration::from_secs(5);

/// Longest silence of a UDP session that is a conversation: UDP has no farewell.
#[doc(alias("bound", "timeouts.udp"))]
const UDP: Duration = Duration::from_secs(300);

/// Longest silence of a UDP session while an answer is awaited: resolvers ask again after 5 s at the latest.
#[doc(alias("bound", "timeouts.udp_unanswered"))]
const UDP_UNANSWERED: Duration = Duration::from_secs(5);

/// Longest silence of a UDP session with one turn of questions and answers: a question is over with its answer.
#[doc(alias("bound", "timeouts.udp_answered"))]
const UDP_ANSWERED: Duration = Duration::from_secs(3);

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: CONNECT,
            header: None,
            idle: None,
            udp: UDP,
            udp_unanswered: UDP_UNANSWERED,
            udp_answered: UDP_ANSWERED,
        }
    }
}

impl Timeouts {
    /// These time-outs, overlaid with those of `over`.
    pub fn overlaid(&self, over: &model::Timeouts) -> Self {
        let or = |set: &Option<model::Duration>, default| {
            set.as_ref().map_or(default, |duration| duration.0)
        };
        Self {
            connect: or(&over.connect, self.connect),
            header: over.header.map_or(self.header, |header| Some(header.0)),
            idle: over.idle.map_or(self.idle, |idle| Some(idle.0)),
            udp: or(&over.udp, self.udp),
            udp_unanswered: or(&over.udp_unanswered, self.udp_unanswered),
            udp_answered: or(&over.udp_answered, self.udp_answered),
        }
    }

    /// Until a response head arrives from there; `None`: as long as the link is alive.
    pub fn header_of(&self, hop: Hop) -> Option<Duration> {
        self.header.or(match hop {
            Hop::Origin => Some(ORIGIN),
            Hop::Link => None,
            Hop::Unwatched => Some(UNWATCHED),
        })
    }

    /// Longest silence within contents that come from there or go there.
    pub fn idle_of(&self, hop: Hop) -> Duration {
        self.idle.unwrap_or(match hop {
            Hop::Origin => IDLE,
            Hop::Link | Hop::Unwatched => IDLE + LATER,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_stands_over_what_is_not() {
        let over = model::Timeouts {
            header: "1s".parse().ok(),
            ..model::Timeouts::default()
        };
        let timeouts = Timeouts::default().overlaid(&over);
        assert_eq!(
            (
                timeouts.header.map(|header| header.as_secs()),
                timeouts.connect.as_secs()
            ),
            (Some(1), 5)
        );
    }

    #[test]
    fn the_end_of_the_overlay_gives_up_before_those_who_wait_for_it() {
        let timeouts = Timeouts::default();
        let end = timeouts.header_of(Hop::Origin).unwrap();
        assert!(
            timeouts.header_of(Hop::Unwatched).unwrap() > end
                && timeouts.header_of(Hop::Link).is_none()
        );
        assert!(
            [Hop::Link, Hop::Unwatched]
                .iter()
                .all(|hop| timeouts.idle_of(*hop) > timeouts.idle_of(Hop::Origin))
        );
        let set = Timeouts {
            header: Some(Duration::from_secs(1)),
            idle: Some(Duration::from_secs(2)),
            ..timeouts
        };
        for hop in [Hop::Origin, Hop::Link, Hop::Unwatched] {
            assert_eq!(
                (
                    set.header_of(hop).unwrap().as_secs(),
                    set.idle_of(hop).as_secs()
                ),
                (1, 2)
            );
        }
    }
}
