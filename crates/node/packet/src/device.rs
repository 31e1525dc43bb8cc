//! Ends of packets that other crates bring: a TUN device, a user-space stack, a queue in this process.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hermes_http::RefusalReason;
use hermes_net::turns::Turn;
use hermes_observe::{DropReason, Exchange};
use hermes_proto::batch::{Batch, Layout};
use hermes_proto::capsule::CapsuleType;
use hermes_proto::datagram::DatagramFormat;
use tokio::time::Instant;

use super::Bounds;

/// An end of packets that is neither UDP nor HTTP. It is asked once for a batch, never for a packet.
///
/// One task at a time fills. Several may send, as an old path may still lead there, and each of
/// them must be woken.
pub trait Device: Send + Sync {
    /// How its packets are written as HTTP datagrams, and the largest one that it takes.
    fn format(&self) -> DatagramFormat;

    /// The layout of the batches that it fills: headroom, and whether super-packets.
    fn layout(&self) -> Layout;

    /// Polls for packets, and adds those that are ready to the empty `batch`; at least one, unless there are `capsules`. If the
    /// other end takes no super-packets, the layout of the batch has none, and the device cuts them
    /// itself.
    ///
    /// # Errors
    /// The device is gone; so is the tunnel then.
    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        batch: &mut Batch,
        capsules: &mut DeviceCapsules,
    ) -> Poll<io::Result<()>>;

    /// Its packets take another path from now on, with or without QUIC datagrams.
    fn lead(&self, _has_datagrams: bool) {}

    /// Handles timers while a tunnel of its packets is open, and returns why it ends the tunnel.
    /// `carries` tells the length of the longest packets that the path carries now. Default:
    /// nothing.
    fn upkeep<'a>(&'a self, carries: PathCarries<'a>) -> Option<DeviceUpkeep<'a>> {
        drop(carries);
        None
    }

    /// Polls to send the packets of `batch` behind those that are `sent`, until all are sent or dropped, and says so there.
    ///
    /// # Errors
    /// The device is gone, and so is the tunnel. A packet that cannot be sent is not an error: it
    /// is dropped and counted.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        batch: &Batch,
        sent: &mut SentPackets,
    ) -> Poll<io::Result<()>>;

    /// Takes a capsule that came between the packets; of those with packets, only super-packets.
    ///
    /// # Errors
    /// The stream must be aborted; why.
    fn handle_capsule(&self, _kind: CapsuleType, _value: &[u8]) -> Result<CapsulePackets, String> {
        Ok(CapsulePackets::default())
    }

    /// The tunnel that it asked for is about to be open: it is filled and sent to from now on.
    fn accepted(&self) {}

    /// The tunnel that it asked for is refused.
    fn refused(&self, _reason: RefusalReason) {}

    /// The tunnel that it asked for has ended, for this reason.
    fn ended(&self, _reason: &str) {}

    /// Waits for the turn of the packets' user, where each packet is expensive; `None`: there are
    /// no turns. A turn lasts for one batch.
    fn turn(&self) -> Option<WaitingTurn<'_>> {
        None
    }

    /// How many packets it had to drop since it was last asked, because they were not taken in time.
    fn take_lost(&self) -> u64 {
        0
    }
}

/// A turn for which is waited; `None` where too many wait for theirs.
pub type WaitingTurn<'a> = Pin<Box<dyn Future<Output = Option<Turn>> + Send + 'a>>;

/// The length of the longest packets that a path carries, at the time when it is asked.
pub type PathCarries<'a> = Box<dyn Fn() -> usize + Send + 'a>;

/// A device's work while its tunnel is open. It resolves with the reason for which the device ends
/// the tunnel.
pub type DeviceUpkeep<'a> = Pin<Box<dyn Future<Output = &'static str> + Send + 'a>>;

/// Capsules that a device has for the other end of its tunnel, and the packets in them.
#[derive(Debug, Default)]
pub struct DeviceCapsules {
    /// Whole capsules.
    pub bytes: BytesMut,
    /// How many packets they are to be cut into.
    pub packets: u64,
    /// Bytes of the packets, as they are.
    pub size: u64,
}

