//! One tunnel of a device.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use hermes_ip::{
    Accepts, InnerMtu, IpRole, IpSession, Lease, PacketScope, PoolError, SessionSettings,
};
use hermes_proto::ip::IpPrefix;
use hermes_rules::packets::OpenedBy;
use hermes_stack::Checksums;
use ipnet::IpNet;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::device_group::DeviceGroup;
use super::device_view::ClientTunnel;
use super::device_writer::Writer;
use super::flow_stack::FlowStack;
use super::gate::PacketGate;
use super::hub::TunHub;
use super::inbox::Inbox;
use super::service::{TunClient, TunService};
use super::surroundings::{OwnMachine, Surroundings};
use super::translations::TranslatedAddress;
use super::tunnel_gate::TunnelGate;
use super::tunnel_outcome::TunnelOutcome;
use super::tunnel_owner::TunnelOwner;

/// How long the addresses of a new tunnel may still move to another tunnel of the same user that asks for them: a returning device asks
/// within a round trip.
#[doc(alias = "bound")]
const SETTLING: Duration = Duration::from_secs(10);

/// A tunnel of a device; dropping it removes it from the device.
#[derive(Debug)]
pub struct TunTunnel {
    pub(super) hub: Arc<TunHub>,
    pub(super) end: Arc<TunEnd>,
}

/// The state that both tasks of a tunnel share with the reader of the device.
pub(super) struct TunEnd {
    pub(super) number: u64,
    /// The owner.
    owner: GroupedOwner,
    /// A new tunnel of the same client took its place.
    pub(super) replaced: Notify,
    /// The stack that ends its packets in user space, if the device of its hub does not take them.
    pub(super) stack: Option<Arc<FlowStack>>,
    pub(super) session: Mutex<IpSession>,
    /// The lease, if there is a pool.
    pub(super) lease: Mutex<Option<Lease>>,
    pub(super) inbox: Inbox,
    pub(super) writer: Mutex<Writer>,
    /// The side of the hosts behind the device, for rules.
    pub(super) device_side: OpenedBy,
    /// The policy on its packets, if there is one, and the destinations that they never reach.
    gate: Mutex<TunnelGate>,
    /// Cancelled when this tunnel or the whole device is to end.
    closed: CancellationToken,
    pub(super) outcome: TunnelOutcome,
}

