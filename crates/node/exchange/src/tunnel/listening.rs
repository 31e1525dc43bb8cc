//! A CONNECT that waits for a connection of its target (`Hermes-Listen`), where the overlay ends: a port of this node, for a time.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use hermes_admit::next::Next;
use hermes_admit::reevaluate::{Opened, TunnelGuard, enter};
use hermes_admit::routed::Routed;
use hermes_admit::shares::waiting_ports::WaitingPort;
use hermes_config::model::{Bind, BindTcp};
use hermes_http::{Duplex, Frame, Kind, RequestHead, Reset};
use hermes_net::{ExpectedPort, Stream};
use hermes_observe::CLIENT_CLOSED;
use hermes_packet::Broken;
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_protocol::{self, Header, Version};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::tcp_bind;
use hermes_upstream::{Active, Directory, UdpPath};
use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::bridges::{self, Bridges};
use super::bytes::ByteTunnel;
use crate::carried::Carried;
use crate::failed::Failed;
use crate::reach::departure::depart;
use crate::reach::retry::Tries;
use crate::reach::termination::halves;
use crate::reach::{descriptor_share, dial_udp, form};

/// How long a port waits, where the route does not say.
#[doc(alias("bound", "bind.tcp.wait"))]
const WAIT: Duration = Duration::from_secs(120);

/// Ports that wait for one user at once, or for one source, where the route does not say.
#[doc(alias("bound", "bind.tcp.per_user"))]
const PER_USER: u16 = 4;

/// Descriptors of one that waits: those of the port and of its connection.
const DESCRIPTORS: usize = 2;

/// Whether an exchange waits for its target.
pub(crate) fn is_asked_for(arrival: &Arrival) -> bool {
    matches!(arrival.kind(), Kind::Connect | Kind::ConnectTcp)
        && tcp_bind::is_asked_for(&arrival.head().fields)
}

/// A port that is open.
struct Waiting {
    port: ExpectedPort,
    /// Who may connect; `None` where anyone may whom the egress rules allow.
    peer: Option<IpAddr>,
    /// The address that the client is told.
    told: SocketAddr,
    until: Instant,
    _permit: WaitingPort,
}

/// How waiting ended.
enum Waited {
    Connected(Stream),
    TooLong,
    ClientLeft,
    Forbidden(Broken),
}

/// Opens the port and waits for its connection, which becomes the far end of the tunnel.
pub(crate) async fn open(
    routed: &Routed,
    arrival: Arrival,
    next: &Next,
    bridges: Option<Box<Bridges>>,
) -> Result<Carried, Failed> {
    let waiting = match Waiting::begin(routed, arrival.head(), next).await {
        Ok(waiting) => waiting,
        Err(refusal) => return Err(Failed::untouched(arrival, refusal)),
    };

    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());
    let chosen = waiting.peer.map(|ip| SocketAddr::new(ip, 0));
    let opened = Opened::new(routed, arrival.head(), next, chosen);
    let mut guard = enter(routed, opened, false);
    let kind = arrival.kind();
    let mut fields = form::opening_fields(routed, kind);
    fields.insert(tcp_bind::HERMES_LISTEN, tcp_bind::answer(waiting.told));
    if let Some(bridges) = &bridges {
        bridges.confirm(&mut fields);
    }

    let mut client = match arrival.accept(fields).await {
        Ok(End::Stream(incoming, outgoing)) => {
            form::bytes(kind, Kind::Connect, Duplex { incoming, outgoing })
        }
        Ok(End::Packets(_)) => {
            let reason = "proxy_internal_error: datagrams cannot enter a TCP connection";
            return Ok(Carried::Over(reason.to_owned()));
        }
        Err(error) => return Ok(Carried::Over(format!("{CLIENT_CLOSED}: {error}"))),
    };

    let stream = match waiting.connection(routed, &mut client, &mut guard).await {
        Waited::Connected(stream) => stream,
        ended => return Ok(Carried::Over(over(ended, client).await)),
    };
    Ok(bridges::tunnel(
        ByteTunnel {
            client,
            target: introduced(stream),
            guard,
            _active: Active::default(),
            learner: None,
        },
        bridges,
    ))
}

impl Waiting {
    async fn begin(routed: &Routed, head: &RequestHead, next: &Next) -> Result<Self, Refusal> {
        let bind = routed.route.config.bind.as_ref();
        let rules = bind.and_then(|bind| Some((bind, bind.tcp.as_ref()?)));
        let Some((bind, tcp)) = rules.filter(|_| next.is_target()) else {
            let details = "the route does not say `bind: { tcp }`: it waits for no connections";
            return Err(forbidden(details));
        };

        let owner = routed.owner();
        let most = tcp.per_user.unwrap_or(PER_USER).into();
        let permit = routed
            .worker
            .shared
            .shares
            .waiting_ports
            .take(owner, most)
            .ok_or_else(|| {
                let details = format!("{most} ports wait for this user or source already");
                let refusal = Refusal::new(ProxyError::ConnectionLimitReached, details);
                refusal.status(StatusCode::TOO_MANY_REQUESTS)
            })?;
        descriptor_share::take_all(routed, DESCRIPTORS)?;

        let (is_ipv4, peer) = expected(routed, head, next, tcp).await?;
        let (port, told) = port(routed, bind, tcp, is_ipv4)?;
        Ok(Self {
            port,
            peer,
            told,
            until: Instant::now() + tcp.wait.map_or(WAIT, |wait| wait.0),
            _permit: permit,
        })
    }