impl DeviceCapsules {
    /// Takes the capsules out.
    pub(crate) fn take_bytes(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }
}

/// The fates of the packets of a batch.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SentPackets {
    /// With how many it is done; those that were dropped are among them.
    pub taken: usize,
    /// Dropped because the device does not take packets as large.
    pub too_large: usize,
    /// Bytes of the largest of these.
    pub largest: usize,
    /// Dropped because the device had no room.
    pub full: usize,
    /// Dropped because a rule forbids them.
    pub forbidden: usize,
    /// Dropped for another reason.
    pub failed: usize,
}

/// The packets that a capsule carried.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CapsulePackets {
    /// How many went on.
    pub moved: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Why others did not, and how many.
    pub dropped: Option<(DropReason, u64)>,
}

impl CapsulePackets {
    /// All of them went on.
    pub(crate) fn moved(packets: u64, bytes: u64) -> Self {
        Self {
            moved: packets,
            bytes,
            dropped: None,
        }
    }

    /// None of the packets went on.
    pub(crate) fn all_dropped(reason: DropReason, packets: u64) -> Self {
        Self {
            dropped: Some((reason, packets)),
            ..Self::default()
        }
    }

    /// One that could not be read did not.
    pub(crate) fn dropped(reason: DropReason) -> Self {
        Self::all_dropped(reason, 1)
    }
}

/// The receiving state of a device.
pub struct DeviceReader {
    device: Arc<dyn Device>,
    batch: Batch,
    capsules: DeviceCapsules,
    bounds: Bounds,
    /// Since when packets wait that could not be sent.
    kept: Option<Instant>,
    expired: u64,
}

impl DeviceReader {
    pub(crate) fn new(device: Arc<dyn Device>, bounds: Bounds) -> Self {
        let batch = Batch::with(Layout {
            super_packets: false,
            ..device.layout()
        });
        Self {
            device,
            batch,
            capsules: DeviceCapsules::default(),
            bounds,
            kept: None,
            expired: 0,
        }
    }

    /// Its packets go to an end with this layout from now on, which may take super-packets, too,
    /// and QUIC datagrams.
    pub(crate) fn lead(&mut self, to: Layout, has_datagrams: bool) {
        self.device.lead(has_datagrams);
        let own = self.device.layout();
        let layout = Layout {
            super_packets: own.super_packets && to.super_packets,
            ..own
        };

        if layout.super_packets != self.batch.layout().super_packets && self.kept.is_none() {
            self.batch = Batch::with(layout);
        }
    }

    /// Waits for packets; kept ones come first, unless they are too old.
    pub(crate) async fn fill(&mut self) -> io::Result<()> {
        if let Some(since) = self.kept.take() {
            if since.elapsed() <= self.bounds.age {
                return Ok(());
            }
            self.expired += self.batch.len() as u64;
        }

        self.batch.clear();
        poll_fn(|cx| {
            let Self {
                device,
                batch,
                capsules,
                ..
            } = self;
            device.poll_fill(cx, batch, capsules)
        })
        .await
    }

    /// Takes the capsules that [`Self::fill`] found, if there are any.
    pub(crate) fn take_capsules(&mut self) -> Option<DeviceCapsules> {
        let has_capsules = !self.capsules.bytes.is_empty();
        has_capsules.then(|| std::mem::take(&mut self.capsules))
    }

    /// The format of its packets in HTTP datagrams.
    pub(crate) fn format(&self) -> DatagramFormat {
        self.device.format()
    }

    /// The packets of [`Self::fill`].
    pub(crate) fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Keeps the packets of [`Self::fill`] for the next call.
    pub(crate) fn keep(&mut self) {
        self.kept.get_or_insert_with(Instant::now);
    }

    /// Accounts for packets that were dropped here.
    pub(crate) fn settle(&mut self, exchange: &Exchange) {
        exchange.dropped(DropReason::Expired, std::mem::take(&mut self.expired));
        exchange.dropped(DropReason::QueueFull, self.device.take_lost());
    }
}
