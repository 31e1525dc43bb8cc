//! One tunnel of a device.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hermes_ip::offload::{OffloadHeader, segment};
use hermes_ip::{
    Accepts, Adoption, InnerMtu, IpRole, IpSession, Lease, PacketFilter, PacketScope, PoolError,
    SessionEvent, SessionSettings, Verdict,
};
use hermes_proto::capsule::CapsuleType;
use hermes_proto::ip::{IcmpLimiter, IpPrefix};
use hermes_rules::packets::OpenedBy;
use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::device_group::DeviceGroup;
use super::device_writer::{FromClient, Writer};
use super::flow_stack::FlowStack;
use super::gate::{ArrivedPacket, PacketGate};
use super::hub::{ClientTunnel, TunHub};
use super::hub_device::Outlet;
use super::inbox::Inbox;
use super::service::{TunClient, TunService};
use super::shared_addresses::AddressDecision;
use super::super_queue::SuperPushed;
use super::surroundings::{OwnMachine, Surroundings};
use super::translations::{TranslatedAddress, Translations};
use super::tunnel_gate::TunnelGate;
use super::tunnel_owner::TunnelOwner;
use super::wanted_addresses::Wanted;

/// How long another tunnel of the same user may still have the addresses of a new one, if it asks for them: a device that comes back asks
/// within a round trip.
#[doc(alias = "bound")]
const SETTLING: Duration = Duration::from_secs(10);

/// A tunnel of a device. When this is dropped, the device has it no more.
#[derive(Debug)]
pub struct TunTunnel {
    pub(super) hub: Arc<TunHub>,
    pub(super) end: Arc<TunEnd>,
}

/// What both tasks of a tunnel, and the one that reads the device, share.
pub(super) struct TunEnd {
    pub(super) number: u64,
    /// Whose it is.
    owner: GroupedOwner,
    /// A new tunnel of the same client took its place.
    pub(super) replaced: Notify,
    pub(super) outlet: Outlet,
    pub(super) session: Mutex<IpSession>,
    /// What the pool gave, where there is one.
    pub(super) lease: Mutex<Option<Lease>>,
    pub(super) inbox: Inbox,
    /// The session has capsules to send.
    pub(super) changed: Notify,
    pub(super) writer: Mutex<Writer>,
    /// Who the hosts behind the device are, for rules.
    pub(super) device_side: OpenedBy,
    /// The policy on its packets, where there is one, and what they never reach.
    gate: Mutex<TunnelGate>,
    pub(super) reader: Mutex<Reader>,
}

/// Whose a tunnel is, and with which others it shares a lease.
#[derive(Debug)]
struct GroupedOwner {
    owner: TunnelOwner,
    group: OnceLock<Arc<DeviceGroup<TunEnd>>>,
    opened: Instant,
    /// It has what it asked for.
    is_content: AtomicBool,
}

/// What packets of the device meet.
#[derive(Default)]
pub(super) struct Reader {
    /// How often errors are written to the device.
    limiter: IcmpLimiter,
    /// The addresses that packets get on their way, in both directions.
    pub(super) translations: Translations,
}

