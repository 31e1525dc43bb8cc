//! An association of UDP: the datagrams of one client, each of which says where it goes (RFC 1928, 7).

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_net::memory::{Memory, Owner};
use hermes_net::{PeerAddress, RecvBatch, Stream, StreamInfo, Transport, UdpError, UdpSocket};
use hermes_packet::{Bounds, Hold, PacketEnd, Session, SessionKey, SessionTarget, Sessions};
use hermes_plug::Gate;
use hermes_plug::arrival::PacketArrival;
use hermes_plug::opening_head::connect_udp;
use hermes_proto::socks::{SocksReply, SocksTarget, SocksVersion, decode_datagram};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::held::{dismiss, unknown};

/// Destinations of one association at once, each a tunnel.
#[doc(alias = "bound")]
const DESTINATIONS: usize = 64;

/// Datagrams to one destination that wait until its tunnel is open.
#[doc(alias = "bound")]
const WAITING: Bounds = Bounds {
    bytes: 64 * 1024,
    age: Duration::from_secs(5),
};

/// How long datagrams to a destination that was refused are dropped: it bounds the tunnels that a client makes us open in vain.
#[doc(alias = "bound")]
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// Silence of the client, and of all its tunnels, after which the association ends.
#[doc(alias = "bound")]
const SILENCE: Duration = Duration::from_secs(300);

/// Batches of datagrams that one wake-up takes from the socket, so that a flood leaves turns to others.
#[doc(alias = "bound")]
const BATCHES: usize = 4;

thread_local! {
    /// Room for datagrams while they are looked at: one for all associations of a worker.
    static BATCH: Cell<Option<Box<RecvBatch>>> = const { Cell::new(None) };
}

/// Carries datagrams of one client until its connection ends, or nothing has passed for long.
pub(crate) async fn associate(mut stream: Stream, gate: &Gate) {
    let socket = match socket(&stream) {
        Ok(socket) => Arc::new(socket),
        Err(reply) => {
            let reply = reply.encode(SocksVersion::V5, unknown());
            return dismiss(stream, &reply).await;
        }
    };
    // The address is that by which the client has reached us: it may know no other.
    let advertised = socket.local_addr().unwrap_or(unknown());
    let reply = SocksReply::Succeeded.encode(SocksVersion::V5, advertised);
    if stream.write_all(&reply).await.is_err() {
        return;
    }

    let peer = stream.info().peer;
    let association = Association {
        gate,
        ip: peer.ip().map(|ip| ip.to_canonical()),
        client: None,
        heard: Instant::now(),
        sessions: Sessions::default(),
        hold: Hold::new(Memory::node().owner(Owner::of(None, &peer))),
        socket,
        tunnels: JoinSet::new(),
    };
    association.run(&mut stream).await;
}

/// A socket for the datagrams of a client, at the address that its connection came to.
fn socket(stream: &Stream) -> Result<UdpSocket, SocksReply> {
    let info = stream.info();
    // One that a load balancer introduced is described by the load balancer's address.
    let local = match stream.transport() {
        Transport::Tcp(tcp) => tcp.local_addr().ok(),
        _ => info.local,
    };
    // A Unix socket has no address to send datagrams to.
    let local = local.filter(|_| info.peer.ip().is_some());
    let mut local = local.ok_or(SocksReply::CommandNotSupported)?;
    local.set_ip(local.ip().to_canonical());
    local.set_port(0);
    let bound = std::net::UdpSocket::bind(local).and_then(UdpSocket::bound);
    bound.map_err(|error| {
        tracing::warn!(%local, %error, "there is no socket for an association of SOCKS");
        SocksReply::GeneralFailure
    })
}

/// The datagrams of one client.
struct Association<'a> {
    gate: &'a Gate,
    /// The address of its connection.
    ip: Option<IpAddr>,
    /// Where its datagrams come from: the first one says the port.
    client: Option<SocketAddr>,
    /// When the last of them came.
    heard: Instant,
    sessions: Sessions,
    hold: Arc<Hold>,
    socket: Arc<UdpSocket>,
    /// Ended with the association.
    tunnels: JoinSet<()>,
}

