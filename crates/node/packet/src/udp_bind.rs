//! Sockets of CONNECT-UDP Bind: many peers, known by contexts (draft-ietf-masque-connect-udp-listen).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_net::descriptors::claim;
use hermes_net::own_mark::marked;
use hermes_net::{LocalEnd, RecvBatch, UdpError, UdpSocket};
use hermes_observe::DropReason;
use hermes_proto::capsule::{CapsuleDecoder, CapsuleType};
use hermes_proto::datagram::MAX_UDP_CAPSULE;
use hermes_proto::udp_bind::{Contexts, MAX_CAPSULE, Outbound};
use parking_lot::Mutex;
use tokio::task::coop::consume_budget;

use super::direction::{Left, PacketDirection, broken};
use super::received::{give_back, kept};
use super::sink::Sink;
use super::source::Source;
use crate::broken::Broken;

/// The rules for addresses that a client chooses, as they are now.
pub trait Egress {
    /// Whether datagrams may go to this peer and come from it.
    fn may_choose(&self, peer: SocketAddr) -> bool;
}

/// The sockets of one request, and the contexts of its client.
pub struct BindSockets<E> {
    /// One for each family, with its address.
    sockets: Vec<(SocketAddr, UdpSocket)>,
    contexts: Mutex<Contexts>,
    egress: Arc<E>,
}

impl<E: Egress> BindSockets<E> {
    /// Sockets on these addresses, each on a port that the system chooses, which leave by the interface of `from`.
    ///
    /// # Errors
    /// An address is not one of this machine, there is no such interface, or no port or descriptor is left.
    pub fn open(
        addresses: impl Iterator<Item = IpAddr>,
        from: &LocalEnd,
        egress: Arc<E>,
    ) -> std::io::Result<Self> {
        let socket = |address| {
            let socket = from.udp_at(SocketAddr::new(address, 0))?;
            let socket = UdpSocket::bound(marked(claim(socket)?)?)?;
            Ok((socket.local_addr()?, socket))
        };

        let sockets = addresses.map(socket).collect::<std::io::Result<_>>()?;
        Ok(Self {
            sockets,
            contexts: Mutex::default(),
            egress,
        })
    }

    /// Where the sockets are.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(|(address, _)| *address)
    }

    /// The socket from which this peer is reached, by the rules that are in force now.
    fn towards(&self, peer: SocketAddr) -> Option<&UdpSocket> {
        let (_, socket) = self
            .sockets
            .iter()
            .find(|(own, _)| own.is_ipv4() == peer.is_ipv4())?;
        self.egress.may_choose(peer).then_some(socket)
    }

    /// Waits until something has come.
    async fn readable(&self) -> std::io::Result<&UdpSocket> {
        match self.sockets.as_slice() {
            [(_, first), (_, second), ..] => tokio::select! {
                ready = first.readable() => ready.map(|()| first),
                ready = second.readable() => ready.map(|()| second),
            },
            [(_, only)] => only.readable().await.map(|()| only),
            [] => std::future::pending().await,
        }
    }

    /// What has come on a socket from peers whom the client wants to hear, and how many datagrams had to go.
    fn take(
        &self,
        socket: &UdpSocket,
        batch: &mut RecvBatch,
        into: &mut Vec<Bytes>,
    ) -> Result<u64, UdpError> {
        match socket.try_recv(batch) {
            Ok(Some(_)) => {}
            Ok(None)
            | Err(
                UdpError::Refused | UdpError::Unreachable | UdpError::TooLarge | UdpError::Dropped,
            ) => {
                return Ok(0);
            }
            Err(error) => return Err(error),
        }

        let contexts = self.contexts.lock();
        let mut dropped = 0;
        for run in batch.runs() {
            let may = self.towards(run.source).is_some();
            for payload in run.datagrams() {
                match contexts.inbound(run.source, payload).filter(|_| may) {
                    Some(datagram) => into.push(datagram),
                    None => dropped += 1,
                }
            }
        }

        Ok(dropped)
    }
}