impl fmt::Debug for TunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunEnd")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl TunTunnel {
    /// A tunnel of this device, for packets within this scope.
    ///
    /// # Errors
    /// The pool has no address for it.
    pub fn open(
        hub: &Arc<TunHub>,
        owner: &TunnelOwner,
        scope: PacketScope,
    ) -> Result<Self, PoolError> {
        let device_side = match &hub.service {
            TunService::Client(_) => OpenedBy::Client,
            TunService::Proxy(_) => OpenedBy::Target,
        };
        let (settings, lease) = match &hub.service {
            TunService::Client(client) => {
                let accepts_addresses = match &client.shared {
                    // One that is not shared is refused with all of the tunnel.
                    Some(_) => Accepts::All,
                    None => client.wanted.lock().accepts(),
                };
                let settings = SessionSettings {
                    role: IpRole::Client,
                    scope: scope.clone(),
                    routers: client.routers,
                    mtu: InnerMtu::STREAM,
                    accepts_addresses,
                    accepts_routes: Accepts::All,
                };
                (settings, None)
            }
            TunService::Proxy(proxy) => {
                let lease = hub.replace(proxy, owner)?;
                let settings = SessionSettings {
                    role: IpRole::Proxy,
                    scope: scope.clone(),
                    routers: proxy.routers,
                    mtu: InnerMtu::STREAM,
                    accepts_addresses: Accepts::Nothing,
                    accepts_routes: Accepts::Nothing,
                };
                (settings, Some(lease))
            }
        };

        let end = Arc::new(TunEnd {
            number: hub.number(),
            owner: GroupedOwner {
                owner: owner.clone(),
                group: OnceLock::new(),
                opened: Instant::now(),
                is_content: AtomicBool::new(false),
            },
            replaced: Notify::new(),
            outlet: hub.device.outlet(),
            session: Mutex::new(IpSession::new(settings)),
            lease: Mutex::new(lease),
            inbox: Inbox::new(),
            changed: Notify::new(),
            writer: Mutex::default(),
            device_side,
            gate: Mutex::default(),
            reader: Mutex::default(),
        });
        hub.enter(end.number, end.clone());
        hub.join(&end);
        let tunnel = Self {
            hub: hub.clone(),
            end,
        };
        tunnel.begin(&scope);
        Ok(tunnel)
    }

    /// Says what this end has to say first.
    fn begin(&self, scope: &PacketScope) {
        self.offer();
        match &self.hub.service {
            TunService::Client(TunClient {
                shared: Some(shared),
                ..
            }) => {
                let held = shared.held();
                if !held.is_empty() {
                    self.end.session.lock().request(&held);
                }
            }
            TunService::Client(client) => {
                if !client.addresses.is_empty() {
                    self.end.session.lock().request(&client.addresses);
                }
                client.wanted.lock().begin();
                // What may enter it, the session's filter says.
                self.hub
                    .lead(self.end.number, &[IpPrefix::ALL_V4, IpPrefix::ALL_V6]);
            }
            TunService::Proxy(proxy) => {
                self.hub.assign(proxy, &self.end);
                let routes = scope.narrow(&proxy.routes);
                self.end.session.lock().advertise(routes);
            }
        }
        self.end.changed.notify_one();
    }

    /// Whether the device is gone, or another tunnel took its place.
    pub fn is_over(&self) -> bool {
        self.hub.is_closed() || self.end.lease.lock().is_none()
    }

    /// While this is awaited, a new tunnel of the same client may take its place: a client that begins anew finds its addresses again.
    /// Resolves when one has.
    pub async fn replaced(&self) {
        let TunService::Proxy(proxy) = &self.hub.service else {
            return std::future::pending().await;
        };
        let _waiting = proxy.wait(&self.end);
        self.end.replaced.notified().await;
    }

    /// Another stream leads to its client now, which is told once more what it was told last.
    pub fn resumed(&self) {
        self.end.session.lock().repeat();
        self.end.changed.notify_one();
    }

    /// The policy on its packets from now on; `None`: there is none.
    ///
    /// Flows go on that both follow.
    pub fn set_gate(&self, gate: Option<PacketGate>) {
        let mut gate = gate.map(Box::new);
        let mut current = self.end.gate.lock();
        if let (Some(gate), Some(before)) = (&mut gate, &mut current.packets) {
            gate.go_on(before);
        }
        let before = std::mem::replace(&mut current.packets, gate);
        drop(current);
        // What it still has to tell need no packet wait for.
        drop(before);
    }

    /// What is known of the machine that has its device, from now on: its packets reach that only where they may. `seed` is a number that
    /// peers do not know.
    pub fn set_machine(&self, machine: Box<dyn OwnMachine>, seed: u64) {
        let device = match &self.end.outlet {
            Outlet::Kernel(_) => {
                let own = self.hub.settings().addresses.iter();
                Some(own.map(IpNet::addr).collect())
            }
            Outlet::Stack(_) | Outlet::Remote(_) => None,
        };
        let around = Surroundings::new(device, machine, seed);
        let mut around = Box::new(around);
        let mut gate = self.end.gate.lock();
        if let Some(before) = &mut gate.surroundings {
            around.go_on(before);
        }
        gate.surroundings = Some(around);
    }

    /// Ends the flows of its packets that are silent by now.
    pub(super) fn end_silent_flows(&self) {
        if let Some(gate) = &mut self.end.gate.lock().packets {
            gate.end_silent(Instant::now());
        }
    }

    /// Resolves when the device ends its tunnels.
    pub(super) async fn closed(&self) {
        self.hub.closed().await;
    }

    /// What ends its packets in user space, if the kernel does not.
    pub fn stack(&self) -> Option<&Arc<FlowStack>> {
        self.end.outlet.stack()
    }

    /// The addresses that it has.
    pub fn addresses(&self) -> Vec<IpPrefix> {
        match &*self.end.lease.lock() {
            Some(lease) => [lease.v4, lease.v6].into_iter().flatten().collect(),
            None => self.end.session.lock().own_addresses().to_vec(),
        }
    }

    /// Takes a capsule.
    ///
    /// # Errors
    /// The stream must be aborted; why.
    pub(super) fn receive_capsule(&self, kind: CapsuleType, value: &[u8]) -> Result<(), String> {
        let mut session = self.end.session.lock();
        let waiting = session.unanswered().len();
        let handled = session.handle_capsule(kind, value, Instant::now());
        let is_answer = session.unanswered().len() < waiting;
        drop(session);
        let Some(event) = handled.map_err(|error| error.to_string())? else {
            return Ok(());
        };

        match (event, &self.hub.service) {
            (SessionEvent::Requested(requests), TunService::Proxy(proxy)) => {
                self.hub.grant(proxy, &self.end, &requests);
            }
            // This end routes nothing and gives nothing out.
            (SessionEvent::Requested(_), TunService::Client(_)) => {
                // Without IPv6 there is nothing that the tunnel could be too narrow for.
                let _ = self.end.session.lock().assign(Vec::new());
                self.end.changed.notify_one();
            }
            (
                SessionEvent::Assigned {
                    taken,
                    ignored,
                    refused,
                },
                TunService::Client(client),
            ) => {
                let mut assigned = taken.clone();
                let mut has_refused = false;
                for (prefix, reason) in ignored {
                    assigned.push(prefix);
                    tracing::debug!(device = self.hub.device.name(), %prefix, %reason, "an assigned address is not used");
                }
                for request in refused {
                    let prefix = request.prefix;
                    tracing::warn!(device = self.hub.device.name(), %prefix, "the proxy refused an address that was asked for");
                    has_refused = true;
                }
                if let Some(shared) = &client.shared {
                    let decided =
                        shared.handle_assigned(self.end.number, &taken, (is_answer, has_refused));
                    return self.share(decided);
                }
                self.handle_assigned(client, (&taken, &assigned), is_answer)?;
            }
            (SessionEvent::Assigned { .. } | SessionEvent::Routed { .. }, _) => {}
        }
        Ok(())
    }

    /// Decides about what the tunnel assigned: what may be used of it, and all of it.
    ///
    /// # Errors
    /// The device refuses all of it.
    fn handle_assigned(
        &self,
        client: &TunClient,
        (taken, assigned): (&[IpPrefix], &[IpPrefix]),
        is_answer: bool,
    ) -> Result<(), String> {
        let mut wanted = client.wanted.lock();
        match wanted.handle_assigned((taken, assigned), is_answer) {
            Wanted::Request(addresses) => {
                self.end.session.lock().request(&addresses);
                self.end.changed.notify_one();
            }
            Wanted::Adopt => self.adopt(taken),
            Wanted::Keep(adoption) => {
                if !adoption.new.is_empty() {
                    self.adopt(wanted.held());
                }
                let mut session = self.end.session.lock();
                session.accept_addresses(wanted.accepts());
                let is_answered = session.unanswered().is_empty();
                if is_answered && session.own_addresses().is_empty() && !assigned.is_empty() {
                    let held = wanted.held();
                    return Err(format!(
                        "it has {} and was assigned {}",
                        listed(held),
                        listed(assigned)
                    ));
                }
                drop(session);
                self.translate(&adoption);
            }
        }
        Ok(())
    }

    /// Packets get the addresses of the tunnel on their way from now on, where the device has others.
    fn translate(&self, adoption: &Adoption) {
        let translations = Translations::of(&adoption.translations);
        let before = std::mem::replace(&mut self.end.reader.lock().translations, translations);
        if before == translations {
            return;
        }
        for TranslatedAddress { device, tunnel } in translations.addresses() {
            tracing::info!(name = self.hub.device.name(), %device, %tunnel, "an address is translated");
        }
    }

    /// Gives the device what the tunnel assigns.
    fn adopt(&self, taken: &[IpPrefix]) {
        let nets = taken
            .iter()
            .filter_map(|prefix| IpNet::new(prefix.address(), prefix.length()).ok());
        let nets: Vec<IpNet> = nets.collect();
        match self.hub.device.set_addresses(&nets) {
            Ok(()) => {
                tracing::info!(device = self.hub.device.name(), addresses = ?nets, "has its addresses");
            }
            Err(error) => tracing::error!(%error, "the device does not get its addresses"),
        }
        self.hub.lead_again();
    }

    /// Follows what was decided about the addresses of one of several tunnels.
    ///
    /// # Errors
    /// The tunnel is refused; why.
    fn share(&self, decided: AddressDecision) -> Result<(), String> {
        match decided {
            AddressDecision::Agreed => self.translate(&Adoption::default()),
            AddressDecision::Request(addresses) => {
                self.end.session.lock().request(&addresses);
                self.end.changed.notify_one();
            }
            AddressDecision::Adopt(addresses) => {
                self.adopt(&addresses);
                self.translate(&Adoption::default());
            }
            AddressDecision::Translate(adoption) => {
                if !adoption.new.is_empty() {
                    self.adopt(&adoption.new);
                }
                self.translate(&adoption);
            }
            AddressDecision::Refuse(reason) => return Err(reason),
        }
        Ok(())
    }

    /// What the tunnel carries from now on, in bytes.
    pub(super) fn set_mtu(&self, bytes: usize) {
        let bytes = match &self.end.outlet {
            // Both directions of a connection end there: neither is to have longer segments.
            Outlet::Remote(remote) => bytes.min(remote.mtu().bytes()),
            _ => bytes,
        };
        let Ok(mtu) = InnerMtu::new(bytes) else {
            return;
        };
        let mut session = self.end.session.lock();
        if session.mtu() == mtu {
            return;
        }
        let set = session.set_mtu(mtu);
        drop(session);
        match set {
            Ok(()) => {
                self.forget_ipv6();
                if let Some(stack) = self.end.outlet.stack() {
                    stack.set_mtu(self.stack_mtu(bytes));
                }
                tracing::debug!(
                    device = self.hub.device.name(),
                    bytes,
                    "what the tunnel carries"
                );
            }
            Err(error) => {
                tracing::warn!(device = self.hub.device.name(), %error, "the tunnel stays as it was")
            }
        }
    }

    /// The longest packets that a stack is to send: what its tunnel carries, or the narrowest of several.
    fn stack_mtu(&self, bytes: usize) -> usize {
        let configured = self.hub.settings().mtu as usize;
        let least = match self.hub.is_split() {
            true => self.hub.carries(),
            false => Some(bytes),
        };
        least.unwrap_or(bytes).min(configured)
    }

    /// The capsules that are to be sent, as soon as there are any.
    pub(super) async fn capsules(&self) -> Bytes {
        loop {
            let mut output = BytesMut::new();
            {
                let mut session = self.end.session.lock();
                while let Some(capsule) = session.poll_capsule() {
                    capsule.encode(&mut output);
                }
            }
            if !output.is_empty() {
                return output.freeze();
            }
            self.end.changed.notified().await;
        }
    }
}

