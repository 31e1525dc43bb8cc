//! One session of CONNECT-IP: assignments, requests and advertisements, in both directions (RFC
//! 9484, section 4.7).

mod accepts;
#[cfg(test)]
mod fuzz;
mod outbox;
mod pace;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use hermes_proto::capsule::CapsuleType;
use hermes_proto::connect_ip::{
    AddressAssign, AddressRequest, AssignedAddress, ConnectIpError, IpCapsule, MAX_ADDRESSES,
    RequestedAddress, RouteAdvertisement,
};
use hermes_proto::ip::{ANY_PROTOCOL, IpPrefix, IpRange};

pub use accepts::Accepts;
#[cfg(test)]
pub(crate) use fuzz::fuzz_session;
use outbox::Outbox;
use pace::Pace;

use crate::intervals::AddressSet;
use crate::mtu::{InnerMtu, MtuError};
use crate::packet_filter::{PacketFilter, RouterAddresses};
use crate::role::IpRole;
use crate::scope::PacketScope;

/// Addresses that a peer may request and wait for, refusals that it has not taken included, and IDs of requests that are remembered one by one: a request is for a TUN device or a
/// new family, of which there are few.
#[doc(alias = "bound")]
pub const MAX_REQUESTS: usize = 1024;

/// The settings of a session.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// Which end this is.
    pub role: IpRole,
    /// The scope of the request.
    pub scope: PacketScope,
    /// From where errors are written.
    pub routers: RouterAddresses,
    /// The MTU of the tunnel.
    pub mtu: InnerMtu,
    /// Which addresses the peer may assign to this end.
    pub accepts_addresses: Accepts,
    /// Which routes the peer may advertise: a client only those that policy grants to its identity.
    pub accepts_routes: Accepts,
}

/// The change that a capsule made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEvent {
    /// The addresses that this end may use as source, in place of the previous ones.
    Assigned {
        /// All of it.
        taken: Vec<IpPrefix>,
        /// Assigned prefixes that this end does not use, and why.
        ignored: Vec<(IpPrefix, Ignored)>,
        /// Requests of ours that the peer refused now.
        refused: Vec<RequestedAddress>,
    },
    /// Prefixes that the peer requests. Answer with [`IpSession::assign`].
    Requested(Vec<RequestedAddress>),
    /// Where this end may send, in place of where it might before.
    Routed {
        /// All of it.
        taken: Vec<IpRange>,
        /// Advertised ranges that the peer was not granted.
        ignored: Vec<IpRange>,
    },
}

/// Why an assignment of the peer is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// This end does not take it.
    #[error("it is not among the addresses that are accepted")]
    NotAccepted,
    /// The tunnel is too narrow.
    #[error(transparent)]
    Mtu(#[from] MtuError),
}

/// Why the stream must be aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// A capsule is malformed.
    #[error(transparent)]
    Capsule(#[from] ConnectIpError),
    /// The peer waits for more addresses than it may.
    #[error("more than {MAX_REQUESTS} addresses were requested, and their answers not taken")]
    TooManyRequests,
    /// Capsules come faster than anything changes.
    #[error("capsules of CONNECT-IP come too often")]
    Flood,
}

/// The machine of one session. Feed it capsules, and send those that it has; let packets through its [filter](Self::filter).
#[derive(Debug)]
pub struct IpSession {
    settings: SessionSettings,
    /// Assigned to this end, and taken.
    own: Vec<IpPrefix>,
    /// Assigned to the peer.
    peer: Vec<AssignedAddress>,
    /// Routes of this end, and of the peer.
    own_routes: RouteAdvertisement,
    peer_routes: Vec<IpRange>,
    /// The tunnel was found to carry too little for IPv6, whatever its nominal MTU.
    refuses_ipv6: bool,
    requests: Requests,
    outbox: Outbox,
    pace: Pace,
    filter: Arc<PacketFilter>,
}

