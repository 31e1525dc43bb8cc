//! Ports of WireGuard: a socket for the peers of several devices, and the [machine](hermes_wireguard::Interface) that knows them.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;
use std::time::{Instant, SystemTime};

use hermes_net::listen::{self, Carries};
use hermes_net::{DescriptorEntry, DescriptorTable, Run, UdpError, UdpSocket};
use hermes_wireguard::{
    Interface, PeerId, PeerSettings, PeerView, PrivateKey, PublicKey, RefusedDatagrams, WallClock,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::port_others::PortOthers;
use super::sealed_run::SealedRun;

/// The ports of a node, by address, which lead to devices. Bounded by the document.
#[derive(Debug, Default)]
pub struct WireguardPorts {
    open: Mutex<HashMap<SocketAddr, Weak<WireguardPort>>>,
    /// The sockets that a service manager passed, by their address. Bounded by those that a process takes.
    passed: HashMap<SocketAddr, std::net::UdpSocket>,
    /// For each passed socket that another process still uses: the channel to hear when it stops. Bounded as `passed` is.
    awaited: Mutex<HashMap<SocketAddr, PortOthers>>,
    /// The table in which new ports are entered for a successor.
    descriptors: DescriptorTable,
}

/// A socket for a port.
#[derive(Debug)]
struct PortSocket {
    socket: std::net::UdpSocket,
    /// The other processes that have it, if there may be any.
    others: Option<PortOthers>,
    /// Of one that was opened here.
    entry: DescriptorEntry,
}

/// The device that a peer leads to.
pub(super) trait PeerDevice: Send + Sync {
    /// Takes a packet of the peer; `room` is for what it is cut into.
    fn take_packet(&self, packet: &mut [u8], room: &mut Vec<u8>);
}

/// The packets of a run of datagrams, in memory that is used again.
#[derive(Default)]
pub(super) struct OpenedPackets {
    /// At least as many as there are devices.
    packets: Vec<Vec<u8>>,
    /// The device of each packet.
    devices: Vec<Arc<dyn PeerDevice>>,
}

impl OpenedPackets {
    /// Gives each packet to its device.
    pub(super) fn deliver(&mut self, room: &mut Vec<u8>) {
        for (device, packet) in self.devices.drain(..).zip(&mut self.packets) {
            device.take_packet(packet, room);
        }
    }
}

/// A port, which closes with its last peer.
pub struct WireguardPort {
    address: SocketAddr,
    /// Until a worker reads it.
    unread: Mutex<Option<std::net::UdpSocket>>,
    /// That of the worker that reads it.
    socket: OnceLock<UdpSocket>,
    state: Mutex<PortState>,
    /// A timer is due where none was.
    due: Notify,
    /// The reading task watches no timer, as none is due.
    is_idle: AtomicBool,
    closed: CancellationToken,
    /// The other processes that have its socket, if there may be any.
    others: Mutex<Option<PortOthers>>,
    /// Its socket among what a successor may be given.
    _entry: DescriptorEntry,
}

struct PortState {
    interface: Interface,
    devices: HashMap<PeerId, LedDevice>,
}

/// The device of a peer.
struct LedDevice {
    device: Weak<dyn PeerDevice>,
    /// The address of this machine that the peer writes to.
    local: Option<IpAddr>,
}

impl WireguardPorts {
    /// Ports at the addresses of these sockets use them; the sockets of others are entered for a successor.
    pub fn new(
        passed: impl IntoIterator<Item = (SocketAddr, std::net::UdpSocket)>,
        descriptors: DescriptorTable,
    ) -> Self {
        Self {
            passed: passed.into_iter().collect(),
            descriptors,
            ..Self::default()
        }
    }

    /// Resolves when another process has given up its share of a socket at one of these addresses.
    pub async fn freed(&self, addresses: &[SocketAddr]) {
        poll_fn(|cx| {
            let mut awaited = self.awaited.lock();
            let mut is_freed = false;
            for address in addresses {
                if let Some(others) = awaited.get_mut(address) {
                    is_freed |= others.poll_freed(cx).is_ready();
                }
            }
            match is_freed {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// The port at an address, which is opened if there is none.
    ///
    /// # Errors
    /// Why it cannot be opened: it has another key, or another process uses it.
    pub(super) fn open(
        &self,
        address: SocketAddr,
        key: &PrivateKey,
    ) -> Result<Arc<WireguardPort>, String> {
        let mut open = self.open.lock();
        open.retain(|_, port| port.strong_count() > 0);
        let known = open.get(&address).and_then(Weak::upgrade);
        if let Some(port) = known.filter(|port| !port.closed.is_cancelled()) {
            return match port.state.lock().interface.has_key(key) {
                true => Ok(port.clone()),
                false => Err(format!("WireGuard has another key on {address} still")),
            };
        }

        let opened = match self.passed.get(&address) {
            Some(passed) => {
                let socket = passed
                    .try_clone()
                    .map_err(|error| failed(address, &error))?;
                PortSocket {
                    others: self.others(address, &socket)?,
                    socket,
                    entry: DescriptorEntry::default(),
                }
            }
            None => self.bind(address)?,
        };
        let port = Arc::new(WireguardPort::open(address, key.clone(), opened)?);
        open.insert(address, Arc::downgrade(&port));
        Ok(port)
    }

    /// A socket of this node's own.
    fn bind(&self, address: SocketAddr) -> Result<PortSocket, String> {
        // Ports are shared among sockets that ask for it, and not with other programs.
        let free = listen::check_free(address, Carries::Udp);
        let opened = free.and_then(|()| listen::udp(address)).and_then(|socket| {
            let name = format!("wireguard {address}");
            let entry = self.descriptors.enter(&name, &socket)?;
            Ok((socket, entry))
        });
        let (socket, entry) = opened.map_err(|error| failed(address, &error))?;
        let others = match self.descriptors.has_successor() {
            true => self.others(address, &socket)?,
            false => None,
        };
        Ok(PortSocket {
            socket,
            others,
            entry,
        })
    }

    /// The other processes with a share of a socket, once none of them uses it; `None` where there can be no others.
    fn others(
        &self,
        address: SocketAddr,
        socket: &std::net::UdpSocket,
    ) -> Result<Option<PortOthers>, String> {
        let mut awaited = self.awaited.lock();
        let others = match awaited.remove(&address) {
            Some(others) => others,
            None => match PortOthers::meet(socket) {
                Ok(others) => others,
                Err(error) => {
                    tracing::warn!(%address, %error, "a port of WireGuard cannot be handed over to another process");
                    return Ok(None);
                }
            },
        };
        let Some(process) = others.holder() else {
            return Ok(Some(others));
        };
        awaited.insert(address, others);
        Err(format!(
            "WireGuard on {address} is process {process}'s until that ends: this one takes it over then"
        ))
    }

    /// Claims a port without a reader for the worker that calls this.
    ///
    /// # Errors
    /// The runtime of the worker cannot take the descriptor.
    pub fn claim(&self) -> io::Result<Option<Arc<WireguardPort>>> {
        let ports: Vec<Arc<WireguardPort>> = self
            .open
            .lock()
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        for port in ports {
            let Some(socket) = port.unread.lock().take() else {
                continue;
            };
            let socket = UdpSocket::bound(socket)?;
            // As other implementations do: this end does not learn the MTU of the path to a peer.
            socket.allow_fragments()?;
            // It is set once: the worker that has taken the socket is alone with it.
            let _ = port.socket.set(socket);
            return Ok(Some(port));
        }
        Ok(None)
    }
}

impl fmt::Debug for WireguardPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireguardPort")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl WireguardPort {
    fn open(address: SocketAddr, key: PrivateKey, opened: PortSocket) -> Result<Self, String> {
        let clock = WallClock::of_system(Instant::now(), SystemTime::now());
        let interface = Interface::new(key, clock).map_err(|error| error.to_string())?;
        tracing::info!(%address, public_key = %interface.public_key(), "WireGuard");
        Ok(Self {
            address,
            unread: Mutex::new(Some(opened.socket)),
            socket: OnceLock::new(),
            state: Mutex::new(PortState {
                interface,
                devices: HashMap::new(),
            }),
            due: Notify::new(),
            is_idle: AtomicBool::new(true),
            closed: CancellationToken::new(),
            others: Mutex::new(opened.others),
            _entry: opened.entry,
        })
    }

    /// The address of the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The public key by which peers know the port.
    pub(super) fn public_key(&self) -> PublicKey {
        self.state.lock().interface.public_key()
    }

    /// Adds a peer, whose packets are lost until its device is [led](Self::lead) to.
    pub(super) fn add_peer(&self, settings: PeerSettings) -> Result<PeerId, String> {
        let mut state = self.state.lock();
        if self.closed.is_cancelled() {
            return Err(format!("WireGuard on {} is being closed", self.address));
        }
        let key = settings.public_key;
        let now = Instant::now();
        let added = state.interface.add_peer(settings, now);
        let peer = added.map_err(|error| error.to_string())?;
        let mut others = self.others.lock();
        let known = others.as_mut().and_then(|others| others.take_known(&key));
        if let Some(endpoint) = known {
            state.interface.take_over(peer, endpoint, now);
        }
        drop((others, state));
        self.wake();
        Ok(peer)
    }

    /// Delivers the packets of a peer to its device from now on.
    pub(super) fn lead(&self, peer: PeerId, device: Weak<dyn PeerDevice>) {
        let device = LedDevice {
            device,
            local: None,
        };
        self.state.lock().devices.insert(peer, device);
    }

    /// Forgets a peer. With the last one, the port is closed.
    pub(super) fn remove_peer(&self, peer: PeerId) {
        let mut state = self.state.lock();
        self.tell_others(&state);
        // After the last report to other processes, which has the endpoint of the peer: one of them may go on with it.
        state.devices.remove(&peer);
        state.interface.remove_peer(peer);
        if state.interface.peers() == 0 {
            self.closed.cancel();
        }
    }

    /// The status of a peer, and the datagrams that its port refused.
    pub(super) fn view(&self, peer: PeerId) -> Option<(PeerView, RefusedDatagrams)> {
        let state = self.state.lock();
        let view = state.interface.view(peer, Instant::now())?;
        Some((view, state.interface.refused()))
    }

    /// Seals packets for a peer under one lock, and sends them in as few runs as they fit into. `packets` gives each of them to its argument.
    pub(super) fn send_all(
        &self,
        peer: PeerId,
        run: &mut SealedRun,
        packets: impl FnOnce(&mut dyn FnMut(&[u8])),
    ) {
        let mut state = self.state.lock();
        let local = state.devices.get(&peer).and_then(|device| device.local);
        let now = Instant::now();
        packets(&mut |packet| {
            let begin = run.begin();
            let to = state.interface.send(peer, packet, &mut run.bytes, now);
            if let Some(to) = to {
                run.end(begin, (local, to), |run| self.flush(run));
            }
        });
        self.send_outgoing(&mut state, None);
        drop(state);

        if !run.is_empty() {
            self.flush(run);
            run.clear();
        }
        self.wake();
    }

    /// Sends a run.
    fn flush(&self, run: &SealedRun) {
        if let (Some(socket), Some((local, to))) = (self.socket.get(), run.to) {
            let sent = socket.try_send_from(local, to, &run.bytes, run.segment);
            note(sent, to);
        }
    }

    /// Makes the reading task watch the timers.
    fn wake(&self) {
        if self.is_idle.swap(false, Ordering::Relaxed) {
            self.due.notify_one();
        }
    }

    /// Sends the messages of the machine; answers leave from the address that was asked.
    fn send_outgoing(&self, state: &mut PortState, asked: Option<(IpAddr, SocketAddr)>) {
        // Messages wait until a worker reads the port.
        let Some(socket) = self.socket.get() else {
            return;
        };
        while let Some(outgoing) = state.interface.poll_outgoing() {
            let local = asked.filter(|(_, from)| *from == outgoing.to);
            let local = local.map(|(local, _)| local);
            let payload = &outgoing.payload;
            let sent = socket.try_send_from(local, outgoing.to, payload, payload.len());
            note(sent, outgoing.to);
        }
    }

    /// The socket, once a worker reads it.
    pub(super) fn socket(&self) -> Option<&UdpSocket> {
        self.socket.get()
    }

    /// Whether no timer is due, as far as is known.
    pub(super) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    /// Resolves when a timer is due where none was.
    pub(super) async fn woken(&self) {
        self.due.notified().await;
    }

    /// Resolves when the last peer is gone.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Tells other processes where the peers are.
    fn tell_others(&self, state: &PortState) {
        if let Some(others) = self.others.lock().as_mut() {
            others.tell(state.interface.endpoints());
        }
    }

    /// Resolves when another process got a share of the socket.
    pub(super) async fn joined(&self) {
        poll_fn(|cx| match self.others.lock().as_mut() {
            Some(others) => others.poll_newcomer(cx),
            None => Poll::Pending,
        })
        .await;
    }

    /// Leaves the port to another process.
    pub(super) fn give_up(&self) {
        *self.others.lock() = None;
    }

    /// Handles due timers, and notes whether others remain.
    pub(super) fn look(&self) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if state.interface.poll_timeout().is_some_and(|at| at <= now) {
            state.interface.handle_timeout(now);
        }
        self.send_outgoing(&mut state, None);
        self.tell_others(&state);
        let is_idle = state.interface.poll_timeout().is_none();
        // A sender had the lock before, and its timer counts here; or has it later, and wakes the task then.
        self.is_idle.store(is_idle, Ordering::Relaxed);
    }

    /// Takes the datagrams of a run under one lock: `opened` has their packets then.
    pub(super) fn take_all(&self, run: &Run<'_>, opened: &mut OpenedPackets) {
        let asked = run.local.map(|local| (local, run.source));
        let OpenedPackets { packets, devices } = opened;
        let now = Instant::now();
        let mut state = self.state.lock();
        for datagram in run.datagrams() {
            if packets.len() == devices.len() {
                packets.push(Vec::new());
            }
            let packet = &mut packets[devices.len()];
            let peer = state
                .interface
                .handle_datagram(run.source, datagram, packet, now);
            let led = peer.and_then(|peer| state.devices.get_mut(&peer));
            if let Some(led) = led {
                // A NAT or a strict peer drops answers from another address than the one it wrote to.
                led.local = asked.map(|(local, _)| local);
                devices.extend(led.device.upgrade());
            }
        }
        self.send_outgoing(&mut state, asked);
    }
}

fn failed(address: SocketAddr, error: &io::Error) -> String {
    format!("WireGuard on {address}: {error}")
}

/// A datagram that finds no room, or no way, is lost, as on any link.
fn note(sent: Result<(), UdpError>, to: SocketAddr) {
    if let Err(error) = sent {
        tracing::trace!(%to, %error, "a message of WireGuard was not sent");
    }
}