fn listed(prefixes: &[IpPrefix]) -> String {
    let texts: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
    texts.join(" and ")
}

impl Drop for TunTunnel {
    fn drop(&mut self) {
        self.hub.leave(self.end.number);
        self.set_gate(None);
        self.end.inbox.close();
        match &self.hub.service {
            TunService::Client(client) => {
                if let Some(shared) = &client.shared {
                    shared.leave(self.end.number);
                }
            }
            TunService::Proxy(proxy) => {
                if let Some(stack) = self.end.outlet.stack() {
                    stack.close();
                }
                self.hub.end(proxy, &self.end);
            }
        }
    }
}

impl TunEnd {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn owner(&self) -> &TunnelOwner {
        &self.owner.owner
    }

    /// The tunnels with which it shares a lease.
    pub(super) fn group(&self) -> Option<&Arc<DeviceGroup<TunEnd>>> {
        self.owner.group.get()
    }

    /// It is one of these.
    pub(super) fn set_group(&self, group: Arc<DeviceGroup<TunEnd>>) {
        // It joins one, once.
        let _ = self.owner.group.set(group);
    }

    /// Its client has what it asked for, and keeps that.
    pub(super) fn settle(&self) {
        self.owner.is_content.store(true, Ordering::Relaxed);
    }

    /// Whether its addresses are its own, beside wishes of others of its user.
    pub(super) fn is_settled(&self) -> bool {
        let is_content = self.owner.is_content.load(Ordering::Relaxed);
        is_content || self.owner.opened.elapsed() >= SETTLING
    }