/// Requests without an answer.
#[derive(Debug, Default)]
struct Requests {
    /// Ours, and the ID of the last.
    own: Vec<RequestedAddress>,
    last_id: u64,
    /// The peer's.
    peer: Vec<RequestedAddress>,
    used: UsedIds,
}

/// The request IDs that a peer has used. Old ones are forgotten; the highest of them is kept, and
/// all IDs up to it count as used. A peer that counts up is never refused.
#[derive(Debug, Default)]
struct UsedIds {
    last: BTreeSet<u64>,
    forgotten: Option<u64>,
}

impl UsedIds {
    /// Notes one; false if it may have been used before.
    fn note(&mut self, id: u64) -> bool {
        if self.forgotten.is_some_and(|forgotten| id <= forgotten) || !self.last.insert(id) {
            return false;
        }
        // The lowest goes: peers count upwards, so all at or below it counts as used from now on.
        if self.last.len() > MAX_REQUESTS {
            self.forgotten = self.last.pop_first();
        }
        true
    }
}

impl IpSession {
    /// A session in which nothing is assigned or routed: no packet passes.
    pub fn new(settings: SessionSettings) -> Self {
        let filter = Arc::new(PacketFilter {
            role: settings.role,
            ours: AddressSet::default(),
            theirs: AddressSet::default(),
            scope: settings.scope.clone(),
            routers: settings.routers,
            mtu: settings.mtu,
        });

        Self {
            settings,
            own: Vec::new(),
            peer: Vec::new(),
            own_routes: RouteAdvertisement::default(),
            peer_routes: Vec::new(),
            refuses_ipv6: false,
            requests: Requests::default(),
            outbox: Outbox::default(),
            pace: Pace::default(),
            filter,
        }
    }

    /// Handles a capsule, and returns the change; `None` without a change, and for capsules of
    /// other protocols.
    ///
    /// # Errors
    /// [`SessionError`]: the stream must be aborted.
    pub fn handle_capsule(
        &mut self,
        kind: CapsuleType,
        value: &[u8],
        now: Instant,
    ) -> Result<Option<SessionEvent>, SessionError> {
        // RFC 9297, 3.2: capsules of unknown types are skipped, and are no reason to end.
        let Some(capsule) = IpCapsule::decode(kind, value)? else {
            return Ok(None);
        };
        // Each capsule makes a filter, and may move routes of the device: costs far beyond its few bytes.
        if !self.pace.allows(now) {
            return Err(SessionError::Flood);
        }

        match capsule {
            IpCapsule::Assign(assign) => Ok(Some(self.handle_assign(assign))),
            IpCapsule::Request(request) => self.handle_request(&request).map(Some),
            IpCapsule::Routes(routes) => Ok(Some(self.handle_routes(&routes))),
        }
    }

    fn handle_assign(&mut self, assign: AddressAssign) -> SessionEvent {
        // RFC 9484, 4.7.1: all zeros with a request's ID refuse that request.
        let (refusals, assigned): (Vec<_>, Vec<_>) = assign
            .addresses
            .iter()
            .partition(|address| address.is_refusal());
        let is_answered = |request: &RequestedAddress| {
            let answers = |address: &AssignedAddress| address.request_id == request.request_id;
            assign.addresses.iter().any(answers)
        };
        let is_refused = |request: &RequestedAddress| {
            let refuses = |address: &AssignedAddress| address.request_id == request.request_id;
            refusals.iter().any(refuses)
        };

        let requests = std::mem::take(&mut self.requests.own).into_iter();
        let (answered, waiting): (Vec<_>, Vec<_>) = requests.partition(is_answered);
        self.requests.own = waiting;

        let mut taken = Vec::new();
        let mut ignored = Vec::new();
        for AssignedAddress { prefix, .. } in assigned {
            match self.may_use(prefix) {
                Ok(()) => taken.push(prefix),
                Err(reason) => ignored.push((prefix, reason)),
            }
        }

        // The whole list: what the capsule leaves out is withdrawn.
        self.own.clone_from(&taken);
        self.renew_filter();
        SessionEvent::Assigned {
            taken,
            ignored,
            refused: answered.into_iter().filter(is_refused).collect(),
        }
    }

