//! The TUN devices where routes end: there from the start on, whether or not a tunnel leads there.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hermes_config::model::{self, Document, InterceptedEcho, PacketTermination, Terminate};
use hermes_net::Watch;
use hermes_net::os::forwarded_families;
use hermes_net::tun::{MAX_QUEUES, TunSettings};
use hermes_observe::MovedPath;
use hermes_packet::Bounds;
use hermes_packet::tun::{
    DeviceView, NamedHostsView, NodePools, StackDeviceSettings, TunHub, TunProxy, TunService,
    WireguardPorts,
};
use hermes_proto::ip::IpPrefix;
use hermes_rules::packets::prefix_of;
use hermes_stack::{EchoHandling, StackSettings};
use ipnet::IpNet;
use parking_lot::Mutex;
use serde::Serialize;

use crate::device_leases;
use crate::remote_device;
use crate::worker::Worker;

/// The MTU of devices for which none is configured: that of Ethernet, as servers behind them expect.
pub(crate) const MTU: u16 = 1500;

/// After which time a device that could not be had, or is gone, is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// How often to look whether a device is still there.
const LOOK: Duration = Duration::from_secs(1);

/// How often a device of a node that drains looks whether its tunnels have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(100);

/// What is kept of the datagrams of one flow, until it is known what its listener or route says.
#[doc(alias = "bound")]
pub(crate) const DATAGRAMS: Bounds = Bounds {
    bytes: 16 * 1024,
    age: Duration::from_secs(5),
};

/// The devices of routes, by name. Bounded by the document.
#[derive(Debug, Default)]
pub struct Devices {
    by_name: Mutex<HashMap<String, RouteDevice>>,
    /// Those of listeners, by the listener's name. Bounded by the document.
    of_listeners: Mutex<HashMap<Arc<str>, ListenerDevice>>,
    /// Those that listeners could not open, by the listener's name. Bounded by the document.
    missing: Mutex<BTreeMap<Arc<str>, MissingDevice>>,
    /// Whether a worker keeps them.
    is_kept: AtomicBool,
    /// How many workers read them.
    workers: AtomicUsize,
    /// Where those on other machines are led to.
    ports: WireguardPorts<TunHub>,
    /// The pools of all of them.
    pools: Arc<NodePools>,
    /// Counts those that were opened, to wait for the next.
    opened: tokio::sync::watch::Sender<u64>,
}

/// A device that a route names.
#[derive(Debug)]
struct RouteDevice {
    end: Terminate,
    /// The device, or why there is none.
    hub: Result<Arc<TunHub>, String>,
}

/// Where a route of the document in force ends packets.
struct WantedEnd<'a> {
    terminate: &'a Terminate,
    packets: PacketTermination<'a>,
}

/// The device of a listener, and the tunnel that it has.
#[derive(Debug)]
struct ListenerDevice {
    hub: Arc<TunHub>,
    /// Its tunnel.
    tunnel: DeviceTunnelState,
    /// Its tunnels by name, where it has several. Bounded by the document.
    split: BTreeMap<Arc<str>, DeviceTunnelState>,
}

/// Whether a tunnel of a listener's device is open.
#[derive(Debug, Clone, Default)]
struct DeviceTunnelState {
    /// When it was opened, if it is.
    opened: Option<SystemTime>,
    /// Why the one before that ended.
    ended: Option<String>,
    /// When it took another path last, and why.
    moved: Option<MovedPath>,
}

/// What is to be seen of a device.
#[derive(Debug, Serialize)]
pub(crate) struct SeenDevice {
    #[serde(flatten)]
    device: DeviceView,
    /// Its listener; none where routes end at it.
    listener: Option<Arc<str>>,
    /// When the tunnel of a listener's device was opened; none: it has none.
    since: Option<String>,
    /// Why it had none, or another one, before.
    ended: Option<String>,
    /// When that tunnel took another path last, and why.
    moved: Option<MovedPath>,
    /// Its tunnels, where it has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    split: Vec<SeenTunnel>,
    /// The names behind some of the addresses that are led to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<NamedHostsView>,
}

/// A device that could not be opened.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MissingDevice {
    /// Its name.
    pub(crate) device: String,
    /// Its listener; none where routes end at it.
    listener: Option<Arc<str>>,
    /// Why it is not there.
    pub(crate) reason: String,
}

