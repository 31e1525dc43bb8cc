//! A device and its tunnels.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use hermes_ip::offload::Coalescer;
use hermes_ip::{NextHop, RouteConflict, RoutingTable};
use hermes_net::tun::{PassedDevices, TunSettings};
use hermes_proto::ip::{DUMMY_ROUTER_V4, IcmpError, IcmpLimiter, IpPrefix, Packet};
use ipnet::IpNet;
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use super::device_group::DeviceGroup;
use super::device_queues::{ClaimedQueue, DeviceQueues};
use super::device_view::{ClientTunnel, DeviceView};
use super::end::TunEnd;
use super::hub_device::{HubDevice, StackDeviceSettings};
use super::named_hosts::{NameQuestion, NamedHosts};
use super::node_pools::PoolEntry;
use super::remote_device::{RemoteDevice, RemoteSettings};
use super::service::TunService;
use super::split_table::{SplitPrefixes, SplitTable};
use super::wireguard_ports::WireguardPorts;

/// Tunnels of one device that are shown.
#[doc(alias = "bound")]
const SHOWN: usize = 1000;

/// A device, its service, and the routes to its tunnels.
#[derive(Debug)]
pub struct TunHub {
    pub(super) service: TunService,
    pub(super) device: HubDevice,
    settings: TunSettings,
    pub(super) table: RwLock<Table>,
    /// The prefixes that the kernel routes to the device.
    led: Mutex<Vec<IpNet>>,
    next: AtomicU64,
    /// Limits the errors about packets that no tunnel takes.
    limiter: Mutex<IcmpLimiter>,
    closed: CancellationToken,
}

/// The tunnels, and the routes to them.
#[derive(Debug)]
pub(super) struct Table {
    routes: RoutingTable<u64>,
    ends: HashMap<u64, Arc<TunEnd>>,
    /// Groups of tunnels that own routes together.
    groups: HashMap<u64, Arc<DeviceGroup<TunEnd>>>,
    /// How the packets of a client's device are split between its tunnels, if it has several.
    split: Option<SplitTable<TunEnd>>,
}

impl TunHub {
    /// Opens the device for this service, or takes over a passed one. Each queue is [read](Self::read) by one of `workers`, which [claims](Self::claim) it.
    ///
    /// # Errors
    /// Why the device cannot be created.
    pub fn open(
        settings: TunSettings,
        service: TunService,
        workers: usize,
        passed: &PassedDevices,
    ) -> Result<Arc<Self>, String> {
        let device = HubDevice::kernel(&settings, workers, passed)?;
        Ok(Self::with(device, settings, service))
    }

    /// A hub without a device: a stack for each tunnel ends its packets in user space, or one stack
    /// sends the packets of connections that are [opened here](TunHub::open_tcp). Of `settings`, the
    /// name, the addresses and the MTU count.
    pub fn in_user_space(
        settings: TunSettings,
        service: TunService,
        stack: StackDeviceSettings,
    ) -> Arc<Self> {
        let device = HubDevice::stack(&settings, stack);
        Self::with(device, settings, service)
    }

    /// A device on another machine, reached through one of these ports. Of `settings`, the name, the addresses and the MTU count.
    ///
    /// # Errors
    /// Why it cannot be reached: no such port, or the other machine has another device there.
    pub fn on_another_machine(
        settings: TunSettings,
        service: TunService,
        ports: &WireguardPorts,
        remote: RemoteSettings,
    ) -> Result<Arc<Self>, String> {
        let device = Arc::new(RemoteDevice::open(ports, &settings, remote)?);
        let hub = Self::with(HubDevice::Remote(device.clone()), settings, service);
        let led: Weak<Self> = Arc::downgrade(&hub);
        device.lead(led);
        Ok(hub)
    }

    fn with(device: HubDevice, settings: TunSettings, service: TunService) -> Arc<Self> {
        let client_to_client =
            matches!(&service, TunService::Proxy(proxy) if proxy.client_to_client);
        let is_split = matches!(&service, TunService::Client(client) if client.shared.is_some());
        Arc::new(Self {
            led: Mutex::new(settings.routes.clone()),
            service,
            device,
            settings,
            table: RwLock::new(Table {
                routes: RoutingTable::new(client_to_client),
                ends: HashMap::new(),
                groups: HashMap::new(),
                split: is_split.then(SplitTable::default),
            }),
            next: AtomicU64::new(0),
            limiter: Mutex::default(),
            closed: CancellationToken::new(),
        })
    }

    /// The settings of the device.
    pub fn settings(&self) -> &TunSettings {
        &self.settings
    }

    /// Its service.
    pub fn service(&self) -> &TunService {
        &self.service
    }

