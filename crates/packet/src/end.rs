//! A UDP end of a tunnel: the client of a `udp` listener, or the target.

use std::future::Future;
use std::sync::Arc;

use bytes::BytesMut;
use hermes_http::h3::DatagramSender;
use hermes_net::quic::SentDatagrams;
use hermes_net::{UdpError, UdpSocket};
use hermes_observe::{DropReason, Exchange};
use hermes_proto::datagram;

use super::received::Received;
use super::{Bounds, Queue, Session};

/// A UDP end.
#[derive(Clone)]
pub enum UdpEnd {
    /// A client of a `udp` listener.
    Session(Arc<Session>),
    /// A socket connected to the target, and what is kept while its tunnel does not take it.
    Socket(Arc<UdpSocket>, Bounds),
}

/// The receiving state of an end.
pub enum UdpReader {
    /// Of a session.
    Session(Arc<Session>, Queue),
    /// Of a socket.
    Socket(Arc<UdpSocket>, Received),
}

impl UdpEnd {
    /// What reading needs.
    pub fn reader(&self) -> UdpReader {
        match self {
            Self::Session(session) => {
                session.opened();
                UdpReader::Session(session.clone(), session.empty_queue())
            }
            Self::Socket(socket, bounds) => {
                UdpReader::Socket(socket.clone(), Received::new(*bounds))
            }
        }
    }

    /// Sends datagrams of `segment` bytes. A datagram too large for the path, or an ICMP error for an earlier one, concerns
    /// datagrams only, never the tunnel: the answer then is the reason of the loss (RFC 9298, 5).
    ///
    /// # Errors
    /// The socket failed.
    pub async fn send(
        &self,
        data: &[u8],
        segment: Option<usize>,
    ) -> Result<Option<DropReason>, UdpError> {
        let sent = match self {
            Self::Session(session) => session.send(data, segment).await,
            Self::Socket(socket, _) => socket.send_segments(None, data, segment).await,
        };
        match sent {
            Ok(()) => Ok(None),
            Err(UdpError::TooLarge) => Ok(Some(DropReason::TooLarge)),
            Err(UdpError::Refused | UdpError::Unreachable) => Ok(Some(DropReason::SendFailed)),
            Err(error) => Err(error),
        }
    }

    /// Accounts for datagrams that were dropped before the tunnel saw them.
    pub fn settle(&self, exchange: &Exchange) {
        if let Self::Session(session) = self {
            let (full, expired) = session.take_lost();
            exchange.dropped(DropReason::QueueFull, full);
            exchange.dropped(DropReason::Expired, expired);
        }
    }
}

impl UdpReader {
    /// Waits for datagrams.
    ///
    /// # Errors
    /// The socket failed; an ICMP error is not a failure.
    pub async fn fill(&mut self) -> Result<(), UdpError> {
        match self {
            Self::Session(session, queue) => session.take(queue).await,
            Self::Socket(socket, received) => received.fill(socket).await?,
        }
        Ok(())
    }

    /// Keeps what [`UdpReader::fill`] found, because it cannot be sent now: it is found again.
    pub fn keep(&mut self) {
        match self {
            Self::Session(session, queue) => session.give_back(queue),
            Self::Socket(_, received) => received.keep(),
        }
    }

    /// Calls `each` for every datagram that [`UdpReader::fill`] found.
    pub fn for_each(&self, mut each: impl FnMut(&[u8])) {
        match self {
            Self::Session(_, queue) => queue.iter().for_each(&mut each),
            Self::Socket(_, received) => received
                .datagrams()
                .for_each(|(_, datagram)| each(datagram)),
        }
    }

    /// Waits for `write`, which sends what was found. A tunnel that takes nothing does not make what comes meanwhile older than its
    /// bounds; what had to go for that is counted.
    pub async fn during<W: Future>(&mut self, write: W, exchange: &Exchange) -> W::Output {
        let Self::Socket(socket, received) = self else {
            return write.await;
        };
        let lost = |full, expired| {
            exchange.dropped(DropReason::QueueFull, full);
            exchange.dropped(DropReason::Expired, expired);
        };
        received.during(socket, write, lost).await
    }

    /// Sends what was found, and is of a size for which `wanted` holds, as QUIC datagrams, each with `prefix`; returns what became
    /// of them, and their bytes.
    pub fn send(
        &self,
        quic: &DatagramSender,
        prefix: &[u8],
        wanted: impl Fn(usize) -> bool,
    ) -> (SentDatagrams, usize) {
        let mut bytes = 0;
        let mut chosen = |datagram: &&[u8]| {
            let is_wanted = wanted(datagram.len());
            bytes += if is_wanted { datagram.len() } else { 0 };
            is_wanted
        };
        let sent = match self {
            Self::Session(_, queue) => {
                quic.send(prefix, queue.iter().filter(|datagram| chosen(datagram)))
            }
            Self::Socket(_, received) => {
                let datagrams = received.datagrams().map(|(_, datagram)| datagram);
                quic.send(prefix, datagrams.filter(|datagram| chosen(datagram)))
            }
        };
        (sent, bytes)
    }

    /// Appends what was found, and is of a size for which `wanted` holds, as capsules; returns how many datagrams and bytes of
    /// payload that were.
    pub fn encode(&self, into: &mut BytesMut, wanted: impl Fn(usize) -> bool) -> (u64, u64) {
        let mut count = 0;
        let mut bytes = 0;
        self.for_each(|datagram| {
            // Longer payloads than a capsule may carry do not come out of a UDP socket.
            if wanted(datagram.len()) && datagram::encode_udp_capsule(datagram, into).is_ok() {
                count += 1;
                bytes += datagram.len() as u64;
            }
        });
        (count, bytes)
    }
}