/// What is to be seen of one of several tunnels.
#[derive(Debug, Serialize)]
struct SeenTunnel {
    /// Its name.
    tunnel: Arc<str>,
    /// What it takes.
    prefixes: Vec<String>,
    /// When it was opened; none: it is not open.
    since: Option<String>,
    /// Why it was not, or was another one, before.
    ended: Option<String>,
    /// When it took another path last, and why.
    moved: Option<MovedPath>,
}

impl DeviceTunnelState {
    fn since(&self) -> Option<String> {
        let opened = self.opened?;
        Some(humantime::format_rfc3339_seconds(opened).to_string())
    }
}

impl ListenerDevice {
    /// That of its tunnel, which is one of several if it has a name.
    fn state(&mut self, tunnel: Option<&str>) -> &mut DeviceTunnelState {
        match tunnel {
            Some(name) => self.split.entry(name.into()).or_default(),
            None => &mut self.tunnel,
        }
    }

    fn seen(&self, listener: &Arc<str>) -> SeenDevice {
        let split = self.hub.split().into_iter().map(|one| {
            let state = self.split.get(&one.tunnel).cloned().unwrap_or_default();
            SeenTunnel {
                tunnel: one.tunnel,
                prefixes: one.prefixes.iter().map(ToString::to_string).collect(),
                since: state.since(),
                ended: state.ended,
                moved: state.moved,
            }
        });
        SeenDevice {
            device: self.hub.view(),
            listener: Some(listener.clone()),
            since: self.tunnel.since(),
            ended: self.tunnel.ended.clone(),
            moved: self.tunnel.moved.clone(),
            split: split.collect(),
            names: self.hub.names().map(|names| names.view()),
        }
    }
}

impl Devices {
    /// So many workers read them.
    pub(crate) fn set_workers(&self, count: usize) {
        self.workers.store(count, Ordering::Relaxed);
    }

    /// How many workers read them.
    pub(crate) fn workers(&self) -> usize {
        self.workers.load(Ordering::Relaxed).max(1)
    }

    /// Changes whenever one was opened.
    pub(crate) fn opened(&self) -> tokio::sync::watch::Receiver<u64> {
        self.opened.subscribe()
    }

    /// Where those on other machines are led to.
    pub(crate) fn ports(&self) -> &WireguardPorts<TunHub> {
        &self.ports
    }

    /// The pools of all of them.
    pub(crate) fn pools(&self) -> &Arc<NodePools> {
        &self.pools
    }

    /// All that are open.
    pub(crate) fn hubs(&self) -> Vec<Arc<TunHub>> {
        let mut hubs: Vec<_> = self
            .of_listeners
            .lock()
            .values()
            .map(|device| device.hub.clone())
            .collect();
        let by_name = self.by_name.lock();
        hubs.extend(by_name.values().filter_map(|kept| kept.hub.clone().ok()));
        hubs
    }

    /// A listener has this device from now on.
    pub(crate) fn listens(&self, listener: &Arc<str>, hub: &Arc<TunHub>) {
        let device = ListenerDevice {
            hub: hub.clone(),
            tunnel: DeviceTunnelState::default(),
            split: BTreeMap::new(),
        };
        self.missing.lock().remove(listener);
        self.of_listeners.lock().insert(listener.clone(), device);
        self.opened.send_modify(|count| *count += 1);
    }

    /// The device of a listener has a tunnel, which is one of several if it has a name; or has it no more, and why.
    pub(crate) fn has_tunnel(&self, listener: &str, tunnel: Option<&str>, has: Result<(), String>) {
        let mut devices = self.of_listeners.lock();
        let Some(device) = devices.get_mut(listener) else {
            return;
        };
        let state = device.state(tunnel);
        state.opened = has.is_ok().then(SystemTime::now);
        state.ended = has.err().or(state.ended.take());
        state.moved = None;
    }

    /// The tunnel of a listener's device took another path. Other tunnels are of no device here.
    pub(crate) fn has_moved(&self, listener: &str, tunnel: Option<&str>, moved: Option<MovedPath>) {
        if let Some(device) = self.of_listeners.lock().get_mut(listener) {
            device.state(tunnel).moved = moved;
        }
    }

    /// One of several tunnels is not wanted any more.
    pub(crate) fn forget_tunnel(&self, listener: &str, tunnel: &str) {
        if let Some(device) = self.of_listeners.lock().get_mut(listener) {
            device.split.remove(tunnel);
        }
    }