    pub(super) fn filter(&self) -> Arc<PacketFilter> {
        self.session.lock().filter().clone()
    }

    /// Takes a packet that the device of `hub` gave; says whether there should be a pause.
    pub(super) fn take(
        &self,
        hub: &TunHub,
        header: OffloadHeader,
        packet: &mut [u8],
        longest: usize,
        room: &mut Vec<u8>,
    ) -> bool {
        let filter = self.filter();
        let now = Instant::now();
        let mut reader = self.reader.lock();
        let Reader {
            limiter,
            translations,
        } = &mut *reader;
        translations.leave(packet, !header.needs_checksum);
        let verdict = filter.check_to_peer(packet, longest, limiter, now);
        let verdict = match verdict {
            Verdict::Pass
                if !self.passes(
                    hub,
                    ArrivedPacket {
                        bytes: packet,
                        count: header.segments_of(packet.len()),
                        sender: self.device_side,
                    },
                    now,
                ) =>
            {
                filter.prohibit(packet, limiter, now)
            }
            verdict => verdict,
        };
        match verdict {
            Verdict::Pass => {}
            Verdict::Answer(answer)
            | Verdict::Reject {
                error: Some(answer),
                ..
            } => {
                self.answer(&answer, translations);
                return false;
            }
            Verdict::Reject { reason, .. } => {
                tracing::trace!(
                    reason = reason.name(),
                    "a packet of the device does not pass"
                );
                return false;
            }
        }

        filter.clamp_tcp(packet, !header.needs_checksum);
        let Ok(checked) = header.check(packet) else {
            return false;
        };
        match self.inbox.super_packets.push(&header, &checked) {
            SuperPushed::Waits { is_crowded } => is_crowded,
            SuperPushed::Plain => self
                .inbox
                .fill(|push| segment(&checked, room, |segment| push(segment))),
        }
    }