    fn may_use(&self, prefix: IpPrefix) -> Result<(), Ignored> {
        if !prefix.is_ipv4() {
            self.settings.mtu.check_ipv6()?;
        }
        match self.settings.accepts_addresses.takes(prefix) {
            true => Ok(()),
            false => Err(Ignored::NotAccepted),
        }
    }

    fn handle_request(&mut self, request: &AddressRequest) -> Result<SessionEvent, SessionError> {
        for RequestedAddress { request_id, .. } in request.addresses() {
            // RFC 9484, section 4.7.2: never used again, not even in another capsule.
            if !self.requests.used.note(*request_id) {
                return Err(ConnectIpError::IdTwice(*request_id).into());
            }
        }
        let wanted = request.addresses().to_vec();
        self.requests.peer.extend(&wanted);
        // Refusals that the peer has not taken yet count as well: it may read nothing for as long as it asks.
        if self.requests.peer.len() + self.outbox.refusals() > MAX_REQUESTS {
            return Err(SessionError::TooManyRequests);
        }
        Ok(SessionEvent::Requested(wanted))
    }

    fn handle_routes(&mut self, routes: &RouteAdvertisement) -> SessionEvent {
        let (taken, ignored) = self.settings.accepts_routes.split(routes.ranges());
        self.peer_routes.clone_from(&taken);
        self.renew_filter();
        SessionEvent::Routed { taken, ignored }
    }

    /// Assigns these addresses to the peer, in place of those before; a request without an address
    /// here is refused.
    ///
    /// Addresses of IPv6 are not assigned where the tunnel is too narrow for them.
    ///
    /// # Errors
    /// [`MtuError`], if that was so: why the peer has no IPv6. All else is assigned.
    pub fn assign(&mut self, addresses: Vec<AssignedAddress>) -> Result<(), MtuError> {
        let ipv6 = self.settings.mtu.check_ipv6();
        let has_ipv6 = addresses.iter().any(|address| !address.prefix.is_ipv4());
        let assigned = addresses
            .into_iter()
            .filter(|address| !address.is_refusal() && (ipv6.is_ok() || address.prefix.is_ipv4()));
        // One place stays for refusals, or they would never get into a capsule.
        self.peer = assigned.take(MAX_ADDRESSES - 1).collect();

        // RFC 9484, 4.7.2: each request gets an answer, so what is not assigned is refused in the same capsule.
        let owed = std::mem::take(&mut self.requests.peer);
        let answers = |request: &RequestedAddress| {
            let answers = |address: &AssignedAddress| address.request_id == request.request_id;
            self.peer.iter().any(answers)
        };
        let refused = owed.into_iter().filter(|request| !answers(request));
        self.outbox
            .assign(refused.map(AssignedAddress::refusal).collect());

        self.renew_filter();
        match has_ipv6 {
            true => ipv6,
            false => Ok(()),
        }
    }

    /// Changes which addresses the peer may assign to this end; those that it has and may not have any more are not used from now on.
    pub fn accept_addresses(&mut self, accepts: Accepts) {
        self.own.retain(|prefix| accepts.takes(*prefix));
        self.settings.accepts_addresses = accepts;
        self.renew_filter();
    }

    /// Advertises these routes to the peer, in place of those before.
    pub fn advertise(&mut self, routes: RouteAdvertisement) {
        // An unchanged advertisement costs the peer a filter and its pace, and says nothing.
        if routes == self.own_routes {
            return;
        }
        self.own_routes = routes;
        self.outbox.advertise();
        self.renew_filter();
    }

    /// Sends assignments and routes once more: the last capsules may be lost on a path that broke.
    pub fn repeat(&mut self) {
        self.outbox.assign(Vec::new());
        self.outbox.advertise();
    }