    /// A listener has this device no more.
    pub(crate) fn leaves(&self, listener: &str, hub: &Arc<TunHub>) {
        let is_own = |_: &Arc<str>, device: &mut ListenerDevice| Arc::ptr_eq(&device.hub, hub);
        let mut devices = self.of_listeners.lock();
        devices.retain(|name, device| &**name != listener || !is_own(name, device));
    }

    /// What is to be seen of all of them.
    pub(crate) fn views(&self) -> Vec<SeenDevice> {
        let mut seen: Vec<SeenDevice> = self
            .of_listeners
            .lock()
            .iter()
            .map(|(listener, device)| device.seen(listener))
            .collect();
        let hubs: Vec<Arc<TunHub>> = self
            .by_name
            .lock()
            .values()
            .filter_map(|kept| kept.hub.clone().ok())
            .collect();
        seen.extend(hubs.iter().map(|hub| SeenDevice {
            device: hub.view(),
            listener: None,
            since: None,
            ended: None,
            moved: None,
            split: Vec::new(),
            names: None,
        }));
        seen.sort_by(|one, other| one.device.name.cmp(&other.device.name));
        seen
    }

    /// A listener has no device, and why.
    pub(crate) fn lacks(&self, listener: &Arc<str>, device: &str, reason: &str) {
        let missing = MissingDevice {
            device: device.to_owned(),
            listener: Some(listener.clone()),
            reason: reason.to_owned(),
        };
        self.missing.lock().insert(listener.clone(), missing);
    }

    /// A listener wants no device any more.
    pub(crate) fn wants_none(&self, listener: &Arc<str>) {
        self.missing.lock().remove(listener);
    }

    /// The devices of a document that could not be opened.
    pub(crate) fn missing(&self, document: &Document) -> Vec<MissingDevice> {
        let of_listeners = self.missing.lock();
        let wanted = of_listeners.iter().filter(|(name, _)| {
            let listener = document.listeners.get(&***name);
            listener.is_some_and(|listener| listener.tun.is_some())
        });
        let mut missing: Vec<_> = wanted.map(|(_, missing)| missing.clone()).collect();
        drop(of_listeners);
        let by_name = self.by_name.lock();
        let of_routes = by_name.iter().filter_map(|(name, kept)| {
            let reason = kept.hub.as_ref().err()?;
            Some(MissingDevice {
                device: name.clone(),
                listener: None,
                reason: reason.clone(),
            })
        });
        missing.extend(of_routes);
        missing.sort_by(|one, other| one.device.cmp(&other.device));
        missing
    }

    /// Names of the devices of a document that are neither open nor known to be missing: they are being opened.
    pub(crate) fn pending(&self, document: &Document) -> Vec<String> {
        let open = self.of_listeners.lock();
        let missing = self.missing.lock();
        let mut pending: Vec<String> = document
            .listeners
            .iter()
            .filter(|(name, listener)| {
                let name = name.as_str();
                listener.tun.is_some() && !open.contains_key(name) && !missing.contains_key(name)
            })
            .map(|(name, _)| name.clone())
            .collect();
        drop((open, missing));

        let by_name = self.by_name.lock();
        let of_routes = wanted(document);
        let names = of_routes.iter().map(|end| end.packets.name());
        pending.extend(
            names
                .filter(|name| !by_name.contains_key(&**name))
                .map(|name| name.into_owned()),
        );
        pending
    }

    /// What makes packets of what is opened here, of the listener of this name.
    ///
    /// # Errors
    /// Why there is nothing.
    pub(crate) fn of_listener(&self, name: &str) -> Result<Arc<TunHub>, String> {
        let devices = self.of_listeners.lock();
        let found = devices.get(name).map(|device| device.hub.clone());
        found.ok_or_else(|| format!("listener {name} has no stack yet"))
    }

    /// What ends the packets of a route.
    ///
    /// # Errors
    /// Why there is nothing.
    pub(crate) fn hub(&self, end: PacketTermination<'_>) -> Result<Arc<TunHub>, String> {
        let name = end.name();
        match self.by_name.lock().get(&*name) {
            Some(kept) => kept.hub.clone(),
            None => Err(format!("{}: it is not there yet", described(end))),
        }
    }

    /// Lets go of devices that are not wanted, or wanted otherwise. Their tunnels end.
    fn leave(&self, wanted: &[&Terminate]) {
        self.by_name.lock().retain(|_, kept| {
            let stays = wanted.contains(&&kept.end);
            if let (false, Ok(hub)) = (stays, &kept.hub) {
                hub.close();
            }
            stays
        });
    }

