//! Ends of packets that this node has itself: the client of a `udp` listener, a socket towards the target, a device.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use hermes_http::RefusalReason;
use hermes_net::{UdpError, UdpSocket};
use hermes_observe::{DropReason, Exchange};
use hermes_proto::batch::{Batch, Layout};
use hermes_proto::datagram::DatagramFormat;

use super::device::{Device, DeviceCapsules, DeviceReader};
use super::received::Received;
use super::{Bounds, ChargedBounds, Queue, Session};

/// An end.
#[derive(Clone)]
pub enum PacketEnd {
    /// A client of a `udp` listener.
    Session(Arc<Session>),
    /// A socket connected to the target, and bounds of the queue while its tunnel does not take
    /// datagrams.
    Socket(Arc<UdpSocket>, ChargedBounds),
    /// A device, and bounds of the queue while its tunnel does not take packets.
    Device(Arc<dyn Device>, Bounds),
}

/// The receiving state of an end.
pub enum PacketReader {
    /// Of a session.
    Session(Arc<Session>, Queue),
    /// Of a socket.
    Socket(Arc<UdpSocket>, Received),
    /// Of a device.
    Device(DeviceReader),
}

impl PacketEnd {
    /// The UDP client that it is.
    pub fn session(&self) -> Option<&Arc<Session>> {
        match self {
            Self::Session(session) => Some(session),
            Self::Socket(..) | Self::Device(..) => None,
        }
    }

    /// The tunnel of its packets is about to be open.
    pub fn accept(&self) {
        if let Self::Device(device, _) = self {
            device.accepted();
        }
    }

    /// There is no tunnel for its packets.
    pub fn refuse(&self, reason: RefusalReason) {
        match self {
            Self::Session(session) => session.refuse(reason),
            Self::Device(device, _) => device.refused(reason),
            Self::Socket(..) => {}
        }
    }

    /// The reader of this end.
    pub fn reader(&self) -> PacketReader {
        match self {
            Self::Session(session) => {
                session.opened();
                PacketReader::Session(session.clone(), session.empty_queue())
            }
            Self::Socket(socket, bounds) => {
                PacketReader::Socket(socket.clone(), Received::new(bounds))
            }
            Self::Device(device, bounds) => {
                PacketReader::Device(DeviceReader::new(device.clone(), *bounds))
            }
        }
    }

    /// The format of its packets in HTTP datagrams.
    pub fn format(&self) -> DatagramFormat {
        match self {
            Self::Session(_) | Self::Socket(..) => DatagramFormat::UDP,
            Self::Device(device, _) => device.format(),
        }
    }

    /// The batches that it is sent.
    pub(crate) fn layout(&self) -> Layout {
        match self {
            Self::Session(_) | Self::Socket(..) => Layout::UDP,
            Self::Device(device, _) => device.layout(),
        }
    }

    /// The largest packet that it takes, where that is not found out by sending it: UDP fragments, or says so.
    pub(crate) fn largest(&self) -> Option<usize> {
        match self {
            Self::Session(_) | Self::Socket(..) => None,
            Self::Device(device, _) => Some(device.format().largest()),
        }
    }

    /// Sends UDP datagrams of `segment` bytes. A datagram too large for the path, one that the local firewall drops, or an ICMP error for an earlier one, concerns
    /// datagrams only, never the tunnel: the answer then is the reason of the loss (RFC 9298, 5).
    ///
    /// # Errors
    /// The socket failed.
    pub(crate) async fn send(
        &self,
        data: &[u8],
        segment: Option<usize>,
    ) -> Result<Option<DropReason>, UdpError> {
        let sent = match self {
            Self::Session(session) => session.send(data, segment).await,
            Self::Socket(socket, _) => socket.send_segments(None, data, segment).await,
            // A device is sent batches, not runs.
            Self::Device(..) => Ok(()),
        };
        match sent {
            Ok(()) => Ok(None),
            Err(UdpError::TooLarge) => Ok(Some(DropReason::TooLarge)),
            Err(UdpError::Refused | UdpError::Unreachable | UdpError::Dropped) => {
                Ok(Some(DropReason::SendFailed))
            }
            Err(error) => Err(error),
        }
    }

    /// Accounts for packets that were dropped before the tunnel saw them.
    pub fn settle(&self, exchange: &Exchange) {
        match self {
            Self::Session(session) => {
                let (full, expired) = session.take_lost();
                exchange.dropped(DropReason::QueueFull, full);
                exchange.dropped(DropReason::Expired, expired);
            }
            Self::Socket(..) => {}
            Self::Device(device, _) => exchange.dropped(DropReason::QueueFull, device.take_lost()),
        }
    }
}