    /// Takes a packet that came out of the tunnel of another client; `longest` is what it is cut into.
    pub(super) fn take_of_client(
        &self,
        hub: &TunHub,
        header: OffloadHeader,
        packet: &[u8],
        longest: usize,
        room: &mut FromClient,
    ) {
        let FromClient {
            packet: copy,
            segment,
        } = room;
        copy.clear();
        copy.extend_from_slice(packet);
        // A tunnel that is crowded loses it, as any link does.
        self.take(hub, header, copy, longest, segment);
    }

    /// Tells a host behind the device something about a packet that it sent.
    fn answer(&self, answer: &[u8], translations: &Translations) {
        let mut answer = answer.to_vec();
        // It is about the packet as it was translated.
        translations.arrive(&mut answer, true);
        self.outlet.answer(&answer);
    }

    /// The addresses that are others in the tunnel.
    pub(super) fn translated(&self) -> impl Iterator<Item = TranslatedAddress> + use<> {
        self.reader.lock().translations.addresses()
    }

    /// The longest packets that its path carries, in bytes.
    pub(super) fn carries(&self) -> usize {
        self.session.lock().mtu().bytes()
    }

    /// What is to be seen of it, where it is a client's.
    pub(super) fn client(&self) -> ClientTunnel {
        let lease = self.lease.lock().clone();
        let addresses = lease.iter().flat_map(|lease| [lease.v4, lease.v6]);
        let flows = self.outlet.stack().map(|stack| stack.flows());
        ClientTunnel {
            user: self.owner.owner.identity.clone(),
            addresses: addresses
                .flatten()
                .map(|prefix| prefix.address().to_string())
                .collect(),
            carries: self.carries(),
            connections: flows.map(|[tcp, _]| tcp),
            sessions: flows.map(|[_, udp]| udp),
        }
    }

    /// Whether a packet may go where it goes, and the policy lets it pass, which counts for its flow.
    pub(super) fn passes(&self, hub: &TunHub, packet: ArrivedPacket<'_>, now: Instant) -> bool {
        self.gate.lock().passes(hub.pool_entry(), packet, now)
    }

    /// How many flows of its packets are open, where they are followed.
    pub(super) fn open_flows(&self) -> usize {
        self.gate
            .lock()
            .packets
            .as_ref()
            .map_or(0, |gate| gate.open_flows())
    }
}
