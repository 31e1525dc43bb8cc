//! A QUIC connection inside the CONNECT-UDP tunnel of another proxy, which itself may be reached so.
//!
//! Its packets are HTTP datagrams: QUIC datagrams if the link to the proxy has them, so that no
//! bytes are retransmitted by both connections and each has its own congestion control; capsules
//! otherwise. A packet that does not fit a QUIC datagram is dropped, from which the inner
//! connection learns its MTU. But QUIC needs packets of 1200 bytes: while these do not fit, they
//! take the stream.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_http::h3::{DatagramReceiver, DatagramSender};
use hermes_http::{Frame, Incoming, Outgoing};
use hermes_net::quic::{
    Carrier, ClientConfig, Connection, DATAGRAMS_OUT, Endpoint, INITIAL_MTU, SMALLEST_MTU, Sizes,
};
use hermes_proto::capsule::{CapsuleDecoder, CapsuleType};
use hermes_proto::datagram::{MAX_UDP_CAPSULE, UDP_CONTEXT, UdpDatagram, encode_udp_capsule};
use hermes_proto::datagram_limit;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::failure::ConnectFailure;
use crate::nested_mtu::NestedMtu;
use crate::quic::failure;
use crate::tunnel::Tunnel;

/// Packets of an inner QUIC connection that one wake-up takes: two runs of the kernel's
/// segmentation.
#[doc(alias = "bound")]
const MOST: usize = 128;

/// Bytes that may wait in the buffer of the outer connection before more are handed over. The buffer holds more, for tunnels
/// that bring bursts; a connection's packets would only grow old there. 10 ms at 100 Mbit/s.
#[doc(alias = "bound")]
const WAITING: usize = 128 * 1024;

/// How often room is waited for, 10 ms each time: long enough for 5 Mbit/s.
#[doc(alias = "bound")]
const WAITS: usize = 20;

/// How long a new outer connection may measure its path before the inner one begins with less.
#[doc(alias = "bound")]
const SETTLE: Duration = Duration::from_millis(200);
/// How often to look.
const ROUND: Duration = Duration::from_millis(2);

/// How long the end of a tunnel may take to be sent.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_secs(1);
/// The context of UDP payloads as it is written.
const CONTEXT: [u8; 1] = [UDP_CONTEXT as u8];

/// Opens a connection to `server_name` inside a tunnel, which is one of `tunnels` until it has ended. `depth` connections are around it.
pub(crate) async fn connect(
    tunnel: Tunnel,
    depth: u8,
    name: &str,
    config: &ClientConfig,
    until: Instant,
    endpoint: &str,
    tunnels: &tokio_util::task::TaskTracker,
) -> Result<(Connection, Arc<NestedMtu>), ConnectFailure> {
    let quic = tunnel.outgoing.datagrams();
    let sizes = match &quic {
        // A hop that knows the floor drops larger packets; others have been seen to end the tunnel.
        Some(quic) => Sizes::inside(depth, settled(quic).await, tunnel.has_floor),
        None => Sizes::inside(0, usize::MAX, true),
    };

    let (carrier, socket) = Carrier::new();
    let nested_mtu = Arc::new(NestedMtu::new(quic.as_ref().map(payload)));
    // Carrying begins before the handshake, which needs it.
    tunnels.spawn(carry(carrier, tunnel, quic, nested_mtu.clone()));
    let connecting = Endpoint::connect_through(socket, sizes, name, config);

    match timeout_at(until, connecting).await {
        Ok(connected) => connected
            .map(|connection| (connection, nested_mtu))
            .map_err(|error| failure(endpoint, &error)),
        Err(_) => Err(ConnectFailure::timeout(endpoint)),
    }
}

/// Bytes of the largest packet that a QUIC datagram carries now.
fn payload(quic: &DatagramSender) -> usize {
    quic.max_payload().saturating_sub(CONTEXT.len())
}

