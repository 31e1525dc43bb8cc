//! WireGuard spoken by the test, which can say what no honest program would.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use hermes_lab::topology::Topology;
use hermes_proto::ip::checksum::checksum;
use hermes_wireguard::{Interface, PeerId, PeerSettings, PrivateKey, PublicKey, WallClock};

use super::SERVER;
use crate::within;

/// Where the first node listens.
pub(super) const NODE: &str = "10.0.1.2:51820";

/// How long an answer is awaited.
const ANSWER: Duration = Duration::from_secs(1);

/// One end that the test speaks for.
pub(super) struct Speaker {
    pub(super) socket: UdpSocket,
    interface: Interface,
    node: PeerId,
    /// The last message with a packet.
    pub(super) last: Vec<u8>,
}

/// A key of a file.
pub(super) fn private(file: &Path) -> PrivateKey {
    std::fs::read_to_string(file).unwrap().parse().unwrap()
}

/// A socket on Alice's machine that speaks to the node.
pub(super) fn socket(topology: &Topology) -> UdpSocket {
    let socket = within(topology, "alice", || {
        let socket = UdpSocket::bind("10.0.1.1:0")?;
        socket.connect(NODE)?;
        Ok::<_, std::io::Error>(socket)
    });
    let socket = socket.unwrap();
    socket.set_read_timeout(Some(ANSWER)).unwrap();
    socket
}

impl Speaker {
    /// An end with this key, which believes that the node has that one.
    pub(super) fn new(topology: &Topology, key: PrivateKey, node: &str) -> Self {
        let now = Instant::now();
        let clock = WallClock::of_system(now, SystemTime::now());
        let mut interface = Interface::new(key, clock).unwrap();
        let node: PublicKey = node.parse().unwrap();
        let settings = PeerSettings {
            public_key: node,
            preshared_key: None,
            endpoint: Some(NODE.parse::<SocketAddr>().unwrap()),
            allowed: vec!["0.0.0.0/0".parse().unwrap()],
            keepalive: None,
            mtu: 1420,
        };
        let node = interface.add_peer(settings, now).unwrap();
        Self {
            socket: socket(topology),
            interface,
            node,
            last: Vec::new(),
        }
    }

    /// Sends a packet, or begins a handshake for it.
    pub(super) fn send(&mut self, packet: &[u8]) {
        let mut message = Vec::new();
        let to = self
            .interface
            .send(self.node, packet, &mut message, Instant::now());
        if to.is_some() {
            self.socket.send(&message).unwrap();
            self.last = message;
        }
        self.send_outgoing();
    }

    fn send_outgoing(&mut self) {
        while let Some(outgoing) = self.interface.poll_outgoing() {
            self.socket.send(&outgoing.payload).unwrap();
        }
    }

    /// The next packet that comes; none after a while.
    pub(super) fn receive(&mut self) -> Option<Vec<u8>> {
        let mut room = [0; 2048];
        let mut packet = Vec::new();
        loop {
            let length = self.socket.recv(&mut room).ok()?;
            let from = NODE.parse().unwrap();
            let now = Instant::now();
            let came = self
                .interface
                .handle_datagram(from, &room[..length], &mut packet, now);
            self.send_outgoing();
            if came.is_some() {
                return Some(packet);
            }
        }
    }

    /// Whether the server answers an echo of this address.
    pub(super) fn echo(&mut self, from: Ipv4Addr) -> bool {
        self.send(&echo_request(from));
        let is_answer = |packet: Vec<u8>| packet[12..16] == SERVER.octets() && packet[20] == 0;
        self.receive().is_some_and(is_answer)
    }

    /// When it last agreed on keys with the node.
    pub(super) fn agreed(&self) -> Option<Instant> {
        let now = Instant::now();
        let since = self.interface.view(self.node, now)?.last_handshake?;
        now.checked_sub(since)
    }
}

/// An echo request (RFC 792) for the server.
pub(super) fn echo_request(from: Ipv4Addr) -> Vec<u8> {
    let mut message = vec![8, 0, 0, 0, 0, 1, 0, 1];
    message.extend_from_slice(b"sixteen bytes ..");
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());

    let length = u16::try_from(20 + message.len()).unwrap();
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 1, 0, 0]);
    packet.extend(from.octets());
    packet.extend(SERVER.octets());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(message);
    packet
}
