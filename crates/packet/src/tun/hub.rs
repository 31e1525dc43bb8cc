//! A device, and the tunnels that it has.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hermes_ip::offload::OffloadHeader;
use hermes_ip::{NextHop, RouteConflict, RoutingTable};
use hermes_net::tun::{HEADER_BYTES, TunDevice, TunPort, TunSettings};
use hermes_proto::datagram::MAX_IP_PACKET;
use hermes_proto::ip::{DUMMY_ROUTER_V4, IcmpError, IcmpLimiter, IpPrefix, Packet};
use parking_lot::{Mutex, RwLock};
use tokio_util::sync::CancellationToken;

use super::end::TunEnd;
use super::service::TunService;

/// A device, what it is for, and where each destination is.
#[derive(Debug)]
pub struct TunHub {
    pub(super) service: TunService,
    pub(super) device: TunDevice,
    settings: TunSettings,
    port: Arc<TunPort>,
    table: RwLock<Table>,
    next: AtomicU64,
    /// How often it says that there is no tunnel.
    limiter: Mutex<IcmpLimiter>,
    closed: CancellationToken,
}

#[derive(Debug)]
struct Table {
    routes: RoutingTable<u64>,
    ends: HashMap<u64, Arc<TunEnd>>,
}

impl TunHub {
    /// Opens the device for this service. To be called within the runtime of the worker that [reads](Self::read) it.
    ///
    /// # Errors
    /// The device cannot be made, in words.
    pub fn open(settings: TunSettings, service: TunService) -> Result<Arc<Self>, String> {
        let (device, mut queues) = TunDevice::open(&settings).map_err(|error| error.to_string())?;
        let queue = queues.pop().ok_or("the device has no queue")?;
        let port = queue.register().map_err(|error| error.to_string())?;

        Ok(Arc::new(Self {
            service,
            device,
            settings,
            port: Arc::new(port),
            table: RwLock::new(Table {
                routes: RoutingTable::new(false),
                ends: HashMap::new(),
            }),
            next: AtomicU64::new(0),
            limiter: Mutex::default(),
            closed: CancellationToken::new(),
        }))
    }

    /// What the device was to be.
    pub fn settings(&self) -> &TunSettings {
        &self.settings
    }

    /// What it is for.
    pub fn service(&self) -> &TunService {
        &self.service
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// Whether the device is still there.
    pub fn is_there(&self) -> bool {
        self.device.is_there()
    }

    /// Ends its tunnels, and takes no more. The device goes with the last of them.
    pub fn close(&self) {
        self.closed.cancel();
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

    pub(super) fn port(&self) -> &Arc<TunPort> {
        &self.port
    }

    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn enter(&self, number: u64, end: Arc<TunEnd>) {
        self.table.write().ends.insert(number, end);
    }

    /// Leads these prefixes into a tunnel, and no others. Returns those that another one has.
    pub(super) fn lead(&self, number: u64, prefixes: &[IpPrefix]) -> Vec<RouteConflict<u64>> {
        self.table.write().routes.replace(number, prefixes)
    }

    pub(super) fn leave(&self, number: u64) {
        let mut table = self.table.write();
        table.routes.remove(number);
        table.ends.remove(&number);
    }

    /// Whether a packet that came out of a tunnel may go to the kernel: its destination is behind no tunnel.
    pub(super) fn is_elsewhere(&self, from: u64, destination: IpAddr) -> bool {
        match self.service {
            // The other end of its only tunnel is where packets come from.
            TunService::Client(_) => true,
            TunService::Proxy(_) => {
                let next = self.table.read().routes.next_hop(Some(from), destination);
                next == NextHop::Elsewhere
            }
        }
    }

    /// Reads the device, and gives each packet to the tunnel that has its destination. Ends when the device fails.
    ///
    /// # Errors
    /// The device is gone.
    pub async fn read(&self) -> io::Result<()> {
        let mut room = vec![0; HEADER_BYTES + MAX_IP_PACKET];
        let mut segment = Vec::new();
        loop {
            let length = poll_fn(|cx| self.port.poll_read(cx, &mut room)).await?;
            let Some((header, packet)) = room[..length].split_first_chunk_mut::<HEADER_BYTES>()
            else {
                continue;
            };
            let crowded = self.dispatch(header, packet, &mut segment);
            if let Some(end) = crowded {
                end.room().await;
            }
        }
    }

    /// The tunnel that has this destination.
    fn end_of(&self, destination: IpAddr) -> Option<Arc<TunEnd>> {
        let table = self.table.read();
        let owner = table.routes.owner(destination)?;
        table.ends.get(&owner).cloned()
    }

    /// Tells the sender of a packet that no tunnel has its destination.
    fn say_unreachable(&self, packet: &Packet<'_>) {
        let routers = match &self.service {
            TunService::Client(client) => client.routers,
            TunService::Proxy(proxy) => proxy.routers,
        };
        let from = match packet.is_ipv4() {
            true => Some(IpAddr::V4(routers.v4.unwrap_or(DUMMY_ROUTER_V4))),
            false => routers.v6.map(IpAddr::V6),
        };

        let error = from.and_then(|from| IcmpError::NoRoute.about(packet, from));
        let error = error.filter(|_| self.limiter.lock().allows(Instant::now()));
        if let Some(error) = error {
            // A device that is gone is noticed where it is read.
            let _ = self.port.write(&OffloadHeader::DONE.to_device(), &error);
        }
    }

    /// Gives a packet to its tunnel; returns that where the device had better wait for it.
    fn dispatch(
        &self,
        header: &[u8; HEADER_BYTES],
        packet: &mut [u8],
        segment: &mut Vec<u8>,
    ) -> Option<Arc<TunEnd>> {
        let header = OffloadHeader::from_device(header)?;
        let checked = header.check_device(packet).ok()?;
        let longest = checked.longest();
        let header = checked.header();
        let destination = checked.packet().destination();

        let Some(end) = self.end_of(destination) else {
            self.say_unreachable(checked.packet());
            return None;
        };
        let is_crowded = end.take(header, packet, longest, segment);
        // Many tunnels do not wait for one of them: what it does not take is lost, as on any link.
        let waits = matches!(self.service, TunService::Client(_));
        (is_crowded && waits).then_some(end)
    }
}
