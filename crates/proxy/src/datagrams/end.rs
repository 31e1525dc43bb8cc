//! A UDP end of a tunnel: the client of a `udp` listener, or the target.

use std::sync::Arc;

use bytes::BytesMut;
use hermes_net::{RecvBatch, UdpError, UdpSocket};
use hermes_proto::datagram;

use super::{Queue, Session};
use crate::seeing::{DropReason, Exchange};

/// Datagrams that one wake-up takes from a socket at most, in slots of the kernel's merging.
const SLOTS: usize = 4;

/// A UDP end.
#[derive(Clone)]
pub enum UdpEnd {
    /// A client of a `udp` listener.
    Session(Arc<Session>),
    /// A socket connected to the target.
    Socket(Arc<UdpSocket>),
}

/// The receiving state of an end.
pub enum UdpReader {
    /// Of a session.
    Session(Arc<Session>, Queue),
    /// Of a socket.
    Socket(Arc<UdpSocket>, RecvBatch),
}

impl UdpEnd {
    /// What reading needs.
    pub fn reader(&self) -> UdpReader {
        match self {
            Self::Session(session) => UdpReader::Session(session.clone(), session.empty_queue()),
            Self::Socket(socket) => UdpReader::Socket(socket.clone(), RecvBatch::with_slots(SLOTS)),
        }
    }

    /// Sends datagrams of `segment` bytes. A datagram too large for the path, or an ICMP error for an earlier one, concerns
    /// datagrams only, never the tunnel: the answer then is the reason of the loss (RFC 9298, 5).
    ///
    /// # Errors
    /// The socket failed.
    pub async fn send(&self, data: &[u8], segment: Option<usize>) -> Result<Option<DropReason>, UdpError> {
        let sent = match self {
            Self::Session(session) => session.send(data, segment).await,
            Self::Socket(socket) => socket.send_segments(None, data, segment).await,
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
            Self::Socket(socket, batch) => loop {
                match socket.recv(batch).await {
                    Ok(_) => break,
                    Err(UdpError::Refused | UdpError::Unreachable | UdpError::TooLarge) => {}
                    Err(error) => return Err(error),
                }
            },
        }
        Ok(())
    }

    /// Calls `each` for every datagram that [`UdpReader::fill`] found.
    pub fn for_each(&self, mut each: impl FnMut(&[u8])) {
        match self {
            Self::Session(_, queue) => queue.iter().for_each(&mut each),
            Self::Socket(_, batch) => batch.datagrams().for_each(|(_, datagram)| each(datagram)),
        }
    }

    /// Appends what was found as capsules; returns how many datagrams and bytes of payload that were.
    pub fn encode(&self, into: &mut BytesMut) -> (u64, u64) {
        let (mut count, mut bytes) = (0, 0);
        self.for_each(|datagram| {
            // Longer payloads than a capsule may carry do not come out of a UDP socket.
            if datagram::encode_udp_capsule(datagram, into).is_ok() {
                count += 1;
                bytes += datagram.len() as u64;
            }
        });
        (count, bytes)
    }
}