impl PacketDirection<'_> {
    /// From the client to peers. Capsules about contexts are answered before the next is read, so that no answers pile up.
    pub async fn client_to_peers<E: Egress>(
        &self,
        source: &mut Source,
        sink: &Sink,
        bound: &BindSockets<E>,
    ) -> Result<Left, Broken> {
        let (Source::Stream(capsules), Sink::Stream(to)) = (source, sink) else {
            return Ok(Left::Ended);
        };
        let malformed = |reason: String| Broken::malformed(self.from, reason);
        let mut decoder = CapsuleDecoder::new(MAX_UDP_CAPSULE + MAX_CAPSULE as u64);

        loop {
            let data = tokio::select! {
                () = capsules.beside.fill() => {
                    self.exchange.dropped(DropReason::QueueFull, capsules.beside.lost());
                    for datagram in std::mem::take(&mut capsules.beside.taken) {
                        self.client_to_peer(datagram, bound).await?;
                    }
                    continue;
                }
                data = capsules.stream.next() => data,
            };

            let Some(data) = data else {
                return decoder
                    .finish()
                    .map(|()| Left::Ended)
                    .map_err(|error| malformed(error.to_string()));
            };

            decoder.push(data.map_err(|error| self.read(&error))?);
            while let Some(capsule) = decoder
                .next()
                .map_err(|error| malformed(error.to_string()))?
            {
                if capsule.kind == CapsuleType::Datagram {
                    self.client_to_peer(capsule.value, bound).await?;
                    continue;
                }
                let allows = |peer| bound.towards(peer).is_some();
                let answer = bound.contexts.lock().handle_capsule(
                    capsule.kind.code(),
                    &capsule.value,
                    allows,
                );
                if let Some(answer) = answer.map_err(|error| malformed(error.to_string()))? {
                    self.write_on(&to.stream, answer).await?;
                }
            }
        }
    }

    async fn client_to_peer<E: Egress>(
        &self,
        datagram: Bytes,
        bound: &BindSockets<E>,
    ) -> Result<(), Broken> {
        let found = bound.contexts.lock().outbound(datagram);
        let (peer, payload) =
            match found.map_err(|error| Broken::malformed(self.from, error.to_string()))? {
                Outbound::To(peer, payload) => (peer, payload),
                Outbound::Dropped => {
                    self.exchange.dropped(DropReason::UnknownContext, 1);
                    return Ok(());
                }
            };

        let Some(socket) = bound.towards(peer) else {
            self.exchange.dropped(DropReason::SendFailed, 1);
            return Ok(());
        };

        match socket.send_segments(Some(peer), &payload, None).await {
            Ok(()) => self.moved(1, payload.len() as u64),
            Err(UdpError::TooLarge) => self.exchange.dropped(DropReason::TooLarge, 1),
            // It concerns this peer only.
            Err(_) => self.exchange.dropped(DropReason::SendFailed, 1),
        }

        Ok(())
    }

    /// From peers to the client.
    pub async fn peers_to_client<E: Egress>(
        &self,
        bound: &BindSockets<E>,
        sink: &Sink,
    ) -> Result<Left, Broken> {
        let Sink::Stream(to) = sink else {
            return Ok(Left::Ended);
        };
        let failed = |error: UdpError| Broken::socket(self.from, &error);
        let mut datagrams = Vec::new();

        loop {
            let socket = tokio::select! {
                ready = bound.readable() => ready.map_err(|error| failed(UdpError::Io(error)))?,
                reset = broken(&to.stream), if self.alone => return Err(Broken::reset(self.from.other(), reset)),
            };

            // Sockets that never run dry leave the worker to others too.
            consume_budget().await;
            let mut batch = kept();
            let taken = bound.take(socket, &mut batch, &mut datagrams);
            give_back(batch);
            self.exchange
                .dropped(DropReason::UnknownContext, taken.map_err(failed)?);

            match &to.quic {
                Some(quic) => self.forward(&mut datagrams, to, quic).await?,
                None => {
                    let mut room = BytesMut::new();
                    self.encode(&mut datagrams, &mut room);
                    self.write_on(&to.stream, room.freeze()).await?;
                }
            }
        }
    }
}
