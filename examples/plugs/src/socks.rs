//! An ingress that speaks another protocol, with users: a small SOCKS 5 (RFC 1928) whose clients show a password (RFC 1929), and ask for a
//! connection or for an association of UDP. Each destination of an association is a tunnel of its own.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_config::model::HostPort;
use hermes_http::{
    HeldClient, Incoming, Offered, Outgoing, RefusalReason, Replying, ResponseHead, h1,
};
use hermes_net::memory::{Memory, Owner};
use hermes_net::{PeerAddress, RecvBatch, Stream, StreamInfo, UdpSocket};
use hermes_packet::{Bounds, Hold, PacketEnd, Session, SessionKey, SessionTarget, Sessions};
use hermes_plug::arrival::PacketArrival;
use hermes_plug::opening_head::{connect, connect_udp};
use hermes_plug::{Gate, Ingress, Serving};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a client may take to say what it wants.
#[doc(alias = "bound")]
const TIME: Duration = Duration::from_secs(5);

/// Destinations of one association.
#[doc(alias = "bound")]
const DESTINATIONS: usize = 64;

/// What may wait of the datagrams to one destination until its tunnel is open.
#[doc(alias = "bound")]
const WAITING: Bounds = Bounds {
    bytes: 64 * 1024,
    age: Duration::from_secs(1),
};

const VERSION: u8 = 5;
const PASSWORD: u8 = 2;
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;
const SUCCEEDED: u8 = 0;

/// Types of addresses.
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// The bytes before the address of a datagram: two that are reserved, and the number of a fragment.
const DATAGRAM_START: [u8; 3] = [0; 3];

/// Takes clients that know one of these users' passwords.
pub struct Socks {
    passwords: HashMap<String, String>,
    refused: Arc<Mutex<Vec<RefusalReason>>>,
}

/// A client that is known, and said what it wants.
struct SocksRequest {
    user: String,
    command: u8,
    target: SessionTarget,
}

impl Socks {
    /// With the passwords of its users.
    pub fn new(passwords: HashMap<String, String>) -> Self {
        Self {
            passwords,
            refused: Arc::default(),
        }
    }

    /// Why destinations of associations were refused, which SOCKS cannot tell their clients.
    pub fn refused(&self) -> Arc<Mutex<Vec<RefusalReason>>> {
        self.refused.clone()
    }

    /// Reads methods, password and request.
    async fn request(&self, stream: &mut Stream) -> io::Result<Option<SocksRequest>> {
        if stream.read_u8().await? != VERSION {
            return Ok(None);
        }
        let methods = short_bytes(stream).await?;
        if !methods.contains(&PASSWORD) {
            stream.write_all(&[VERSION, 0xff]).await?;
            return Ok(None);
        }
        stream.write_all(&[VERSION, PASSWORD]).await?;

        let version = stream.read_u8().await?;
        let user = String::from_utf8(short_bytes(stream).await?).unwrap_or_default();
        let password = short_bytes(stream).await?;
        let is_right = self
            .passwords
            .get(&user)
            .is_some_and(|right| right.as_bytes() == password);
        if version != PASSWORD_VERSION || !is_right {
            stream.write_all(&[PASSWORD_VERSION, 1]).await?;
            return Ok(None);
        }
        stream.write_all(&[PASSWORD_VERSION, SUCCEEDED]).await?;

        let mut start = [0; 3];
        stream.read_exact(&mut start).await?;
        let mut address = vec![stream.read_u8().await?];
        let length = match address[0] {
            IPV4 => 4,
            IPV6 => 16,
            _ => {
                address.push(stream.read_u8().await?);
                usize::from(address[1])
            }
        };
        let begun = address.len();
        address.resize(begun + length + 2, 0);
        stream.read_exact(&mut address[begun..]).await?;
        Ok(SocksAddress::decode(&address).map(|address| SocksRequest {
            user,
            command: start[1],
            target: address.target,
        }))
    }

    /// Relays datagrams of one client until its connection ends.
    async fn associate(&self, mut stream: Stream, gate: &Gate) -> io::Result<()> {
        let local = stream
            .info()
            .local
            .map_or(IpAddr::from([127, 0, 0, 1]), |own| own.ip());
        let socket = std::net::UdpSocket::bind((local, 0))?;
        socket.set_nonblocking(true)?;
        let socket = Arc::new(UdpSocket::bound(socket)?);
        stream
            .write_all(&reply(SUCCEEDED, Some(socket.local_addr()?)))
            .await?;

        let mut association = Association {
            gate,
            client: stream.info().peer,
            sessions: Sessions::default(),
            hold: Hold::new(Memory::node().owner(Owner::Local)),
            socket: socket.clone(),
            refused: self.refused.clone(),
            tunnels: JoinSet::new(),
        };
        let mut batch = RecvBatch::new();
        loop {
            tokio::select! {
                received = socket.recv(&mut batch) => {
                    if received.is_ok() {
                        association.take(&batch);
                    }
                }
                _ = stream.read_u8() => return Ok(()),
            }
        }
    }
}

impl Ingress for Socks {
    fn connection(&self, mut stream: Stream, gate: Gate) -> Serving<'_> {
        Box::pin(async move {
            let asked = tokio::time::timeout(TIME, self.request(&mut stream)).await;
            let Ok(Ok(Some(asked))) = asked else {
                return;
            };
            let gate = gate.of_user(&asked.user);
            match (asked.command, asked.target.host_port()) {
                (CONNECT, Some(target)) => gate.hand_in(connection(&target, stream)).await,
                // One that is over has closed its connection, or broke it.
                (ASSOCIATE, _) => drop(self.associate(stream, &gate).await),
                _ => stream.abort(),
            }
        })
    }
}

