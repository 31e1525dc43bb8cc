//! One tunnel of a device.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hermes_ip::offload::{Coalescer, OffloadHeader, segment};
use hermes_ip::{
    Accepts, InnerMtu, IpRole, IpSession, Lease, PacketFilter, PacketScope, PoolError, Rejection,
    SessionEvent, SessionSettings, Verdict,
};
use hermes_net::tun::TunPort;
use hermes_proto::batch::{Batch, Layout};
use hermes_proto::capsule::CapsuleType;
use hermes_proto::connect_ip::RequestedAddress;
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::ip::{IcmpLimiter, IpPrefix, Packet};
use hermes_rules::packets::OpenedBy;
use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::gate::PacketGate;
use super::hub::TunHub;
use super::inbox::{Inbox, LAYOUT};
use super::service::TunService;
use crate::device::{Device, SentPackets};

/// A tunnel of a device. When this is dropped, the device has it no more.
#[derive(Debug)]
pub struct TunTunnel {
    hub: Arc<TunHub>,
    pub(super) end: Arc<TunEnd>,
}

/// What both tasks of a tunnel, and the one that reads the device, share.
pub(super) struct TunEnd {
    number: u64,
    port: Arc<TunPort>,
    session: Mutex<IpSession>,
    /// What the pool gave, where there is one.
    lease: Mutex<Option<Lease>>,
    inbox: Inbox,
    /// The session has capsules to send.
    changed: Notify,
    writer: Mutex<Writer>,
    /// Who the hosts behind the device are, for rules.
    device_side: OpenedBy,
    /// The policy on its packets, where there is one.
    gate: Mutex<Option<Box<PacketGate>>>,
    /// How often errors are written to the device.
    limiter: Mutex<IcmpLimiter>,
}

/// Packets of a batch that did not go into the device.
#[derive(Debug, Default)]
struct Unsent {
    /// A rule forbids them.
    forbidden: usize,
    /// They do not belong into the tunnel, or the device did not take them.
    failed: usize,
}

impl Unsent {
    fn count(&mut self, reason: Rejection) {
        match reason {
            Rejection::Policy => self.forbidden += 1,
            _ => self.failed += 1,
        }
    }
}

/// What writing into the device needs.
#[derive(Default)]
struct Writer {
    coalescer: Coalescer,
    limiter: IcmpLimiter,
}

