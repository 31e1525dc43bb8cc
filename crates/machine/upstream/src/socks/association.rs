//! An association of UDP at a proxy, whose datagrams are capsules for the rest of the node (RFC 1928, 7; RFC 9297, 3.2).

use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, Outgoing};
use hermes_net::{RecvBatch, Stream, UdpError, UdpSocket};
use hermes_proto::capsule::{CapsuleDecoder, CapsuleType};
use hermes_proto::datagram::{MAX_UDP_CAPSULE, UDP_CONTEXT, UdpDatagram, encode_udp_capsule};
use hermes_proto::socks::client::encode_datagram_header;
use hermes_proto::socks::{SocksTarget, decode_datagram};
use tokio::io::AsyncReadExt;

use super::Wanted;

/// An association for one target.
pub(super) struct Relayed {
    /// By its end the association ends (RFC 1928, 6).
    control: Stream,
    /// Towards the proxy, so that the system drops datagrams of others.
    socket: UdpSocket,
    target: SocksTarget,
    header: Vec<u8>,
}

impl Relayed {
    /// Over a socket to this address of the proxy.
    pub(super) async fn begin(
        relay: SocketAddr,
        wanted: Wanted<'_>,
        control: Stream,
    ) -> io::Result<Self> {
        let target = wanted.target();
        let header = encode_datagram_header(&target).map_err(io::Error::other)?;
        let socket = UdpSocket::connected_from(relay, &wanted.upstream.links.from).await?;
        Ok(Self {
            control,
            socket,
            target,
            header,
        })
    }

    /// Carries datagrams until one of the sides is gone.
    pub(super) async fn carry(self, mut incoming: Incoming, mut outgoing: Outgoing) {
        let Self {
            mut control,
            socket,
            target,
            header,
        } = self;
        let mut ignored = [0; 64];
        let ended = async { while control.read(&mut ignored).await.unwrap_or(0) > 0 {} };
        tokio::select! {
            () = leave(&socket, header, &mut incoming) => {}
            () = come(&socket, &target, &mut outgoing) => {}
            () = ended => {}
        }
    }
}

/// Sends the payloads of capsules.
async fn leave(socket: &UdpSocket, header: Vec<u8>, incoming: &mut Incoming) {
    let mut payloads = Payloads::new(incoming);
    let mut datagram = header;
    let start = datagram.len();
    while let Some(payload) = payloads.next().await {
        datagram.truncate(start);
        datagram.extend(&payload);
        if !sent(socket, &datagram).await {
            return;
        }
    }
}

/// Sends a datagram; false where the socket is broken.
pub(super) async fn sent(socket: &UdpSocket, datagram: &[u8]) -> bool {
    match socket.send_segments(None, datagram, None).await {
        // One that does not fit is lost, as on any path.
        Ok(()) | Err(UdpError::TooLarge | UdpError::Dropped) => true,
        Err(_) => false,
    }
}

/// Makes capsules of the datagrams that come from the target.
async fn come(socket: &UdpSocket, target: &SocksTarget, outgoing: &mut Outgoing) {
    let mut batch = Box::new(RecvBatch::new());
    let mut capsules = BytesMut::new();
    loop {
        match socket.recv(&mut batch).await {
            Ok(_) => {}
            Err(UdpError::Io(_)) => return,
            // About a datagram that was not delivered, as on any path.
            Err(_) => continue,
        }
        for (_, datagram) in batch.datagrams() {
            let Ok((source, length)) = decode_datagram(datagram) else {
                continue;
            };
            if is_of(&source, target) {
                // A longer one than a capsule may carry is not made.
                let _ = encode_udp_capsule(&datagram[length..], &mut capsules);
            }
        }
        if !passed_on(&mut capsules, outgoing).await {
            return;
        }
    }
}

/// Passes capsules on to the rest of the node; false where it has ended.
pub(super) async fn passed_on(capsules: &mut BytesMut, outgoing: &mut Outgoing) -> bool {
    let sent = outgoing.data(capsules.split().freeze(), false).await;
    sent.is_ok() && outgoing.flush().await.is_ok()
}

/// The payloads of the capsules of a stream.
pub(super) struct Payloads<'a> {
    incoming: &'a mut Incoming,
    decoder: CapsuleDecoder,
}

impl<'a> Payloads<'a> {
    pub(super) fn new(incoming: &'a mut Incoming) -> Self {
        Self {
            incoming,
            decoder: CapsuleDecoder::new(MAX_UDP_CAPSULE),
        }
    }

    /// The next one; `None` at the end, or where it is broken.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            while let Some(capsule) = self.decoder.next().ok()? {
                // Types that are not known are passed over (RFC 9297, 3.2).
                if capsule.kind != CapsuleType::Datagram {
                    continue;
                }
                let udp = UdpDatagram::decode(capsule.value).ok()?;
                if udp.context == UDP_CONTEXT {
                    return Some(udp.payload);
                }
            }
            if let Frame::Data(data) = self.incoming.frame().await?.ok()? {
                self.decoder.push(data);
            }
        }
    }
}

/// Whether a datagram is the target's: another peer was never spoken to. Of a name the proxy alone knows the address.
pub(super) fn is_of(source: &SocksTarget, target: &SocksTarget) -> bool {
    let is_address = target.host.parse::<IpAddr>().is_ok();
    source.port == target.port && (!is_address || source.host == target.host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> SocksTarget {
        SocksTarget {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn datagrams_of_another_peer_are_not_the_targets() {
        let target = at("192.0.2.1", 53);
        assert!(is_of(&at("192.0.2.1", 53), &target));
        assert!(!is_of(&at("192.0.2.2", 53), &target));
        assert!(!is_of(&at("192.0.2.1", 54), &target));
        let named = at("example.org", 53);
        assert!(is_of(&at("192.0.2.1", 53), &named));
        assert!(!is_of(&at("192.0.2.1", 54), &named));
    }
}