/// A connection for a target, which is answered when that is.
fn connection(target: &HostPort, stream: Stream) -> Box<Offered> {
    let source = stream.info().clone();
    let client = Box::new(SocksClient { stream });
    Offered::held(connect(target), source, Incoming::Empty, client)
}

/// The datagrams of one client.
struct Association<'a> {
    gate: &'a Gate,
    client: PeerAddress,
    sessions: Sessions,
    hold: Arc<Hold>,
    socket: Arc<UdpSocket>,
    refused: Arc<Mutex<Vec<RefusalReason>>>,
    /// Ended with the association.
    tunnels: JoinSet<()>,
}

impl Association<'_> {
    fn take(&mut self, batch: &RecvBatch) {
        let now = Instant::now();
        for (source, datagram) in batch.datagrams() {
            let is_client = self.client.ip() == Some(source.ip());
            let headed = datagram.strip_prefix(&DATAGRAM_START).filter(|_| is_client);
            let Some(address) = headed.and_then(SocksAddress::decode) else {
                continue;
            };
            let (header, payload) = datagram.split_at(DATAGRAM_START.len() + address.length);
            let key = SessionKey {
                client: source,
                target: address.target,
            };
            let known = self.sessions.find(&key);
            if let Some(session) = known.or_else(|| self.begin(key, header)) {
                session.push(std::iter::once(payload), now);
            }
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
        let gate = self.gate.clone();
        let sessions = self.sessions.clone();
        let begun = session.clone();
        let refused = self.refused.clone();
        self.tunnels.spawn(async move {
            gate.hand_in(arrival).await;
            match begun.refusal() {
                // Its datagrams are dropped from now on: each would be refused again.
                Some(reason) => refused.lock().push(reason.clone()),
                None => sessions.leave(&key, &begun),
            }
        });
        Some(session)
    }
}

/// An address, as requests and datagrams have it.
struct SocksAddress {
    target: SessionTarget,
    /// Bytes.
    length: usize,
}

impl SocksAddress {
    /// The address at the beginning of some bytes.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let prefix = match *kind {
            IPV4 => 4,
            IPV6 => 16,
            NAME => 1 + usize::from(*rest.first()?),
            _ => return None,
        };
        let (host, rest) = rest.split_at_checked(prefix)?;
        let port = u16::from_be_bytes(*rest.first_chunk()?);
        let target = match host {
            [a, b, c, d] if *kind == IPV4 => {
                SessionTarget::Address(SocketAddr::from(([*a, *b, *c, *d], port)))
            }
            host if *kind == IPV6 => {
                let address: [u8; 16] = host.try_into().ok()?;
                SessionTarget::Address(SocketAddr::from((address, port)))
            }
            name => SessionTarget::Name(std::str::from_utf8(&name[1..]).ok()?.into(), port),
        };
        Some(Self {
            target,
            length: 1 + prefix + 2,
        })
    }
}

/// A client that has not been answered.
#[derive(Debug)]
struct SocksClient {
    stream: Stream,
}

impl HeldClient for SocksClient {
    fn accept(self: Box<Self>, _: Fields) -> Replying<(Incoming, Outgoing)> {
        let Self { mut stream } = *self;
        Box::pin(async move {
            stream.write_all(&reply(SUCCEEDED, None)).await?;
            let (read, write) = stream.split();
            let incoming = Incoming::H1(h1::BodyReceiver::bytes(read));
            let outgoing = Outgoing::H1(h1::BodySender::bytes(write));
            Ok((incoming, outgoing))
        })
    }

    fn respond(self: Box<Self>, _: ResponseHead, _: Option<u64>) -> Replying<Outgoing> {
        self.stream.abort();
        Box::pin(std::future::ready(Ok(Outgoing::Ended)))
    }

    fn refuse(
        mut self: Box<Self>,
        reason: RefusalReason,
        _: ResponseHead,
        _: Option<u64>,
    ) -> Replying<Outgoing> {
        Box::pin(async move {
            self.stream.write_all(&reply(code(&reason), None)).await?;
            self.stream.shutdown().await?;
            Ok(Outgoing::Ended)
        })
    }
}

/// The reply that says as much as SOCKS can say (RFC 1928, 6).
fn code(reason: &RefusalReason) -> u8 {
    match reason.error {
        ProxyError::HttpRequestDenied | ProxyError::DestinationIpProhibited => 2,
        ProxyError::DestinationIpUnroutable => 3,
        ProxyError::DestinationNotFound | ProxyError::DnsError | ProxyError::DnsTimeout => 4,
        ProxyError::ConnectionRefused => 5,
        _ => 1,
    }
}

/// A reply with the address of ours that it is about.
fn reply(code: u8, own: Option<SocketAddr>) -> Vec<u8> {
    let own = own.unwrap_or(SocketAddr::from(([0; 4], 0)));
    let mut reply = vec![VERSION, code, 0];
    match own.ip() {
        IpAddr::V4(address) => {
            reply.push(IPV4);
            reply.extend(address.octets());
        }
        IpAddr::V6(address) => {
            reply.push(IPV6);
            reply.extend(address.octets());
        }
    }
    reply.extend(own.port().to_be_bytes());
    reply
}

/// Bytes behind their number.
async fn short_bytes(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let length = stream.read_u8().await?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}