/// The same, once it has reached the initial size of connections, or [`SETTLE`] has passed.
async fn settled(quic: &DatagramSender) -> usize {
    let grown = async {
        while payload(quic) < usize::from(INITIAL_MTU) {
            sleep(ROUND).await;
        }
    };

    // The size at the end counts either way.
    let _ = timeout(SETTLE, grown).await;
    payload(quic)
}

/// Carries packets until the connection or the tunnel is gone.
async fn carry(
    carrier: Carrier,
    tunnel: Tunnel,
    quic: Option<DatagramSender>,
    nested_mtu: Arc<NestedMtu>,
) {
    let Tunnel {
        mut incoming,
        mut outgoing,
        active,
        ..
    } = tunnel;

    let datagrams = incoming.datagrams();
    let gone = tokio::select! {
        gone = leave(&carrier, &mut outgoing, quic, &nested_mtu) => gone,
        () = come(&carrier, &mut incoming, datagrams, &nested_mtu) => false,
    };

    // The connection ends with its carrier; its last packets have been taken, or the tunnel is gone.
    drop(carrier);
    if gone {
        // Dropped half open, the tunnel would look broken.
        let _ = timeout(FAREWELL, async {
            if outgoing.finish(None).await.is_ok() {
                while let Some(Ok(_)) = incoming.frame().await {}
            }
        })
        .await;
    }

    drop(active);
}

/// Moves packets out; true when the connection is gone, false when the tunnel is.
async fn leave(
    carrier: &Carrier,
    outgoing: &mut Outgoing,
    quic: Option<DatagramSender>,
    nested_mtu: &NestedMtu,
) -> bool {
    let mut packets = Vec::new();
    let mut capsules = BytesMut::new();
    while carrier.take(&mut packets, MOST).await {
        if let Some(quic) = &quic {
            let largest = payload(quic).min(nested_mtu.limit());
            nested_mtu.carries(largest);
            // QUIC needs packets of 1200 bytes (RFC 9000, 14): a hop that carries less takes them
            // by stream.
            let small = largest < usize::from(SMALLEST_MTU);
            let by_stream = |packet: &&Bytes| {
                small && packet.len() > largest && packet.len() <= usize::from(SMALLEST_MTU)
            };

            // The last word of a connection is said where nothing is lost, too: its peer would wait for minutes.
            if carrier.is_ending() {
                write(packets.iter(), &mut capsules);
            } else {
                write(packets.iter().filter(by_stream), &mut capsules);
            }
            // A packet that the hop before would drop is not sent there.
            let goes = |packet: &&Bytes| !by_stream(packet) && packet.len() <= nested_mtu.limit();
            let sent = quic.send(
                &CONTEXT,
                packets.iter().filter(goes).map(|packet| &packet[..]),
            );
            let above = packets
                .iter()
                .filter(|packet| packet.len() > nested_mtu.limit() && !by_stream(packet))
                .count();
            nested_mtu.dropped(sent.too_large + sent.dropped + above);
        } else {
            write(packets.iter(), &mut capsules);
        }

        packets.clear();
        if !capsules.is_empty() {
            let write = async {
                outgoing.data(capsules.split().freeze(), false).await?;
                outgoing.flush().await
            };

            let written = tokio::select! {
                written = write => written.is_ok(),
                () = abandoned(carrier) => false,
            };

            if !written {
                return false;
            }
        }

        if let Some(quic) = &quic {
            room(quic).await;
        }
    }

    true
}

/// Resolves when the connection is gone and its last packets had time to leave: a hop that does not
/// take them must not keep the tunnel.
async fn abandoned(carrier: &Carrier) {
    carrier.gone().await;
    sleep(FAREWELL).await;
}

/// Waits until the outer connection has sent nearly all that it was given. Other tunnels on it may fill its buffer all the time;
/// so it is not waited for long.
async fn room(quic: &DatagramSender) {
    for _ in 0..WAITS {
        if quic.room(DATAGRAMS_OUT - WAITING).await || !quic.is_open() {
            return;
        }
    }
}