/// The owner of a tunnel, and the group that shares its lease.
#[derive(Debug)]
struct GroupedOwner {
    owner: TunnelOwner,
    group: OnceLock<Arc<DeviceGroup<TunEnd>>>,
    opened: Instant,
    /// The client was given the addresses that it asked for.
    is_content: AtomicBool,
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
        let tunnel = Self::new(hub, owner, &scope)?;
        tunnel.enter(&scope);
        Ok(tunnel)
    }

    /// A requested tunnel of a listener's device, which enters the device once the proxy accepts it.
    ///
    /// # Errors
    /// The pool has no address for it; a listener's tunnel needs none.
    pub fn asked(hub: &Arc<TunHub>, owner: &TunnelOwner) -> Result<Self, PoolError> {
        Self::new(hub, owner, &PacketScope::any())
    }

    fn new(hub: &Arc<TunHub>, owner: &TunnelOwner, scope: &PacketScope) -> Result<Self, PoolError> {
        let device_side = match &hub.service {
            TunService::Client(_) => OpenedBy::Client,
            TunService::Proxy(_) => OpenedBy::Target,
        };
        let (settings, lease) = match &hub.service {
            TunService::Client(client) => {
                let accepts_addresses = match &client.shared {
                    // All are read: `SharedAddresses` refuses a tunnel that does not assign the addresses of the others.
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

        let session = IpSession::new(settings);
        let end = Arc::new(TunEnd {
            number: hub.number(),
            owner: GroupedOwner {
                owner: owner.clone(),
                group: OnceLock::new(),
                opened: Instant::now(),
                is_content: AtomicBool::new(false),
            },
            replaced: Notify::new(),
            stack: hub.device.stack_for_tunnel(),
            lease: Mutex::new(lease),
            inbox: Inbox::new(session.filter().clone()),
            session: Mutex::new(session),
            writer: Mutex::default(),
            device_side,
            gate: Mutex::default(),
            closed: hub.closed_token(),
            outcome: TunnelOutcome::default(),
        });
        Ok(Self {
            hub: hub.clone(),
            end,
        })
    }

    /// Enters the tunnel into the table of its device, whose packets may take it from here on.
    fn enter(&self, scope: &PacketScope) {
        self.hub.enter(self.end.number, self.end.clone());
        self.hub.join(&self.end);
        self.begin(scope);
    }

    /// Queues the first capsules of this end.
    fn begin(&self, scope: &PacketScope) {
        self.offer();
        match &self.hub.service {
            TunService::Client(TunClient {
                shared: Some(shared),
                ..
            }) => {
                let held = shared.held();
                if !held.is_empty() {
                    self.end.with_session(|session| session.request(&held));
                }
            }
            TunService::Client(client) => {
                if !client.addresses.is_empty() {
                    self.end
                        .with_session(|session| session.request(&client.addresses));
                }
                client.wanted.lock().begin();
                // The session's filter decides which packets may enter it.
                self.hub
                    .lead(self.end.number, &[IpPrefix::ALL_V4, IpPrefix::ALL_V6]);
            }
            TunService::Proxy(proxy) => {
                self.hub.assign(proxy, &self.end);
                let routes = scope.narrow(&proxy.routes);
                self.end.with_session(|session| session.advertise(routes));
            }
        }
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

    /// Sends the last state again: another stream leads to the client now.
    pub fn resumed(&self) {
        self.end.with_session(IpSession::repeat);
    }

    /// Sets the policy on the packets of the tunnel; `None` for no policy.
    ///
    /// Flows that both policies follow go on.
    pub fn set_gate(&self, gate: Option<PacketGate>) {
        let mut gate = gate.map(Box::new);
        let mut current = self.end.gate.lock();
        if let (Some(gate), Some(before)) = (&mut gate, &mut current.packets) {
            gate.go_on(before);
        }
        let before = std::mem::replace(&mut current.packets, gate);
        drop(current);
        // Packets need not wait for the reports of the old gate.
        drop(before);
    }

    /// Sets the view of the device's machine: packets of the tunnel reach the machine itself only where that is allowed.
    /// `seed` is a number that peers do not know.
    pub fn set_machine(&self, machine: Box<dyn OwnMachine>, seed: u64) {
        let own = self.hub.settings().addresses.iter().map(IpNet::addr);
        let device = self.hub.device.is_of_kernel().then(|| own.collect());
        let around = Surroundings::new(device, machine, seed);
        let mut around = Box::new(around);
        let mut gate = self.end.gate.lock();
        if let Some(before) = &mut gate.surroundings {
            around.go_on(before);
        }
        gate.surroundings = Some(around);
    }

    /// Ends the flows whose packets have stopped.
    pub(super) fn end_silent_flows(&self) {
        if let Some(gate) = &mut self.end.gate.lock().packets {
            gate.end_silent(Instant::now());
        }
    }

    /// Resolves when this tunnel or the whole device is to end.
    pub(super) async fn closed(&self) {
        self.end.closed.cancelled().await;
    }

    /// Ends the tunnel.
    pub fn close(&self) {
        self.end.closed.cancel();
    }

    /// Waits until the proxy has accepted the tunnel.
    pub async fn accepted(&self) {
        self.end.outcome.accepted().await;
    }

    /// Why the tunnel was refused or has ended, in words.
    pub fn end_reason(&self) -> Option<&str> {
        self.end.outcome.reason()
    }

    /// The proxy has accepted the tunnel, which is about to open.
    pub(super) fn handle_accepted(&self) {
        self.enter(&PacketScope::any());
        self.end.outcome.accept();
    }

    /// The stack that ends its packets in user space, if the kernel does not.
    pub fn stack(&self) -> Option<&Arc<FlowStack>> {
        self.end.stack.as_ref()
    }

    /// The addresses that it has.
    pub fn addresses(&self) -> Vec<IpPrefix> {
        match &*self.end.lease.lock() {
            Some(lease) => [lease.v4, lease.v6].into_iter().flatten().collect(),
            None => self.end.session.lock().own_addresses().to_vec(),
        }
    }

    /// Sets the longest packet that the tunnel carries, in bytes.
    pub(super) fn set_mtu(&self, bytes: usize) {
        let bytes = match self.hub.device.remote() {
            // Both directions of a connection end there: neither is to have longer segments.
            Some(remote) => bytes.min(remote.mtu().bytes()),
            None => bytes,
        };
        let Ok(mtu) = InnerMtu::new(bytes) else {
            return;
        };
        if self.end.carries() == mtu.bytes() {
            return;
        }
        let set = self.end.with_session(|session| session.set_mtu(mtu));
        match set {
            Ok(()) => {
                self.forget_ipv6();
                if let Some(stack) = &self.end.stack {
                    stack.set_mtu(self.stack_mtu(bytes));
                }
                tracing::debug!(
                    device = self.hub.device.name(),
                    bytes,
                    "the MTU of the tunnel changed"
                );
            }
            Err(error) => {
                tracing::warn!(device = self.hub.device.name(), %error, "the tunnel stays as it was")
            }
        }
    }

    /// The longest packets that a stack is to send: the MTU of its tunnel, or the least of several.
    fn stack_mtu(&self, bytes: usize) -> usize {
        let configured = self.hub.settings().mtu as usize;
        let least = match self.hub.is_split() {
            true => self.hub.carries(),
            false => Some(bytes),
        };
        least.unwrap_or(bytes).min(configured)
    }

    /// The capsules that its session has to send.
    pub(super) fn session_capsules(&self) -> BytesMut {
        let mut output = BytesMut::new();
        let mut session = self.end.session.lock();
        while let Some(capsule) = session.poll_capsule() {
            capsule.encode(&mut output);
        }
        output
    }
}

impl Drop for TunTunnel {
    fn drop(&mut self) {
        // Out of the table first: afterwards no reader of the device queues packets here.
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
                if let Some(stack) = &self.end.stack {
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

    /// The group of tunnels that share its lease.
    pub(super) fn group(&self) -> Option<&Arc<DeviceGroup<TunEnd>>> {
        self.owner.group.get()
    }

    /// The tunnel belongs to this group.
    pub(super) fn set_group(&self, group: Arc<DeviceGroup<TunEnd>>) {
        // A tunnel joins one group, once.
        let _ = self.owner.group.set(group);
    }

    /// The client was given the addresses that it asked for, and keeps them.
    pub(super) fn settle(&self) {
        self.owner.is_content.store(true, Ordering::Relaxed);
    }

    /// Whether its addresses stay, whatever other tunnels of the same user ask for.
    pub(super) fn is_settled(&self) -> bool {
        let is_content = self.owner.is_content.load(Ordering::Relaxed);
        is_content || self.owner.opened.elapsed() >= SETTLING
    }

    /// Runs `act` on the session, and then updates the filter and the outgoing capsules.
    pub(super) fn with_session<T>(&self, act: impl FnOnce(&mut IpSession) -> T) -> T {
        let mut session = self.session.lock();
        let result = act(&mut session);
        // Under the lock of the session: an older filter must not overwrite a newer one.
        self.inbox.with(|inbox| inbox.follow(session.filter()));
        result
    }

    /// The gate that every packet of the tunnel has to pass.
    pub(super) fn gate(&self) -> MutexGuard<'_, TunnelGate> {
        self.gate.lock()
    }

    /// Gives the device an answer to a packet that it sent into the tunnel, such as an ICMP error.
    pub(super) fn tell_device(&self, hub: &TunHub, packet: &[u8]) {
        match &self.stack {
            Some(stack) => stack.handle_packet(packet, Checksums::Verify),
            None => hub.device.answer(packet),
        }
    }

    /// The addresses of the device that are translated in the tunnel.
    pub(super) fn translated(&self) -> impl Iterator<Item = TranslatedAddress> + use<> {
        self.inbox.rules().translations.addresses()
    }

    /// The longest packets that its path carries, in bytes.
    pub(super) fn carries(&self) -> usize {
        self.session.lock().mtu().bytes()
    }

    /// The status of a client's tunnel.
    pub(super) fn client(&self) -> ClientTunnel {
        let lease = self.lease.lock().clone();
        let addresses = lease.iter().flat_map(|lease| [lease.v4, lease.v6]);
        let flows = self.stack.as_ref().map(|stack| stack.flows());
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

    /// How many open flows the policy follows.
    pub(super) fn open_flows(&self) -> usize {
        self.gate
            .lock()
            .packets
            .as_ref()
            .map_or(0, |gate| gate.open_flows())
    }
}