    /// Whether this device is still to be opened.
    fn is_missing(&self, name: &str) -> bool {
        let kept = self.by_name.lock();
        kept.get(name).is_none_or(|kept| kept.hub.is_err())
    }

    /// Enters a device; says whether that is news.
    fn enter(&self, end: &WantedEnd<'_>, hub: Result<Arc<TunHub>, String>) -> bool {
        let name = end.packets.name();
        let mut devices = self.by_name.lock();
        let before = devices.get(&*name).and_then(|kept| kept.hub.as_ref().err());
        let is_news = before.is_none() || before != hub.as_ref().err();
        let kept = RouteDevice {
            end: end.terminate.clone(),
            hub,
        };
        devices.insert(name.into_owned(), kept);
        drop(devices);
        self.opened.send_modify(|count| *count += 1);
        is_news
    }
}

/// Keeps the devices of the configuration in force until told to stop, on the first worker that runs this.
pub(crate) async fn keep(worker: Arc<Worker>, watch: Watch) {
    let shared = worker.shared.clone();
    if shared.devices.is_kept.swap(true, Ordering::Relaxed) {
        return;
    }

    let mut revision = shared.revision.subscribe();
    loop {
        let snapshot = worker.snapshot();
        let wanted = wanted(&snapshot.document);
        let terminates: Vec<&Terminate> = wanted.iter().map(|end| end.terminate).collect();
        shared.devices.leave(&terminates);
        let is_missing = |end: &WantedEnd<'_>| shared.devices.is_missing(&end.packets.name());
        for end in wanted.iter().filter(|end| is_missing(end)) {
            let leases = device_leases::read(end.packets).await;
            open(&worker, end, leases, &watch);
        }

        let is_short = wanted.iter().any(is_missing);
        tokio::select! {
            changed = revision.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(AGAIN), if is_short => {}
            // One that is gone is noticed by its tunnels, and here.
            () = gone(&worker, &wanted), if !is_short && !wanted.is_empty() => {}
            () = watch.graceful() => return,
        }
    }
}

/// Resolves when one of these devices is gone.
async fn gone(worker: &Worker, wanted: &[WantedEnd<'_>]) {
    let hubs = wanted
        .iter()
        .filter_map(|end| worker.shared.devices.hub(end.packets).ok());
    let hubs: Vec<Arc<TunHub>> = hubs.collect();
    while hubs.iter().all(|hub| !hub.is_closed()) {
        tokio::time::sleep(LOOK).await;
    }
    for end in wanted {
        let is_closed = worker
            .shared
            .devices
            .hub(end.packets)
            .is_ok_and(|hub| hub.is_closed());
        if is_closed {
            let reason = format!("{}: it is gone", described(end.packets));
            worker.shared.devices.enter(end, Err(reason));
        }
    }
}

/// Where routes end packets, each once.
fn wanted(document: &Document) -> Vec<WantedEnd<'_>> {
    let mut wanted: Vec<WantedEnd<'_>> = Vec::new();
    for terminate in document
        .routes
        .iter()
        .filter_map(|route| route.terminate.as_ref())
    {
        let is_known = wanted.iter().any(|end| end.terminate == terminate);
        if let (Some(packets), false) = (terminate.packets(), is_known) {
            wanted.push(WantedEnd { terminate, packets });
        }
    }
    wanted
}

/// What it is, for those who read why it is not there.
pub(crate) fn described(end: PacketTermination<'_>) -> String {
    match end {
        PacketTermination::Tun(end) => format!("TUN device {}", end.tun),
        PacketTermination::Intercept(_) => end.name().into_owned(),
    }
}

fn open(
    worker: &Arc<Worker>,
    end: &WantedEnd<'_>,
    leases: Result<Option<String>, String>,
    watch: &Watch,
) {
    let packets = end.packets;
    let hub = leases.and_then(|leases| make(packets, leases.as_deref(), &worker.shared.devices));
    let said = hub.as_ref().map(|_| ()).map_err(Clone::clone);
    if let Ok(hub) = &hub {
        if let Some(file) = packets.leases_file() {
            let file = file.0.clone();
            let hub = hub.clone();
            watch.spawn(async move { device_leases::keep(&hub, file).await });
        }
        let hub = hub.clone();
        let own = watch.clone();
        watch.spawn(async move { mind(&hub, &own).await });
    }

    let is_news = worker.shared.devices.enter(end, hub);
    match said {
        Ok(()) => {
            tracing::info!(device = %packets.name(), "takes packets of tunnels");
            if let PacketTermination::Tun(end) = packets {
                warn_of_no_forwarding(end);
            }
        }
        Err(reason) if is_news => tracing::error!("{reason}"),
        Err(_) => {}
    }
}

