//! The log of a listener's bounds that are reached.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hermes_observe::Periodic;

use super::ListenerRules;

/// A bound on sessions.
#[derive(Debug, Clone, Copy)]
pub struct SessionBound {
    /// Its key in the configuration.
    pub key: &'static str,
    /// So many may be open.
    pub most: usize,
}

/// Throttles the log of bounds that are reached.
#[derive(Debug, Default)]
pub(super) struct LimitLog {
    evicted: Periodic,
    refused: Periodic,
    connections: Periodic,
    /// Whether it says already that a user has reached one.
    warned: AtomicBool,
}

impl ListenerRules {
    /// Notes that a user has reached a bound. The first is warned about: to such a user it looks like a fault of the network.
    pub fn user_refused(&self, user: &str, limit: &str, most: usize) {
        if self.limit_log.warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(listener = %self.name, user, "refused: {limit} is {most}");
        } else {
            tracing::warn!(listener = %self.name, user, "refused: {limit} is {most}; further ones are told at level debug");
        }
    }

    /// Notes that a connection was refused, because as many are open as there may be.
    pub fn connection_refused(&self) {
        if let Some(connections) = self.limit_log.connections.count(1, Instant::now()) {
            let listener = &*self.name;
            tracing::warn!(
                listener,
                connections,
                "connections refused: the limit of connections is reached"
            );
        }
    }

    /// Notes that so many sessions made room for others, where this bound is reached, and of which `user`, if it is a user's.
    pub fn sessions_evicted(&self, sessions: usize, bound: SessionBound, user: Option<&str>) {
        if let Some(sessions) = self
            .limit_log
            .evicted
            .count(sessions as u64, Instant::now())
        {
            let SessionBound { key, most } = bound;
            let listener = &*self.name;
            let user = user.unwrap_or_default();
            tracing::warn!(
                listener,
                user,
                sessions,
                "many UDP sessions: unanswered and one-shot ones made room; {key} is {most}"
            );
        }
    }

    /// Notes that this many datagrams of new clients were dropped, because as many sessions as there may be go on speaking.
    pub fn sessions_refused(&self, datagrams: u64, bound: SessionBound) {
        if let Some(datagrams) = self.limit_log.refused.count(datagrams, Instant::now()) {
            let SessionBound { key, most } = bound;
            let listener = &*self.name;
            tracing::warn!(
                listener,
                datagrams,
                "dropped: there is no room for a further UDP session; {key} is {most}"
            );
        }
    }
}
