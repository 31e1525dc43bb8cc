//! Connections of TCP stay where they were opened, also when new ones go elsewhere.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hermes_proto::ip::{Fragment, IpFlow, Packet, TCP};

/// Connections that are remembered since the last rotation, and as many from before it: about 10 MB. One that is forgotten goes where
/// new ones go.
#[doc(alias = "bound")]
pub const MAX_PINS: usize = 65_536;

/// How long a silent connection is remembered at least (RFC 5382, section 5).
#[doc(alias = "bound")]
pub const PIN_SILENCE: Duration = Duration::from_secs(2 * 3600 + 4 * 60);

/// Where each connection of TCP goes. Other flows go where the routes say, which may change with any packet.
///
/// Two generations of entries take turns: one that is used moves to the younger, and the older is
/// dropped whole. No packet ever waits for a search for expired entries.
#[derive(Debug, Clone)]
pub struct TcpPins<O> {
    young: HashMap<IpFlow, O>,
    old: HashMap<IpFlow, O>,
    rotated: Option<Instant>,
    /// Connections that the younger one has room for.
    room: usize,
}

/// Where packets go that belong to no connection which is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PinRoutes<O> {
    /// The route of new connections, and of everything but TCP.
    pub new: O,
    /// Connections that were opened before they were looked at.
    pub before: O,
}

impl<O> Default for TcpPins<O> {
    fn default() -> Self {
        Self::with_room(MAX_PINS)
    }
}

impl<O> TcpPins<O> {
    /// Remembers so many connections since the last rotation, and as many from before it.
    pub fn with_room(room: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            rotated: None,
            room,
        }
    }
}

impl<O: Copy + Eq> TcpPins<O> {
    /// Where a packet goes: a connection that is open stays with its owner while that `is_there`.
    pub fn owner(
        &mut self,
        packet: &Packet<'_>,
        routes: PinRoutes<O>,
        is_there: impl FnOnce(O) -> bool,
        now: Instant,
    ) -> O {
        // A later fragment does not say which connection it is of.
        if packet.protocol() != TCP || packet.fragment() == Fragment::Later {
            return routes.new;
        }

        self.rotate(now);
        let flow = packet.flow();
        // The answer to the first segment is pinned here too: it came from where new connections
        // go.
        if packet.is_tcp_syn() {
            self.pin(flow, routes.new);
            return routes.new;
        }

        let found = self.find(&flow);
        let owner = found.unwrap_or(routes.before);
        match is_there(owner) {
            true if found.is_some() => owner,
            true => self.pinned(flow, owner),
            false => self.pinned(flow, routes.new),
        }
    }

    fn pinned(&mut self, flow: IpFlow, owner: O) -> O {
        self.pin(flow, owner);
        owner
    }

    fn find(&mut self, flow: &IpFlow) -> Option<O> {
        if let Some(owner) = self.young.get(flow) {
            return Some(*owner);
        }
        let owner = self.old.remove(flow)?;
        self.pin(*flow, owner);
        Some(owner)
    }

    fn pin(&mut self, flow: IpFlow, owner: O) {
        if self.young.len() >= self.room && !self.young.contains_key(&flow) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(flow, owner);
    }

    fn rotate(&mut self, now: Instant) {
        let rotated = *self.rotated.get_or_insert(now);
        if now.saturating_duration_since(rotated) >= PIN_SILENCE {
            self.old = std::mem::take(&mut self.young);
            self.rotated = Some(now);
        }
    }

    /// Forgets the connections of an owner that is gone for good.
    pub fn remove(&mut self, owner: O) {
        self.young.retain(|_, other| *other != owner);
        self.old.retain(|_, other| *other != owner);
    }

    /// How many connections are remembered.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether no connection is pinned.
    pub fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }
}
