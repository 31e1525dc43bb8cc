//! The TUN devices of this node, those of listeners and those where routes end, and their views for administration.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use crate::captures::Captures;
use hermes_config::model::{Document, PacketTermination, Terminate};
use hermes_net::tun::PassedDevices;
use hermes_observe::MovedPath;
use hermes_packet::tun::{DeviceView, NamedHostsView, NodePools, TunHub, WireguardPorts};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

/// The devices of routes, by name. Bounded by the document.
#[derive(Debug, Default)]
pub struct Devices {
    by_name: Mutex<HashMap<String, RouteDevice>>,
    /// Those of listeners, by the listener's name. Bounded by the document.
    of_listeners: Mutex<HashMap<Arc<str>, ListenerDevice>>,
    /// Those that listeners could not open, by the listener's name. Bounded by the document.
    missing: Mutex<BTreeMap<Arc<str>, MissingDevice>>,
    /// How many workers read them.
    workers: usize,
    /// Those that the process before this one gave.
    passed: PassedDevices,
    /// Where those on other machines are led to.
    ports: WireguardPorts,
    /// The pools of all of them.
    pools: Arc<NodePools>,
    /// Counts those that were opened, to wait for the next.
    opened: tokio::sync::watch::Sender<u64>,
    /// One where routes end is gone.
    gone: Notify,
    /// Captured networks, whose devices are not of this network.
    captures: Captures,
}

/// A device that a route names.
#[derive(Debug)]
struct RouteDevice {
    end: Terminate,
    /// The device, or why there is none.
    hub: Result<Arc<TunHub>, String>,
}

/// Where a route of the document in force ends packets.
pub struct WantedEnd<'a> {
    /// As the document has it.
    pub terminate: &'a Terminate,
    /// The same, read as an end of packets.
    pub packets: PacketTermination<'a>,
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

/// The view of a device.
#[derive(Debug, Serialize)]
pub struct SeenDevice {
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
pub struct MissingDevice {
    /// Its name.
    pub device: String,
    /// Its listener; none where routes end at it.
    listener: Option<Arc<str>>,
    /// Why it is not there.
    pub reason: String,
}

/// The view of one of several tunnels.
#[derive(Debug, Serialize)]
struct SeenTunnel {
    /// Its name.
    tunnel: Arc<str>,
    /// The destinations that it takes.
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
    /// The captured networks.
    pub fn captures(&self) -> &Captures {
        &self.captures
    }

    /// Of a node with so many workers, those that were passed to it, and ports of WireGuard.
    pub fn new(workers: usize, passed: PassedDevices, ports: WireguardPorts) -> Self {
        Self {
            workers: workers.max(1),
            passed,
            ports,
            ..Self::default()
        }
    }

    /// How many workers read them.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Those that the process before this one gave, until they are opened.
    pub fn passed(&self) -> &PassedDevices {
        &self.passed
    }

    /// Resolves when an earlier process has let go of one of these ports of WireGuard, or of a device of one of these names.
    pub async fn freed(&self, ports: &[SocketAddr], names: &[&str]) {
        tokio::select! {
            () = self.ports.freed(ports) => {}
            () = self.passed.freed(names) => {}
        }
    }

    /// Changes whenever one was opened.
    pub fn opened(&self) -> tokio::sync::watch::Receiver<u64> {
        self.opened.subscribe()
    }

    /// Where those on other machines are led to.
    pub fn ports(&self) -> &WireguardPorts {
        &self.ports
    }

    /// The pools of all of them.
    pub fn pools(&self) -> &Arc<NodePools> {
        &self.pools
    }

