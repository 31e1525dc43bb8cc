//! The properties of the path to a server: TCP, QUIC, and the length of packets.
//!
//! A server of QUIC answers every datagram of at least 1200 bytes with an unknown version, without
//! a handshake ([`hermes_proto::quic_version`]). So this finds whether UDP passes, and how long a
//! datagram may be, without any credential. The lengths are those on the way to the server.

mod search;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hermes_net::own_mark::marked;
use hermes_net::{machine, os};
use hermes_proto::quic_version::{self, ID, SHORTEST};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::{Instant, timeout, timeout_at};

use search::LengthSearch;

/// How long a connection may take.
#[doc(alias = "bound")]
const CONNECT: Duration = Duration::from_secs(5);

/// How long an answer is awaited before unanswered datagrams are sent again, and after the last
/// time.
#[doc(alias = "bound")]
const ANSWER: Duration = Duration::from_millis(400);

/// Times that a length is sent before it counts as lost.
#[doc(alias = "bound")]
const TIMES: usize = 3;

/// Times that a packet is handed to the system: a router's word about each of the others may come in between.
#[doc(alias = "bound")]
const SEND_TRIES: usize = 16;

/// The longest packet that is tried, in bytes: that of Ethernet with jumbo frames. A longer one helps no tunnel.
#[doc(alias = "bound")]
const LONGEST: usize = 9000;

/// Bytes of the headers of IP and UDP.
const IPV4_UDP: usize = 20 + 8;
const IPV6_UDP: usize = 40 + 8;

/// Room for an answer: much longer than any list of versions.
#[doc(alias = "bound")]
const ROOM: usize = 2048;

/// The findings about a path.
#[derive(Debug)]
pub struct PathReport {
    /// The address at its end.
    pub address: SocketAddr,
    /// How long a TCP connection took.
    pub tcp: io::Result<Duration>,
    /// The answer over QUIC, if there was one.
    pub quic: io::Result<QuicAnswer>,
    /// The longest packet of the route as the kernel knows it, in bytes.
    pub route_mtu: Option<usize>,
}

/// The answer of a QUIC server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuicAnswer {
    /// How long the first answer took.
    pub time: Duration,
    /// The versions that it supports.
    pub versions: Vec<u32>,
    /// The longest packet that arrived there, in bytes.
    pub mtu: usize,
}

/// A connection, past the devices of this process.
async fn connected(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    marked(socket?)?.connect(address).await
}

/// Tries a path, which takes a few seconds at most.
pub async fn measure_path(address: SocketAddr) -> PathReport {
    let begin = Instant::now();
    let connected = timeout(CONNECT, connected(address)).await;
    let tcp = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let tcp = tcp.map(|_| begin.elapsed());

    let socket = match machine::whole_datagrams(address) {
        Ok(socket) => socket,
        Err(error) => {
            return PathReport {
                address,
                tcp,
                quic: Err(error),
                route_mtu: None,
            };
        }
    };

    let route_mtu = os::path_mtu(&socket, address);
    let quic = ask(&socket, address, route_mtu).await;
    PathReport {
        address,
        tcp,
        quic,
        route_mtu,
    }
}

async fn ask(
    socket: &UdpSocket,
    address: SocketAddr,
    route_mtu: Option<usize>,
) -> io::Result<QuicAnswer> {
    let headers = match address {
        SocketAddr::V4(_) => IPV4_UDP,
        SocketAddr::V6(_) => IPV6_UDP,
    };
    let most = route_mtu.unwrap_or(LONGEST).min(LONGEST);
    let mut search = LengthSearch::new(SHORTEST, most.saturating_sub(headers));
    let mut first: Option<(Duration, Vec<u32>)> = None;

    loop {
        let lengths = search.next();
        if lengths.is_empty() {
            break;
        }
        let mut round = ProbeRound::new(lengths);
        let heard = round.run(socket).await?;
        search.handle_round(&round.lengths, round.longest());
        first = first.or(heard);
    }

    // No answer to the shortest: no longer one was waited for.
    let (first, found) = match (first, search.found()) {
        (Some(first), Some(found)) => (first, found),
        _ => return Err(io::ErrorKind::TimedOut.into()),
    };
    Ok(QuicAnswer {
        time: first.0,
        versions: first.1,
        mtu: found + headers,
    })
}

/// Probes that are sent at a time. An answer has the secret of the round and the length that it is about.
struct ProbeRound {
    secret: [u8; ID - 2],
    lengths: Vec<usize>,
    arrived: Vec<bool>,
}