    /// Requests addresses from the peer, up to [`MAX_ADDRESSES`] at once, and returns the requests with their IDs.
    pub fn request(&mut self, wishes: &[IpPrefix]) -> Vec<RequestedAddress> {
        let first = self.requests.last_id + 1;
        let requests: Vec<_> = (first..)
            .zip(wishes.iter().take(MAX_ADDRESSES))
            .map(|(request_id, prefix)| RequestedAddress {
                request_id,
                prefix: *prefix,
            })
            .collect();

        self.requests.last_id += requests.len() as u64;
        self.requests.own.extend(&requests);
        self.outbox.request(&requests);
        requests
    }

    /// The next capsule to send. A newer state replaces an unsent one, so that a peer that reads
    /// slowly costs no memory.
    pub fn poll_capsule(&mut self) -> Option<IpCapsule> {
        self.outbox.poll(&self.peer, &self.own_routes)
    }

    /// Changes the MTU of the tunnel.
    ///
    /// # Errors
    /// [`MtuError`], with nothing changed: an end has an address of IPv6, and the tunnel carries too little for it. RFC 9484, section
    /// 7.1 wants it aborted.
    pub fn set_mtu(&mut self, mtu: InnerMtu) -> Result<(), MtuError> {
        let peer = self.peer.iter().map(|address| address.prefix);
        if peer
            .chain(self.own.iter().copied())
            .any(|prefix| !prefix.is_ipv4())
        {
            mtu.check_ipv6()?;
        }
        if mtu != self.settings.mtu {
            self.settings.mtu = mtu;
            self.renew_filter();
        }

        Ok(())
    }

    /// Stops IPv6 to the peer, telling senders that there is no route, or lets it pass again.
    pub fn refuse_ipv6(&mut self, is_refused: bool) {
        if self.refuses_ipv6 != is_refused {
            self.refuses_ipv6 = is_refused;
            self.renew_filter();
        }
    }

    /// The sources of errors. A client without an IPv6 router in its settings refuses by its own
    /// address: the refusal happens on its machine.
    fn routers(&self) -> RouterAddresses {
        let mut own = self.own.iter().map(|prefix| prefix.address());
        let own = own.find_map(|address| match address {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        });
        let own = own.filter(|_| self.settings.role == IpRole::Client);
        RouterAddresses {
            v6: self.settings.routers.v6.or(own),
            ..self.settings.routers
        }
    }

    /// Makes a new filter from the addresses and routes of both sides.
    fn renew_filter(&mut self) {
        let whole = |prefix: IpPrefix| IpRange::of(prefix, ANY_PROTOCOL);
        let mut ours = self.own_routes.ranges().to_vec();
        ours.extend(self.own.iter().copied().map(whole));
        let mut theirs = self.peer_routes.clone();
        theirs.extend(self.peer.iter().map(|address| whole(address.prefix)));
        // Without them, packets to the peer find no route, and their senders are told so.
        theirs.retain(|range| range.is_ipv4() || !self.refuses_ipv6);

        // A new one instead of a change: batches that are being checked keep theirs, without a lock.
        self.filter = Arc::new(PacketFilter {
            role: self.settings.role,
            ours: AddressSet::of(ours),
            theirs: AddressSet::of(theirs),
            scope: self.settings.scope.clone(),
            routers: self.routers(),
            mtu: self.settings.mtu,
        });
    }

    /// The current filter. If you keep it, ask again after a capsule was handled or a setting
    /// changed.
    pub fn filter(&self) -> &Arc<PacketFilter> {
        &self.filter
    }

    /// The addresses that this end may use as source.
    pub fn own_addresses(&self) -> &[IpPrefix] {
        &self.own
    }

    /// The addresses that the peer may use as source.
    pub fn peer_addresses(&self) -> &[AssignedAddress] {
        &self.peer
    }

    /// Where this end may send.
    pub fn peer_routes(&self) -> &[IpRange] {
        &self.peer_routes
    }

    /// The MTU of the tunnel.
    pub fn mtu(&self) -> InnerMtu {
        self.settings.mtu
    }

    /// Requests of ours that have no answer yet.
    pub fn unanswered(&self) -> &[RequestedAddress] {
        &self.requests.own
    }
}