    /// All that are open.
    pub fn hubs(&self) -> Vec<Arc<TunHub>> {
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
    pub fn listens(&self, listener: &Arc<str>, hub: &Arc<TunHub>) {
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
    pub fn has_tunnel(&self, listener: &str, tunnel: Option<&str>, has: Result<(), String>) {
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
    pub fn has_moved(&self, listener: &str, tunnel: Option<&str>, moved: Option<MovedPath>) {
        if let Some(device) = self.of_listeners.lock().get_mut(listener) {
            device.state(tunnel).moved = moved;
        }
    }

    /// One of several tunnels is not wanted any more.
    pub fn forget_tunnel(&self, listener: &str, tunnel: &str) {
        if let Some(device) = self.of_listeners.lock().get_mut(listener) {
            device.split.remove(tunnel);
        }
    }

    /// A listener has this device no more.
    pub fn leaves(&self, listener: &str, hub: &Arc<TunHub>) {
        let is_own = |_: &Arc<str>, device: &mut ListenerDevice| Arc::ptr_eq(&device.hub, hub);
        let mut devices = self.of_listeners.lock();
        devices.retain(|name, device| &**name != listener || !is_own(name, device));
    }

    /// The views of all devices.
    pub fn views(&self) -> Vec<SeenDevice> {
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
    pub fn lacks(&self, listener: &Arc<str>, device: &str, reason: &str) {
        let missing = MissingDevice {
            device: device.to_owned(),
            listener: Some(listener.clone()),
            reason: reason.to_owned(),
        };
        self.missing.lock().insert(listener.clone(), missing);
    }

    /// A listener wants no device any more.
    pub fn wants_none(&self, listener: &Arc<str>) {
        self.missing.lock().remove(listener);
    }

    /// The devices of a document that could not be opened.
    pub fn missing(&self, document: &Document) -> Vec<MissingDevice> {
        let of_listeners = self.missing.lock();
        let wanted = of_listeners.iter().filter(|(name, _)| {
            let listener = document.listeners.get(&***name);
            listener.is_some_and(|listener| listener.tun().is_some())
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
    pub fn pending(&self, document: &Document) -> Vec<String> {
        let open = self.of_listeners.lock();
        let missing = self.missing.lock();
        let mut pending: Vec<String> = document
            .listeners
            .iter()
            .filter(|(name, listener)| {
                let name = name.as_str();
                listener.tun().is_some() && !open.contains_key(name) && !missing.contains_key(name)
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

    /// The stack of this listener, which makes packets of the flows that are opened here.
    ///
    /// # Errors
    /// Why there is nothing.
    pub fn of_listener(&self, name: &str) -> Result<Arc<TunHub>, String> {
        let devices = self.of_listeners.lock();
        let found = devices.get(name).map(|device| device.hub.clone());
        found.ok_or_else(|| format!("listener {name} has no stack yet"))
    }

    /// The device that ends the packets of a route.
    ///
    /// # Errors
    /// Why there is nothing.
    pub fn hub(&self, end: PacketTermination<'_>) -> Result<Arc<TunHub>, String> {
        let name = end.name();
        match self.by_name.lock().get(&*name) {
            Some(kept) => kept.hub.clone(),
            None => Err(format!("{}: it is not there yet", described(end))),
        }
    }

    /// Lets go of devices that are not wanted, or wanted otherwise. Their tunnels end.
    pub fn leave(&self, wanted: &[&Terminate]) {
        self.by_name.lock().retain(|_, kept| {
            let stays = wanted.contains(&&kept.end);
            if let (false, Ok(hub)) = (stays, &kept.hub) {
                hub.close();
            }
            stays
        });
    }

    /// Whether this device is still to be opened.
    pub fn is_missing(&self, name: &str) -> bool {
        let kept = self.by_name.lock();
        kept.get(name).is_none_or(|kept| kept.hub.is_err())
    }

    /// A device where routes end is closed: it is not there any more.
    pub fn closes(&self, hub: &Arc<TunHub>) {
        let mut devices = self.by_name.lock();
        let is_it = |kept: &RouteDevice| kept.hub.as_ref().is_ok_and(|own| Arc::ptr_eq(own, hub));
        for kept in devices.values_mut().filter(|kept| is_it(kept)) {
            let described = kept.end.packets().map(described).unwrap_or_default();
            kept.hub = Err(format!("{described}: it is gone"));
        }
        drop(devices);
        self.gone.notify_one();
    }

    /// Resolves when one where routes end is gone.
    pub async fn gone(&self) {
        self.gone.notified().await;
    }

    /// Enters a device; says whether that is news.
    pub fn enter(&self, end: &WantedEnd<'_>, hub: Result<Arc<TunHub>, String>) -> bool {
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

/// Where routes end packets, each once.
pub fn wanted(document: &Document) -> Vec<WantedEnd<'_>> {
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

/// Names the device in messages about its absence.
pub fn described(end: PacketTermination<'_>) -> String {
    match end {
        PacketTermination::Tun(end) => format!("TUN device {}", end.tun),
        PacketTermination::Intercept(_) => end.name().into_owned(),
    }
}