/// What is translated to the addresses of this machine does not leave a machine that forwards nothing.
fn warn_of_no_forwarding(end: &model::TerminateTun) {
    let forwarded = forwarded_families();
    let is_needed = |is_ipv4| end.nat && end.pool.iter().any(|one| one.addr().is_ipv4() == is_ipv4);
    if is_needed(true) && !forwarded.v4 {
        tracing::warn!(
            device = end.tun,
            "`nat`, but this machine does not forward IPv4: sysctl -w net.ipv4.ip_forward=1"
        );
    }
    if is_needed(false) && !forwarded.v6 {
        tracing::warn!(
            device = end.tun,
            "`nat`, but this machine does not forward IPv6: sysctl -w net.ipv6.conf.all.forwarding=1"
        );
    }
}

/// Closes a device when it is gone or left; on a node that drains, when its tunnels, and connections to its names, have ended.
pub(crate) async fn mind(hub: &TunHub, watch: &Watch) {
    tokio::select! {
        () = deleted(hub) => tracing::error!(device = hub.name(), "the device was deleted"),
        () = hub.closed() => {}
        never = hub.keep_time() => match never {},
        () = watch.forced() => {}
        () = async {
            watch.graceful().await;
            while hub.is_in_use() {
                tokio::time::sleep(DRAIN_LOOK).await;
            }
        } => {}
    }
    hub.close();
}

/// Resolves when someone has deleted the device.
async fn deleted(hub: &TunHub) {
    while hub.is_there() {
        tokio::time::sleep(LOOK).await;
    }
}

fn echo_handling(echo: InterceptedEcho) -> EchoHandling {
    match echo {
        InterceptedEcho::Answer => EchoHandling::Answer,
        InterceptedEcho::Forward => EchoHandling::Ask,
        InterceptedEcho::Refuse => EchoHandling::HandOn,
    }
}

/// What every kind of device has.
fn general_settings(end: PacketTermination<'_>) -> TunSettings {
    let mtu = end.mtu();
    TunSettings {
        name: end.name().into_owned(),
        queues: 1,
        mtu: mtu
            .unwrap_or_else(|| remote_device::default_mtu(end, MTU))
            .into(),
        addresses: Vec::new(),
        routes: Vec::new(),
        past: None,
        masquerade: false,
    }
}

fn make(
    end: PacketTermination<'_>,
    leases: Option<&str>,
    devices: &Devices,
) -> Result<Arc<TunHub>, String> {
    let pool: Vec<IpPrefix> = end.pool().iter().filter_map(prefix_of).collect();
    let routes: Vec<IpPrefix> = end.routes().iter().filter_map(prefix_of).collect();
    let service = TunProxy::new(&pool, &routes).map_err(|error| error.to_string())?;
    let service = match end {
        PacketTermination::Tun(end) => service
            .client_to_client(end.client_to_client)
            .super_packets(end.super_packets),
        PacketTermination::Intercept(_) => service,
    };
    let service = service.among(&devices.pools);
    if let (Some(file), Some(text)) = (end.leases_file(), leases) {
        device_leases::restore(&service, &file.0, text)?;
    }

    let settings = general_settings(end);
    let service = TunService::Proxy(Box::new(service));
    if let Some(wireguard) = end.wireguard() {
        let remote = remote_device::settings(wireguard, &[], settings.mtu)?;
        return TunHub::on_another_machine(settings, service, (&devices.ports, remote));
    }
    match end {
        PacketTermination::Tun(end) => {
            let own = |prefix: &IpPrefix| {
                let address = TunProxy::device_address(*prefix);
                IpNet::new(address, prefix.length()).ok()
            };
            let settings = TunSettings {
                addresses: pool.iter().filter_map(own).collect(),
                masquerade: end.nat,
                queues: end.queues.map_or(MAX_QUEUES, usize::from),
                ..settings
            };
            TunHub::open(settings, service, devices.workers())
        }
        PacketTermination::Intercept(end) => {
            let stack = StackSettings {
                mtu: settings.mtu as usize,
                echo: echo_handling(end.echo.unwrap_or(InterceptedEcho::Answer)),
                ..StackSettings::default()
            };
            let stack = StackDeviceSettings {
                stack,
                datagrams: DATAGRAMS,
            };
            Ok(TunHub::in_user_space(settings, service, stack))
        }
    }
}