impl ProbeRound {
    fn new(lengths: Vec<usize>) -> Self {
        let mut secret = [0; ID - 2];
        // The secret tells late answers of another round apart; it guards nothing.
        fastrand::fill(&mut secret);
        let arrived = vec![false; lengths.len()];
        Self {
            secret,
            lengths,
            arrived,
        }
    }

    /// Sends them, again if need be, and notes which were answered. Returns how long the first answer took, and its versions.
    async fn run(&mut self, socket: &UdpSocket) -> io::Result<Option<(Duration, Vec<u32>)>> {
        let mut first = None;
        for _ in 0..TIMES {
            let begin = Instant::now();
            self.send(socket).await?;
            while let Some(versions) = self.hear(socket, begin + ANSWER).await? {
                first.get_or_insert((begin.elapsed(), versions));
            }
            if self.arrived.iter().all(|arrived| *arrived) {
                break;
            }
        }
        Ok(first)
    }

    async fn send(&self, socket: &UdpSocket) -> io::Result<()> {
        // From long to short: if the long ones overflow a buffer, the last ones get through.
        for (index, length) in self.lengths.iter().enumerate().rev() {
            if self.arrived[index] {
                continue;
            }
            let probe = quic_version::encode_probe(self.id(index), *length);
            send_or_lose(socket, &probe).await?;
        }
        Ok(())
    }

    /// The versions of the next answer to one of them; `None` when the time has come, or all are
    /// answered.
    async fn hear(&mut self, socket: &UdpSocket, until: Instant) -> io::Result<Option<Vec<u32>>> {
        let mut room = [0; ROOM];
        while !self.arrived.iter().all(|arrived| *arrived) {
            let Ok(received) = timeout_at(until, socket.recv(&mut room)).await else {
                return Ok(None);
            };
            let length = match received {
                Ok(length) => length,
                // A router says that an earlier one was too long, which its silence would say as well.
                Err(error) if machine::is_too_long(&error) => continue,
                Err(error) => return Err(error),
            };
            let packet = &room[..length];
            let Some(answer) = quic_version::decode(packet) else {
                continue;
            };
            if let Some(index) = self.index(answer.to) {
                self.arrived[index] = true;
                return Ok(Some(answer.versions));
            }
        }
        Ok(None)
    }

    fn id(&self, index: usize) -> [u8; ID] {
        let mut id = [0; ID];
        id[..ID - 2].copy_from_slice(&self.secret);
        let number = u16::try_from(index).unwrap_or(u16::MAX);
        id[ID - 2..].copy_from_slice(&number.to_be_bytes());
        id
    }

    fn index(&self, id: &[u8]) -> Option<usize> {
        let number = id.strip_prefix(&self.secret)?;
        let index = usize::from(u16::from_be_bytes(number.try_into().ok()?));
        (index < self.lengths.len()).then_some(index)
    }

    fn longest(&self) -> Option<usize> {
        let both = self.lengths.iter().zip(&self.arrived);
        both.filter(|(_, arrived)| **arrived)
            .map(|(length, _)| *length)
            .max()
    }
}

/// Sends a packet, unless it is longer than the interface carries. The same error may be a router's word about an earlier packet, and then
/// nothing was sent: so it is tried again.
async fn send_or_lose(socket: &UdpSocket, packet: &[u8]) -> io::Result<()> {
    for _ in 0..SEND_TRIES {
        match socket.send(packet).await {
            Ok(_) => return Ok(()),
            Err(error) if machine::is_too_long(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Answers datagrams of at most `limit` bytes, the second time that they come.
    async fn server(limit: usize) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::spawn(async move {
            let mut room = [0; 65536];
            let mut seen = HashSet::new();
            while let Ok((length, from)) = socket.recv_from(&mut room).await {
                if seen.insert(length) || length > limit {
                    continue;
                }
                let mut answer = vec![0x80, 0, 0, 0, 0];
                answer.extend_from_slice(&room[14..23]);
                answer.extend_from_slice(&[0, 0, 0, 0, 1]);
                // One for someone else first, and one that is nothing.
                let mut other = answer.clone();
                other[6] ^= 1;
                for packet in [&other[..], b"noise", &answer] {
                    drop(socket.send_to(packet, from).await);
                }
            }
        });
        address
    }

    #[tokio::test]
    async fn finds_what_a_lossy_path_carries() {
        let address = server(1372).await;
        let socket = machine::whole_datagrams(address).unwrap();
        let found = ask(&socket, address, Some(1500)).await.unwrap();
        assert_eq!((found.mtu, found.versions), (1400, vec![1]));
    }

    #[tokio::test]
    async fn says_when_no_one_answers() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let report = measure_path(silent.local_addr().unwrap()).await;
        assert_eq!(report.quic.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(
            report.tcp.unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
    }
}
