//! A tunnel that is open on both sides and still to be carried.
//!
//! Opening and carrying are two steps: what opened it is gone when the tunnel waits, which most tunnels do most of their time.

use hermes_http::{Incoming, Outgoing};
use hermes_upstream::Active;

use super::bridges::Bridges;
use super::datagrams::{self, Path};
use super::movable::{self, Progress};
use super::pump;
use crate::arrival::End;
use crate::redecide::Place;
use crate::routed::Routed;

/// What is left to be done for a tunnel.
pub(crate) enum Carried {
    /// Its bytes are to be carried.
    Bytes(Box<ByteTunnel>),
    /// Its bytes are to be carried, and changed.
    Bridged(Box<ByteTunnel>, Box<Bridges>),
    /// Its datagrams are.
    Datagrams(Box<(End, Path, Place)>),
    /// Nothing; why it is over.
    Over(String),
}

/// The four ends of a tunnel of bytes, and what it holds.
pub(crate) struct ByteTunnel {
    pub(super) client: (Incoming, Outgoing),
    pub(super) target: (Incoming, Outgoing),
    pub(super) place: Place,
    /// Counts it at its upstream.
    pub(super) active: Active,
    /// What lets it move, where it can.
    pub(super) progress: Option<Box<Progress>>,
}

impl Carried {
    /// A tunnel of bytes, which are changed on their way if there is anything that does.
    pub(super) fn of(bytes: ByteTunnel, bridges: Option<Box<Bridges>>) -> Self {
        match bridges {
            Some(bridges) => Self::Bridged(Box::new(bytes), bridges),
            None => Self::Bytes(Box::new(bytes)),
        }
    }

    /// Carries it to its end; returns the reason of that.
    pub(crate) async fn carry(self, routed: &Routed) -> String {
        match self {
            Self::Bytes(bytes) => Box::pin(bytes.carry(routed)).await,
            Self::Bridged(mut bytes, mut bridges) => {
                let counters = routed.exchange.counters();
                let carried = Box::pin(bridges.carry(&mut bytes, counters)).await;
                carried.map_or_else(|broken| broken.reason(), |()| "done".to_owned())
            }
            Self::Datagrams(ends) => Box::pin(datagrams::carry(routed, ends)).await,
            Self::Over(reason) => reason,
        }
    }
}

impl ByteTunnel {
    async fn carry(mut self: Box<Self>, routed: &Routed) -> String {
        if let Some(progress) = self.progress.take() {
            let carried = Box::pin(movable::carry(&mut self, *progress, &routed.exchange)).await;
            return carried.map_or_else(|broken| broken.reason(), |()| "done".to_owned());
        }

        let Self {
            client,
            target,
            place,
            active: _held,
            ..
        } = &mut *self;
        let carried = pump::tunnel(client, target, routed.exchange.counters(), place).await;
        carried.map_or_else(|broken| broken.reason(), |()| "done".to_owned())
    }
}