impl Association<'_> {
    async fn run(mut self, stream: &mut Stream) {
        let mut ignored = [0; 64];
        let mut look = Instant::now() + SILENCE;
        loop {
            tokio::select! {
                ready = self.socket.readable() => {
                    if ready.is_err() || self.receive().is_err() {
                        return;
                    }
                    tokio::task::consume_budget().await;
                }
                // The connection says by its end alone that the association is over (RFC 1928, 6).
                read = stream.read(&mut ignored) => {
                    if read.unwrap_or(0) == 0 {
                        return;
                    }
                }
                Some(_) = self.tunnels.join_next(), if !self.tunnels.is_empty() => {}
                () = sleep_until(look) => {
                    let silent_since = self.heard + SILENCE;
                    let is_silent = silent_since <= Instant::now() && self.sessions.is_empty();
                    if is_silent {
                        return;
                    }
                    look = silent_since.max(Instant::now() + SILENCE / 4);
                }
            }
        }
    }

    /// Takes datagrams that are there.
    fn receive(&mut self) -> io::Result<()> {
        let mut batch = BATCH.take().unwrap_or_else(|| Box::new(RecvBatch::new()));
        for _ in 0..BATCHES {
            match self.socket.try_recv(&mut batch) {
                Ok(Some(_)) => self.take(&batch),
                Ok(None) => break,
                Err(UdpError::Io(error)) => return Err(error),
                // About a datagram to a client that is not there, which its connection will say.
                Err(_) => break,
            }
        }
        BATCH.set(Some(batch));
        Ok(())
    }

    fn take(&mut self, batch: &RecvBatch) {
        let now = Instant::now();
        for (source, datagram) in batch.datagrams() {
            if !self.is_client(source) {
                continue;
            }
            // Fragments are dropped too, as those must who do not put them together (RFC 1928, 7).
            let Ok((target, length)) = decode_datagram(datagram) else {
                continue;
            };
            let Some(target) = session_target(target) else {
                continue;
            };
            self.client = Some(source);
            self.heard = now;

            let (header, payload) = datagram.split_at(length);
            let key = SessionKey {
                client: source,
                target,
            };
            let known = self.sessions.find(&key);
            if let Some(session) = known.or_else(|| self.begin(key, header)) {
                session.push(std::iter::once(payload), now);
            }
        }
    }

    /// Whether datagrams from there are those of the client: others could only pretend.
    fn is_client(&self, source: SocketAddr) -> bool {
        match self.client {
            Some(client) => client == source,
            None => self.ip == Some(source.ip().to_canonical()),
        }
    }

    /// Begins the tunnel to another destination.
    fn begin(&mut self, key: SessionKey, header: &[u8]) -> Option<Arc<Session>> {
        let head = key.target.host_port().as_ref().and_then(connect_udp)?;
        self.sessions.make_room(DESTINATIONS).ok()?;
        let session = Session::new(key.client, None, self.socket.clone(), WAITING, &self.hold);
        let session = Arc::new(session.answered_with(Bytes::copy_from_slice(header)));
        self.sessions.enter(key.clone(), session.clone());

        let arrival = PacketArrival {
            head,
            source: Arc::new(StreamInfo {
                peer: PeerAddress::Ip(key.client),
                local: self.socket.local_addr().ok(),
                tls: None,
                origin: None,
            }),
            end: PacketEnd::Session(session.clone()),
        };
        let tunnel = Tunnel {
            gate: self.gate.clone(),
            sessions: self.sessions.clone(),
            session: session.clone(),
            key,
        };
        self.tunnels.spawn(tunnel.carry(arrival));
        Some(session)
    }
}

/// The tunnel to one destination.
struct Tunnel {
    gate: Gate,
    sessions: Sessions,
    session: Arc<Session>,
    key: SessionKey,
}

impl Tunnel {
    async fn carry(self, arrival: PacketArrival) {
        self.gate.hand_in(arrival).await;
        if self.session.is_refused() {
            // Each of its datagrams would be refused again; the table may need the room before that.
            tokio::select! {
                () = tokio::time::sleep(REFUSED_FOR) => {}
                () = self.session.evicted() => {}
            }
        }
        self.sessions.leave(&self.key, &self.session);
    }
}

fn session_target(target: SocksTarget) -> Option<SessionTarget> {
    let SocksTarget { host, port } = target;
    if port == 0 {
        return None;
    }
    Some(match host.parse::<IpAddr>() {
        Ok(address) => SessionTarget::Address(SocketAddr::from((address, port))),
        Err(_) => SessionTarget::Name(host.into(), port),
    })
}

#[cfg(test)]
mod tests {
    use hermes_plug::arrival::Arrival;
    use hermes_plug::{CheckingPassword, Serving, ShownPassword, Takes};

    use super::*;

    /// Takes tunnels that last until they are ended.
    struct Taking;

    impl Takes for Taking {
        fn target(&self) -> Option<&hermes_config::model::HostPort> {
            None
        }

        fn take(&self, arrival: Arrival) -> Serving<'_> {
            Box::pin(async move {
                let lasting = Duration::from_secs(1000);
                tokio::time::sleep(lasting).await;
                drop(arrival);
            })
        }

        fn of_user(&self, _: &str) -> Arc<dyn Takes> {
            Arc::new(Self)
        }

        fn requires_password(&self) -> Option<bool> {
            None
        }

        fn of_password<'a>(&'a self, _: ShownPassword<'a>) -> CheckingPassword<'a> {
            Box::pin(std::future::ready(None))
        }
    }

    /// An association and its client's end of the connection.
    fn begin() -> (tokio::task::JoinHandle<()>, tokio::io::DuplexStream) {
        let (near, far) = tokio::io::duplex(1000);
        let local = SocketAddr::from(([127, 0, 0, 1], 1));
        let info = StreamInfo {
            peer: PeerAddress::Ip(local),
            local: Some(local),
            tls: None,
            origin: None,
        };
        let stream = Stream::other(Box::new(near), info);
        let served = async move { associate(stream, &Gate::new(Arc::new(Taking))).await };
        (tokio::spawn(served), far)
    }

    #[tokio::test(start_paused = true)]
    async fn an_association_of_which_nothing_is_heard_ends() {
        let began = Instant::now();
        let (served, _control) = begin();
        served.await.unwrap();
        let lasted = began.elapsed();
        assert!(
            lasted >= SILENCE && lasted <= SILENCE + SILENCE / 4,
            "{lasted:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_association_stays_while_one_of_its_tunnels_does() {
        let began = Instant::now();
        let (served, mut control) = begin();
        let mut reply = [0; 10];
        control.read_exact(&mut reply).await.unwrap();
        let port = u16::from_be_bytes([reply[8], reply[9]]);
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let said = [0, 0, 0, 1, 127, 0, 0, 1, 0, 9, b'x'];
        client.send_to(&said, ("127.0.0.1", port)).unwrap();

        served.await.unwrap();
        let lasted = began.elapsed();
        assert!(lasted >= Duration::from_secs(1000), "{lasted:?}");
        assert!(lasted <= Duration::from_secs(1000) + SILENCE, "{lasted:?}");
    }
}