    /// The pool of its clients among those of the node.
    pub(super) fn pool_entry(&self) -> Option<&PoolEntry> {
        match &self.service {
            TunService::Proxy(proxy) => proxy.pool_entry(),
            TunService::Client(_) => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// Whether the device still exists.
    pub fn is_there(&self) -> bool {
        self.device.is_there()
    }

    /// Ends all tunnels, and takes no new ones. The device is removed with the last tunnel.
    pub fn close(&self) {
        self.closed.cancel();
        self.device.close();
    }

    /// A token for one tunnel: cancelled alone, or with all others when the device closes.
    pub(super) fn closed_token(&self) -> CancellationToken {
        self.closed.child_token()
    }

    /// Whether it takes no more tunnels.
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Resolves when its tunnels are to end.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// How many tunnels it has.
    pub fn tunnels(&self) -> usize {
        self.table.read().ends.len()
    }

    /// The longest packets that all of its tunnels carry, in bytes; `None` without a tunnel.
    pub(super) fn carries(&self) -> Option<usize> {
        let table = self.table.read();
        table.ends.values().map(|end| end.carries()).min()
    }

    /// Its current status.
    pub fn view(&self) -> DeviceView {
        let ends: Vec<Arc<TunEnd>> = self.table.read().ends.values().cloned().collect();
        let carries = self.carries();
        let mtu = self.settings.mtu;
        let addresses = self.device.addresses();
        DeviceView {
            name: self.device.name().to_owned(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            mtu,
            tunnels: ends.len(),
            queues: self
                .device
                .queues()
                .map_or_else(Vec::new, DeviceQueues::packets),
            super_packets: ends
                .iter()
                .filter(|end| end.inbox.with(|inbox| inbox.super_packets.is_agreed()))
                .count(),
            flows: ends.iter().map(|end| end.open_flows()).sum(),
            carries: carries.map(|carries| carries.min(mtu as usize)),
            ipv6: ends.iter().filter_map(|end| end.ipv6_proof()).min(),
            masquerades: self.settings.masquerade,
            translated: ends.iter().flat_map(|end| end.translated()).collect(),
            wireguard: self.device.remote_view(),
            clients: self.clients(&ends),
        }
    }

    /// The tunnels of clients, by owner.
    fn clients(&self, ends: &[Arc<TunEnd>]) -> Vec<ClientTunnel> {
        if matches!(self.service, TunService::Client(_)) {
            return Vec::new();
        }
        let mut clients: Vec<ClientTunnel> =
            ends.iter().take(SHOWN).map(|end| end.client()).collect();
        clients.sort_by(|one, other| one.user.cmp(&other.user));
        clients
    }

    /// Splits the packets of a client's device between these tunnels from now on, and routes their
    /// prefixes to it. Unchanged prefixes are not touched.
    ///
    /// # Errors
    /// A prefix occurs twice, or the kernel rejects a route, which is missing then.
    pub fn set_split(&self, tunnels: &[SplitPrefixes]) -> Result<(), String> {
        let prefixes = tunnels.iter().flat_map(|tunnel| &tunnel.prefixes);
        let nets = prefixes.filter_map(|prefix| IpNet::new(prefix.address(), prefix.length()).ok());
        let mut wanted = self.settings.routes.clone();
        wanted.extend(nets);

        // Held to the end: two changes at once would mix their routes.
        let mut led = self.led.lock();
        let mut failed = Vec::new();
        {
            let mut table = self.table.write();
            // Before the routes: a packet that the kernel routes here must find its tunnel.
            let split = table.split.get_or_insert_default();
            split.set(tunnels).map_err(|error| error.to_string())?;
        }
        // New routes before old ones go, so that no destination is without one in between.
        for net in wanted.iter().filter(|net| !led.contains(net)) {
            failed.extend(self.device.add_route(*net).err());
        }
        for net in led.iter().filter(|net| !wanted.contains(net)) {
            failed.extend(self.device.remove_route(*net).err());
        }
        *led = wanted;

        match failed.first() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Whether requests for its tunnels are to offer super-packets.
    pub fn offers_super_packets(&self) -> bool {
        matches!(&self.service, TunService::Client(client) if client.super_packets)
    }

    /// The names behind some of the addresses that are routed to the device.
    pub fn names(&self) -> Option<&Arc<NamedHosts>> {
        match &self.service {
            TunService::Client(client) => client.names.as_ref(),
            TunService::Proxy(_) => None,
        }
    }

    /// Whether closing the device would cut off a tunnel, or a connection to a name.
    pub fn is_in_use(&self) -> bool {
        let connections = self.names().map(|names| names.stack().flows()[0]);
        self.tunnels() > 0 || connections.is_some_and(|connections| connections > 0)
    }

    /// Answers a question for a name.
    pub fn answer_name(&self, question: &NameQuestion, message: &[u8]) {
        self.device.answer(&question.answer(message));
    }

    /// Writes the packets of named hosts to the kernel or the other machine. Never completes.
    pub async fn carry_names(&self) -> Infallible {
        let Some(names) = self.names() else {
            return std::future::pending().await;
        };
        let mut coalescer = Coalescer::default();
        loop {
            let packets = names.stack().next_transmits().await;
            self.device.write_all(&packets, &mut coalescer);
        }
    }

    /// Whether it is a client's device with several tunnels.
    pub fn is_split(&self) -> bool {
        matches!(&self.service, TunService::Client(client) if client.shared.is_some())
    }

    /// The prefixes of each of several tunnels.
    pub fn split(&self) -> Vec<SplitPrefixes> {
        let table = self.table.read();
        table
            .split
            .iter()
            .flat_map(SplitTable::prefixes)
            .cloned()
            .collect()
    }

    /// Reinstalls the device's routes: the kernel removes routes with the address that they were
    /// for.
    pub(super) fn lead_again(&self) {
        for net in &*self.led.lock() {
            if let Err(error) = self.device.add_route(*net) {
                tracing::error!(%error, "cannot add a route of the device");
            }
        }
    }

    /// Claims a queue without a reader for the worker that calls this.
    ///
    /// # Errors
    /// The runtime of the worker cannot take the descriptor.
    pub fn claim(&self) -> io::Result<Option<ClaimedQueue>> {
        match self.device.queues() {
            Some(queues) => queues.claim(),
            None => Ok(None),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn enter(&self, number: u64, end: Arc<TunEnd>) {
        let mut table = self.table.write();
        if let (Some(split), Some(name)) = (&mut table.split, end.owner().tunnel()) {
            split.enter(name, number, &end);
        }
        table.ends.insert(number, end);
    }

    /// Routes these prefixes into a tunnel, and no others. Returns conflicts with other tunnels.
    pub(super) fn lead(&self, number: u64, prefixes: &[IpPrefix]) -> Vec<RouteConflict<u64>> {
        self.table.write().routes.replace(number, prefixes)
    }

    /// Routes these prefixes into the tunnels of a group, and no others.
    pub(super) fn lead_group(
        &self,
        group: &Arc<DeviceGroup<TunEnd>>,
        prefixes: &[IpPrefix],
    ) -> Vec<RouteConflict<u64>> {
        let mut table = self.table.write();
        table.groups.insert(group.number, group.clone());
        table.routes.replace(group.number, prefixes)
    }

    /// The tunnel that an address is routed to, or one of the group that shares it.
    pub(super) fn end_with(&self, address: IpPrefix) -> Option<Arc<TunEnd>> {
        let table = self.table.read();
        let owner = table.routes.owner(address.address())?;
        match table.groups.get(&owner) {
            Some(group) => group.first(),
            None => table.ends.get(&owner).cloned(),
        }
    }

    pub(super) fn leave_group(&self, group: &DeviceGroup<TunEnd>) {
        let mut table = self.table.write();
        table.routes.remove(group.number);
        table.groups.remove(&group.number);
    }

    pub(super) fn leave(&self, number: u64) {
        let mut table = self.table.write();
        table.routes.remove(number);
        table.ends.remove(&number);
        if let Some(split) = &mut table.split {
            split.leave(number);
        }
    }

    /// The next hop of a packet that came out of a tunnel, by this table: the kernel, or another
    /// tunnel.
    pub(super) fn next_hop(&self, table: &Table, from: u64, destination: IpAddr) -> NextHop<u64> {
        match self.service {
            // Packets of its tunnels always leave for this machine.
            TunService::Client(_) => NextHop::Elsewhere,
            TunService::Proxy(_) => table.routes.next_hop(Some(from), destination),
        }
    }

    /// The tunnel of another client that has the destination of a packet, where clients may send to each other.
    pub(super) fn neighbour(&self, packet: &[u8]) -> Option<Arc<TunEnd>> {
        match &self.service {
            TunService::Proxy(proxy) if proxy.client_to_client => {
                self.table.read().end_of(&Packet::parse(packet).ok()?)
            }
            _ => None,
        }
    }

    /// The names, if an address is one of theirs.
    pub(super) fn names_at(&self, address: IpAddr) -> Option<&Arc<NamedHosts>> {
        self.names().filter(|names| names.covers(address))
    }

    /// Tells the sender of a packet that no tunnel has its destination.
    pub(super) fn say_unreachable(&self, packet: &Packet<'_>) {
        let routers = match &self.service {
            TunService::Client(client) => client.routers,
            TunService::Proxy(proxy) => proxy.routers,
        };
        let from = match packet.is_ipv4() {
            true => Some(IpAddr::V4(routers.v4.unwrap_or(DUMMY_ROUTER_V4))),
            false => routers.v6.map(IpAddr::V6),
        };

        let error = from.and_then(|from| IcmpError::NoRoute.about(packet, from));
        // Last, so that only errors that are sent use up the limit.
        let error = error.filter(|_| self.limiter.lock().allows(Instant::now()));
        if let Some(error) = error {
            self.device.answer(&error);
        }
    }
}

impl Table {
    /// The tunnel for a packet.
    pub(super) fn end_of(&self, packet: &Packet<'_>) -> Option<Arc<TunEnd>> {
        if let Some(split) = &self.split {
            return split.end_of(packet.destination()).cloned();
        }
        let owner = self.routes.owner(packet.destination())?;
        match self.groups.get(&owner) {
            Some(group) => group.end_for(packet.source()),
            None => self.ends.get(&owner).cloned(),
        }
    }
}