    /// Waits for the peer, while the client does.
    async fn connection(
        self,
        routed: &Routed,
        client: &mut Duplex,
        guard: &mut TunnelGuard,
    ) -> Waited {
        let is_expected = |peer: SocketAddr| match self.peer {
            Some(expected) => expected == peer.ip(),
            None => routed.worker.snapshot().may_choose(peer).is_ok(),
        };
        let connection = timeout_at(self.until, self.port.connection(is_expected));
        tokio::select! {
            connected = connection => connected.map_or(Waited::TooLong, Waited::Connected),
            () = left(client) => Waited::ClientLeft,
            reason = guard.ended() => Waited::Forbidden(Broken::policy(&reason)),
        }
    }
}

/// Who may connect, and by IPv4 or not.
async fn expected(
    routed: &Routed,
    head: &RequestHead,
    next: &Next,
    tcp: &BindTcp,
) -> Result<(bool, Option<IpAddr>), Refusal> {
    let host = routed.target.as_host().map(|target| &*target.host);
    let literal = host.and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
    if let Some(any) = literal.filter(IpAddr::is_unspecified) {
        if !tcp.anyone {
            let details = "the route does not say `bind: { tcp: { anyone: true } }`: name the peer";
            return Err(forbidden(details));
        }
        return Ok((any.is_ipv4(), None));
    }

    // The address of a name, where the egress rules allow that, as a session of UDP would have it.
    let (_, target) = depart(routed, head.clone(), next)?;
    let tries = Tries::new(routed, next, head);
    match dial_udp(&tries, &target).await?.path {
        UdpPath::Address(address) => {
            let ip = address.ip().to_canonical();
            Ok((ip.is_ipv4(), Some(ip)))
        }
        UdpPath::Tunnel(..) => Err(forbidden("the target is beyond another proxy")),
    }
}

/// A port, and the address that the client is told.
fn port(
    routed: &Routed,
    bind: &Bind,
    tcp: &BindTcp,
    is_ipv4: bool,
) -> Result<(ExpectedPort, SocketAddr), Refusal> {
    let Some(own) = OwnAddress::of(bind, is_ipv4) else {
        let details = "`bind.listen` has no address of the target's family";
        return Err(Refusal::new(ProxyError::DestinationIpUnroutable, details));
    };

    let from = routed.worker.shared.snapshot.target_local_end();
    let low = tcp.ports.low;
    let count = tcp.ports.high - low + 1;
    let random = fastrand::u16(..);
    let port = ExpectedPort::open(&from, own.local, low, count, random).map_err(|error| {
        let details = format!("no port of bind.tcp.ports could be opened: {error}");
        Refusal::new(ProxyError::ConnectionLimitReached, details)
    })?;

    let told = SocketAddr::new(own.told, port.address().port());
    Ok((port, told))
}

/// An address of this machine for ports.
struct OwnAddress {
    local: IpAddr,
    /// The same for clients.
    told: IpAddr,
}

impl OwnAddress {
    /// The one of a family, if there is one.
    fn of(bind: &Bind, is_ipv4: bool) -> Option<Self> {
        let mut own = bind.listen.iter().map(|text| text.parse::<IpAddr>());
        let own = own.position(|own| own.is_ok_and(|own| own.is_ipv4() == is_ipv4))?;
        let address = |texts: &[String]| texts.get(own)?.parse::<IpAddr>().ok();
        let local = address(&bind.listen)?;
        let public = bind.public.as_ref().and_then(|public| address(public));
        Some(Self {
            local,
            told: public.unwrap_or(local),
        })
    }
}

/// Tells the client of a connection to this address which one ports would have that are opened beside it, where the route opens any: FTP
/// names it to its server, and knows no other.
pub(crate) fn tell_local(routed: &Routed, target: Option<SocketAddr>, fields: &mut Fields) {
    let bind = routed.route.config.bind.as_ref();
    let Some((bind, target)) = bind.filter(|bind| bind.tcp.is_some()).zip(target) else {
        return;
    };
    let is_ipv4 = target.ip().to_canonical().is_ipv4();
    if let Some(own) = OwnAddress::of(bind, is_ipv4) {
        let local = tcp_bind::answer(SocketAddr::new(own.told, 0));
        fields.insert(tcp_bind::HERMES_LOCAL, local);
    }
}

/// Waits until the client has left. Bytes that it sends meanwhile stay for the target, and it is then known to be gone by a reset alone.
async fn left(client: &mut Duplex) {
    if let Some(Ok(Frame::Data(data))) = client.incoming.frame().await {
        client.incoming.unread(data);
        client.outgoing.gone().await;
    }
}

/// Ends a tunnel that no one has connected to; the reason for the record.
async fn over(waited: Waited, mut client: Duplex) -> String {
    match waited {
        Waited::Forbidden(broken) => {
            client.outgoing.reset(broken.reset);
            broken.reason()
        }
        Waited::ClientLeft => {
            client.outgoing.reset(Reset::Cancel);
            format!("{CLIENT_CLOSED}: before a connection came")
        }
        Waited::TooLong | Waited::Connected(_) => {
            // An end without a header says that there was no connection. Whether the client hears it is its own affair.
            drop(client.outgoing.finish(None).await);
            "connection_timeout: no connection came in bind.tcp.wait".to_owned()
        }
    }
}

/// Both directions of a connection, behind the addresses of its two ends.
fn introduced(stream: Stream) -> Duplex {
    let info = stream.info();
    let header = match (info.peer.socket(), info.local) {
        (Some(source), Some(destination)) => Header::Proxied {
            source,
            destination,
        },
        _ => Header::Unknown,
    };
    let header = proxy_protocol::encode(Version::V2, header);
    let mut target = halves(stream);
    target.incoming.unread(Bytes::from(header));
    target
}

fn forbidden(details: &str) -> Refusal {
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::FORBIDDEN)
}