impl fmt::Debug for TunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunEnd")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl TunTunnel {
    /// A tunnel of this device for `identity`, for packets within this scope.
    ///
    /// # Errors
    /// The pool has no address for it.
    pub fn open(hub: &Arc<TunHub>, identity: &str, scope: PacketScope) -> Result<Self, PoolError> {
        let device_side = match &hub.service {
            TunService::Client(_) => OpenedBy::Client,
            TunService::Proxy(_) => OpenedBy::Target,
        };
        let (settings, lease) = match &hub.service {
            TunService::Client(client) => {
                let accepts_addresses = match client.addresses.as_slice() {
                    [] => Accepts::All,
                    own => Accepts::within(own.iter().copied()),
                };
                let settings = SessionSettings {
                    role: IpRole::Client,
                    scope,
                    routers: client.routers,
                    mtu: InnerMtu::STREAM,
                    accepts_addresses,
                    accepts_routes: Accepts::All,
                };
                (settings, None)
            }
            TunService::Proxy(proxy) => {
                let lease = proxy.acquire(identity)?;
                let settings = SessionSettings {
                    role: IpRole::Proxy,
                    scope,
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
            port: hub.port().clone(),
            session: Mutex::new(IpSession::new(settings)),
            lease: Mutex::new(lease),
            inbox: Inbox::new(),
            changed: Notify::new(),
            writer: Mutex::default(),
            device_side,
            gate: Mutex::default(),
            limiter: Mutex::default(),
        });
        hub.enter(end.number, end.clone());
        let tunnel = Self {
            hub: hub.clone(),
            end,
        };
        tunnel.begin();
        Ok(tunnel)
    }

    /// Says what this end has to say first.
    fn begin(&self) {
        match &self.hub.service {
            TunService::Client(client) => {
                if !client.addresses.is_empty() {
                    self.end.session.lock().request(&client.addresses);
                }
                // What may enter it, the session's filter says.
                self.hub
                    .lead(self.end.number, &[IpPrefix::ALL_V4, IpPrefix::ALL_V6]);
            }
            TunService::Proxy(proxy) => {
                self.assign(&[]);
                self.end.session.lock().advertise(proxy.routes.clone());
            }
        }
        self.end.changed.notify_one();
    }

    /// Tells the client what its lease is, as the answer to its requests, and leads that here.
    fn assign(&self, requests: &[RequestedAddress]) {
        let Some(lease) = self.end.lease.lock().clone() else {
            return;
        };
        let own: Vec<IpPrefix> = [lease.v4, lease.v6].into_iter().flatten().collect();
        for conflict in self.hub.lead(self.end.number, &own) {
            tracing::warn!(device = self.hub.device.name(), %conflict, "an address is not led to its tunnel");
        }

        let narrow = self.end.session.lock().assign(lease.answer(requests));
        if let Err(error) = narrow {
            tracing::warn!(device = self.hub.device.name(), %error, "the tunnel gets no IPv6");
        }
        self.end.changed.notify_one();
    }

    /// The policy on its packets from now on; `None`: there is none.
    pub fn set_gate(&self, gate: Option<PacketGate>) {
        *self.end.gate.lock() = gate.map(Box::new);
    }

    /// Resolves when the device ends its tunnels.
    pub(super) async fn closed(&self) {
        self.hub.closed().await;
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
    fn handle_capsule(&self, kind: CapsuleType, value: &[u8]) -> Result<(), String> {
        let handled = self
            .end
            .session
            .lock()
            .handle_capsule(kind, value, Instant::now());
        let Some(event) = handled.map_err(|error| error.to_string())? else {
            return Ok(());
        };

        match (event, &self.hub.service) {
            (SessionEvent::Requested(requests), TunService::Proxy(proxy)) => {
                let wishes: Vec<IpPrefix> = requests
                    .iter()
                    .map(|request| request.prefix)
                    .filter(|prefix| !prefix.address().is_unspecified())
                    .collect();
                let mut lease = self.end.lease.lock();
                if let Some(before) = lease.take() {
                    *lease = Some(proxy.prefer(&before, &wishes));
                }
                drop(lease);
                self.assign(&requests);
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
                for (prefix, reason) in ignored {
                    tracing::debug!(device = self.hub.device.name(), %prefix, %reason, "an assigned address is not used");
                }
                for request in refused {
                    let prefix = request.prefix;
                    tracing::warn!(device = self.hub.device.name(), %prefix, "the proxy refused an address that was asked for");
                }
                if client.addresses.is_empty() {
                    self.adopt(&taken);
                }
            }
            (SessionEvent::Assigned { .. } | SessionEvent::Routed { .. }, _) => {}
        }
        Ok(())
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
        // The kernel takes routes away with the address that they were for.
        for route in &self.hub.settings().routes {
            if let Err(error) = self.hub.device.add_route(*route) {
                tracing::error!(%error, "the device does not get its routes");
            }
        }
    }

    /// What the tunnel carries from now on, in bytes.
    pub(super) fn set_mtu(&self, bytes: usize) {
        let Ok(mtu) = InnerMtu::new(bytes) else {
            return;
        };
        let mut session = self.end.session.lock();
        if session.mtu() == mtu {
            return;
        }
        match session.set_mtu(mtu) {
            Ok(()) => {
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

impl Drop for TunTunnel {
    fn drop(&mut self) {
        self.hub.leave(self.end.number);
        self.end.inbox.close();
        if let (TunService::Proxy(proxy), Some(lease)) =
            (&self.hub.service, self.end.lease.lock().take())
        {
            proxy.release(&lease);
        }
    }
}

impl TunEnd {
    fn filter(&self) -> Arc<PacketFilter> {
        self.session.lock().filter().clone()
    }

    /// Takes a packet that the device gave; says whether there should be a pause.
    pub(super) fn take(
        &self,
        header: OffloadHeader,
        packet: &mut [u8],
        longest: usize,
        room: &mut Vec<u8>,
    ) -> bool {
        let filter = self.filter();
        let now = Instant::now();
        let verdict = filter.check_to_peer(packet, longest, &mut self.limiter.lock(), now);
        let verdict = match verdict {
            Verdict::Pass if !self.passes(packet, self.device_side) => {
                filter.prohibit(packet, &mut self.limiter.lock(), now)
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
                // For the one who sent it.
                let _ = self.port.write(&OffloadHeader::DONE.to_device(), &answer);
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
        match header.check(packet) {
            Ok(checked) => self
                .inbox
                .fill(|push| segment(&checked, room, |segment| push(segment))),
            Err(_) => false,
        }
    }

    pub(super) async fn room(&self) {
        self.inbox.room().await;
    }

    /// Whether the policy lets a packet pass that this side sent.
    fn passes(&self, packet: &[u8], sender: OpenedBy) -> bool {
        let mut gate = self.gate.lock();
        gate.as_mut().is_none_or(|gate| gate.passes(packet, sender))
    }
}

impl TunTunnel {
    /// Writes a batch into the device; says how many packets did not pass.
    fn write(&self, batch: &Batch) -> io::Result<Unsent> {
        let end = &*self.end;
        let filter = end.filter();
        let now = Instant::now();
        let mut writer = end.writer.lock();
        let Writer { coalescer, limiter } = &mut *writer;

        let mut failed = 0;
        let mut gone = None;
        let mut output = |header: OffloadHeader, packet: &[u8]| match end
            .port
            .write(&header.to_device(), packet)
        {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => failed += 1,
            Err(error) => gone = Some(error),
        };

        let mut unsent = Unsent::default();
        for packet in batch.iter() {
            let verdict = match filter.check_from_peer(packet, limiter, now) {
                Verdict::Pass => self.check_next_hop(packet),
                verdict => verdict,
            };
            let verdict = match verdict {
                Verdict::Pass if !end.passes(packet, end.device_side.other()) => {
                    filter.prohibit(packet, limiter, now)
                }
                verdict => verdict,
            };
            match verdict {
                Verdict::Pass => coalescer.push(packet, false, &mut output),
                Verdict::Answer(answer) => end.inbox.push(&answer),
                Verdict::Reject { reason, error } => {
                    unsent.count(reason);
                    tracing::trace!(reason = reason.name(), "a packet of a tunnel does not pass");
                    if let Some(error) = error {
                        end.inbox.push(&error);
                    }
                }
            }
        }
        coalescer.flush(&mut output);

        match gone {
            Some(error) => Err(error),
            None => {
                unsent.failed += failed;
                Ok(unsent)
            }
        }
    }

    /// No tunnel leads into another, and none back into itself.
    fn check_next_hop(&self, packet: &[u8]) -> Verdict {
        let is_elsewhere = Packet::parse(packet)
            .is_ok_and(|parsed| self.hub.is_elsewhere(self.end.number, parsed.destination()));
        match is_elsewhere {
            true => Verdict::Pass,
            false => Verdict::Reject {
                reason: Rejection::ClientToClient,
                error: None,
            },
        }
    }
}

impl Device for TunTunnel {
    fn format(&self) -> DatagramFormat {
        DatagramFormat::IP
    }

    fn layout(&self) -> Layout {
        LAYOUT
    }

    fn poll_fill(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<io::Result<()>> {
        ready!(self.end.inbox.poll_take(cx, batch));
        Poll::Ready(Ok(()))
    }

    fn poll_send(
        &self,
        _: &mut Context<'_>,
        batch: &Batch,
        sent: &mut SentPackets,
    ) -> Poll<io::Result<()>> {
        let unsent = self.write(batch)?;
        sent.failed += unsent.failed;
        sent.forbidden += unsent.forbidden;
        sent.taken = batch.len();
        Poll::Ready(Ok(()))
    }

    fn take_lost(&self) -> u64 {
        self.end.inbox.take_lost()
    }

    fn handle_capsule(&self, kind: CapsuleType, value: &[u8]) -> Result<(), String> {
        self.handle_capsule(kind, value)
    }
}
