//! The timers of a peer (section 6).

use std::time::{Duration, Instant};

use crate::transport::REJECT_AFTER_TIME;

/// An initiation that is not answered is repeated after this time.
pub(crate) const REKEY_TIMEOUT: Duration = Duration::from_secs(5);

/// For how long it is repeated.
const REKEY_ATTEMPT_TIME: Duration = Duration::from_secs(90);

/// An end that received and has nothing to send sends a keepalive after this time.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Keys are forgotten when there were no new ones for so long.
const FORGET: Duration = Duration::from_secs(3 * REJECT_AFTER_TIME.as_secs());

/// The timers of one peer.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// An initiation is sent again.
    retry: Option<Instant>,
    /// The handshake is given up.
    give_up: Option<Instant>,
    /// A keepalive: a message with a packet came, and none was sent since.
    keepalive: Option<Instant>,
    /// A new handshake: a packet was sent, and no message came since.
    silence: Option<Instant>,
    /// The keepalive that is configured.
    persistent: Option<Instant>,
    /// Keys are forgotten.
    forget: Option<Instant>,
}

/// A timer that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// An initiation, again.
    Retry,
    /// The handshake is given up.
    GiveUp,
    /// A message without a packet.
    Keepalive,
    /// A new handshake: the peer is silent.
    Silence,
    /// The keepalive that is configured.
    Persistent,
    /// Keys are forgotten.
    Forget,
}

impl Timers {
    /// The next of them.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.all().into_iter().filter_map(|(at, _)| at).min()
    }

    /// Takes a timer that is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Due> {
        let mut all = self.all().into_iter();
        let (_, due) = all.find(|(at, _)| at.is_some_and(|at| at <= now))?;
        let timer = match due {
            Due::Retry => &mut self.retry,
            Due::GiveUp => &mut self.give_up,
            Due::Keepalive => &mut self.keepalive,
            Due::Silence => &mut self.silence,
            Due::Persistent => &mut self.persistent,
            Due::Forget => &mut self.forget,
        };
        *timer = None;
        Some(due)
    }

    /// All timers, in the order in which due ones are handled.
    fn all(&self) -> [(Option<Instant>, Due); 6] {
        [
            (self.forget, Due::Forget),
            (self.give_up, Due::GiveUp),
            (self.retry, Due::Retry),
            (self.silence, Due::Silence),
            (self.keepalive, Due::Keepalive),
            (self.persistent, Due::Persistent),
        ]
    }

    /// Whether a handshake is open that this end began.
    pub(crate) fn is_beginning(&self) -> bool {
        self.retry.is_some()
    }

    /// An initiation was sent. The next one is late by a random time, so that two ends do not collide for ever.
    pub(crate) fn initiated(&mut self, jitter: Duration, now: Instant) {
        self.retry = Some(now + REKEY_TIMEOUT + jitter);
        // Counted from the first of a row of initiations, or retries would postpone the end forever.
        self.give_up.get_or_insert(now + REKEY_ATTEMPT_TIME);
    }

    /// The handshake that this end began is over.
    pub(crate) fn stopped(&mut self) {
        self.retry = None;
        self.give_up = None;
        self.silence = None;
    }

    /// There are new keys.
    pub(crate) fn agreed(&mut self, now: Instant) {
        self.forget = Some(now + FORGET);
    }

    /// There are no keys any more.
    pub(crate) fn forgot(&mut self) {
        self.forget = None;
        self.keepalive = None;
        self.silence = None;
    }

    /// A message with or without a packet was sent.
    pub(crate) fn sent(&mut self, has_packet: bool, persistent: Option<Duration>, now: Instant) {
        self.keepalive = None;
        if has_packet {
            self.silence
                // Not moved by later packets: a steady sender would never notice that its peer is gone.
                .get_or_insert(now + KEEPALIVE_TIMEOUT + REKEY_TIMEOUT);
        }
        self.passed(persistent, now);
    }

    /// A message of the peer came, with or without a packet.
    pub(crate) fn received(
        &mut self,
        has_packet: bool,
        persistent: Option<Duration>,
        now: Instant,
    ) {
        self.silence = None;
        if has_packet {
            self.keepalive.get_or_insert(now + KEEPALIVE_TIMEOUT);
        }
        self.passed(persistent, now);
    }

    /// Restarts the configured keepalive: a message passed in either direction, or is on its way.
    pub(crate) fn passed(&mut self, persistent: Option<Duration>, now: Instant) {
        self.persistent = persistent.map(|interval| now + interval);
    }

    /// The keepalive that is configured is due at once.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.persistent = Some(now);
    }
}