/// Writes packets as capsules.
fn write<'a>(packets: impl Iterator<Item = &'a Bytes>, capsules: &mut BytesMut) {
    for packet in packets {
        // Longer packets than a capsule may carry are not made.
        let _ = encode_udp_capsule(packet, capsules);
    }
}

/// Moves packets in until the tunnel is gone.
async fn come(
    carrier: &Carrier,
    incoming: &mut Incoming,
    mut datagrams: Option<DatagramReceiver>,
    nested_mtu: &NestedMtu,
) {
    let mut decoder = CapsuleDecoder::new(MAX_UDP_CAPSULE);
    let mut taken = Vec::new();
    loop {
        tokio::select! {
            there = received(&mut datagrams, &mut taken) => {
                if !there {
                    // The stream says how it ended.
                    datagrams = None;
                }
                carrier.give(taken.drain(..).filter_map(packet));
            }
            frame = incoming.frame() => {
                let Some(Ok(frame)) = frame else { return };
                let Frame::Data(data) = frame else { continue };
                decoder.push(data);

                loop {
                    match decoder.next() {
                        Ok(Some(capsule)) if capsule.kind == CapsuleType::Datagram => {
                            carrier.give(packet(capsule.value));
                        }
                        Ok(Some(capsule)) if capsule.kind == CapsuleType::DatagramLimit => {
                            let Some(limit) = datagram_limit::decode(&capsule.value) else { return };
                            nested_mtu.heed(limit);
                        }
                        // Types that are not known are passed over (RFC 9297, 3.2).
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => return,
                    }
                }
            }
        }
    }
}

async fn received(datagrams: &mut Option<DatagramReceiver>, into: &mut Vec<Bytes>) -> bool {
    match datagrams {
        Some(datagrams) => datagrams.recv(into, MOST).await,
        None => std::future::pending().await,
    }
}

/// The packet in an HTTP datagram; `None` for contexts that no one registered (RFC 9298, 4).
fn packet(datagram: Bytes) -> Option<Bytes> {
    UdpDatagram::decode(datagram)
        .ok()
        .filter(|datagram| datagram.context == UDP_CONTEXT)
        .map(|datagram| datagram.payload)
}

#[cfg(test)]
mod tests {
    use hermes_http::h1;
    use hermes_net::quic::Record;
    use hermes_net::tls::{ClientOptions, client};
    use hermes_net::{PeerAddress, Stream, StreamInfo};
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::endpoint::Active;

    #[tokio::test(start_paused = true)]
    async fn a_hop_that_takes_no_packets_does_not_keep_the_tunnel_of_a_connection_that_is_gone() {
        let (near, _hop) = tokio::io::duplex(16);
        let info = StreamInfo {
            peer: PeerAddress::Unix { uid: None },
            local: None,
            tls: None,
            origin: None,
        };
        let (read, write) = Stream::other(Box::new(near), info).split();
        let tunnel = Tunnel {
            incoming: Incoming::H1(h1::BodyReceiver::bytes(read)),
            outgoing: Outgoing::H1(h1::BodySender::bytes(write)),
            active: Active::default(),
            address: None,
            has_floor: true,
            listens: false,
        };
        let tls = client(ClientOptions {
            insecure_skip_verify: true,
            ..ClientOptions::default()
        })
        .unwrap();
        let config = ClientConfig::new(&tls, false, Record::default()).unwrap();
        let (tasks, until) = (TaskTracker::new(), Instant::now() + Duration::from_secs(2));
        let connected = connect(tunnel, 1, "hop", &config, until, "hop:443", &tasks).await;
        assert!(connected.is_err());
        tasks.close();
        assert!(
            timeout(Duration::from_secs(60), tasks.wait()).await.is_ok(),
            "the tunnel is there still"
        );
    }
}