impl PacketReader {
    /// Waits for packets.
    ///
    /// # Errors
    /// The socket or device failed; an ICMP error is not a failure.
    pub async fn fill(&mut self) -> Result<(), UdpError> {
        match self {
            Self::Session(session, queue) => session.take(queue).await?,
            Self::Socket(socket, received) => received.fill(socket).await?,
            Self::Device(reader) => reader.fill().await.map_err(UdpError::Io)?,
        }
        Ok(())
    }

    /// Whether a router beyond the socket has found a datagram too long since this was asked last.
    pub(crate) fn take_narrow(&mut self) -> bool {
        match self {
            Self::Socket(_, received) => received.take_narrow(),
            Self::Session(..) | Self::Device(_) => false,
        }
    }

    /// Keeps the packets of [`PacketReader::fill`] for the next call, because they cannot be sent
    /// now.
    pub fn keep(&mut self) {
        match self {
            Self::Session(session, queue) => session.give_back(queue),
            Self::Socket(_, received) => received.keep(),
            Self::Device(reader) => reader.keep(),
        }
    }

    /// The format of its packets in HTTP datagrams.
    pub(crate) fn format(&self) -> DatagramFormat {
        match self {
            Self::Session(..) | Self::Socket(..) => DatagramFormat::UDP,
            Self::Device(reader) => reader.format(),
        }
    }

    /// The packets of [`PacketReader::fill`].
    pub(crate) fn packets(&self) -> impl Iterator<Item = &[u8]> {
        match self {
            Self::Session(_, queue) => Found::Session(queue.iter()),
            Self::Socket(_, received) => {
                Found::Socket(received.datagrams().map(|(_, datagram)| datagram))
            }
            Self::Device(reader) => Found::Device(reader.batch().iter()),
        }
    }

    /// The same as a batch, where it is one that an end with this layout takes as it is.
    pub(crate) fn batch(&self, to: Layout) -> Option<&Batch> {
        match self {
            Self::Session(..) | Self::Socket(..) => None,
            Self::Device(reader) => Some(reader.batch()).filter(|own| own.layout() == to),
        }
    }

    /// Packets go to an end with this layout from now on, or along a path that has QUIC datagrams.
    pub(crate) fn lead(&mut self, to: Layout, has_datagrams: bool) {
        if let Self::Device(reader) = self {
            reader.lead(to, has_datagrams);
        }
    }

    /// Takes the capsules that [`PacketReader::fill`] found, if there are any.
    pub(crate) fn take_capsules(&mut self) -> Option<DeviceCapsules> {
        match self {
            Self::Session(..) | Self::Socket(..) => None,
            Self::Device(reader) => reader.take_capsules(),
        }
    }

    /// Waits for `write`, which sends the packets. If a tunnel takes nothing, newer packets are
    /// still bounded in age; dropped ones are counted.
    pub async fn during<W: Future>(
        &mut self,
        mut write: Pin<&mut W>,
        exchange: &Exchange,
    ) -> W::Output {
        self.settle(exchange);
        let tried = poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx))).await;
        if let Poll::Ready(written) = tried {
            return written;
        }

        // Rare: each direction would have room for it.
        Box::pin(self.waiting(write, exchange)).await
    }

    async fn waiting<W: Future>(&mut self, write: Pin<&mut W>, exchange: &Exchange) -> W::Output {
        match self {
            Self::Session(..) | Self::Device(_) => write.await,
            Self::Socket(socket, received) => {
                let lost = |full, expired| note_lost(exchange, full, expired);
                received.during(socket, write, lost).await
            }
        }
    }

    /// Accounts for packets dropped by the reader.
    fn settle(&mut self, exchange: &Exchange) {
        match self {
            Self::Session(..) => {}
            Self::Socket(_, received) => {
                let (full, expired) = received.take_lost();
                note_lost(exchange, full, expired);
            }
            Self::Device(reader) => reader.settle(exchange),
        }
    }
}

/// Counts packets for which there was no room, and those that waited too long.
fn note_lost(exchange: &Exchange, full: u64, expired: u64) {
    exchange.dropped(DropReason::QueueFull, full);
    exchange.dropped(DropReason::Expired, expired);
}

/// The packets of one kind of end or another.
enum Found<A, B, C> {
    Session(A),
    Socket(B),
    Device(C),
}

impl<'a, A, B, C> Iterator for Found<A, B, C>
where
    A: Iterator<Item = &'a [u8]>,
    B: Iterator<Item = &'a [u8]>,
    C: Iterator<Item = &'a [u8]>,
{
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Session(packets) => packets.next(),
            Self::Socket(packets) => packets.next(),
            Self::Device(packets) => packets.next(),
        }
    }
}
