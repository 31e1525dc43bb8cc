//! `tun` listeners: the packets that this machine sends into a device become one CONNECT-IP exchange.
//!
//! The exchange is an ordinary one: it is routed by its fields and its user, and where it goes its capsules go. When it ends, or no one
//! takes it, another is begun after a pause; the device, its addresses and its routes stay meanwhile.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_http::{
    HeldClient, Incoming, Offered, Outgoing, Replying, RequestHead, ResponseHead, StreamError, pipe,
};
use hermes_ip::PacketScope;
use hermes_net::tun::TunSettings;
use hermes_net::{PeerAddress, StreamInfo, Watch};
use hermes_observe::{AccessSink, Begin, Exchange, Telemetry};
use hermes_packet::tun::{TunClient, TunHub, TunService, TunTunnel, carry};
use hermes_packet::{Side, Sink, Source};
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::datagram_limit;
use hermes_proto::fields::Fields;
use hermes_proto::ip::IpPrefix;
use hermes_proto::upgrade::Protocol;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, StatusCode, Version};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::arrival::Arrival;
use crate::devices::{prefix, read};
use crate::entrance::Entrance;
use crate::pipeline;

/// Any packets (RFC 9484, section 3).
const ANY: &str = "/.well-known/masque/ip/*/*/";

/// The first pause after a tunnel that could not be had; each is twice the one before.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: how late this machine may notice that the overlay is there again.
#[doc(alias = "bound")]
const LONGEST: Duration = Duration::from_secs(5);

/// How long a tunnel must last for the next pause to begin small again.
const GOOD: Duration = Duration::from_secs(5);

/// How long the end of a tunnel may take to be sent.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_secs(1);

/// Keeps a tunnel for the packets of a device until told to stop.
pub(super) async fn serve(
    mut entrance: Entrance,
    settings: TunSettings,
    watch: &Watch,
) -> io::Result<()> {
    let hub = open(&entrance, settings).map_err(io::Error::other)?;
    let own = watch.clone();
    let reading = hub.clone();
    watch.spawn(async move { read(&reading, &own).await });

    let mut pause = PAUSE;
    while !watch.is_draining() && !hub.is_closed() {
        entrance.renew();
        let began = Instant::now();
        let ended = one(&entrance, &hub, watch).await;
        if watch.is_draining() {
            break;
        }

        if began.elapsed() >= GOOD {
            pause = PAUSE;
        }
        let listener = &entrance.rules.name;
        tracing::warn!(%listener, reason = ended, "the device has no tunnel");
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST),
            () = watch.graceful() => {}
        }
    }
    hub.close();
    Ok(())
}

fn open(entrance: &Entrance, settings: TunSettings) -> Result<Arc<TunHub>, String> {
    let details = entrance
        .rules
        .config
        .tun
        .as_ref()
        .and_then(|tun| tun.details());
    let configured = details.map_or(&[][..], |details| &details.addresses);
    let host = |net: &ipnet::IpNet| IpPrefix::host(net.addr());
    let addresses = configured.iter().map(host).collect();
    let routes: Vec<IpPrefix> = settings.routes.iter().filter_map(prefix).collect();
    let service = TunService::Client(TunClient::new(addresses, &routes));
    TunHub::open(settings, service)
}

/// One tunnel, from its request to its end; why it ended.
async fn one(entrance: &Entrance, hub: &Arc<TunHub>, watch: &Watch) -> String {
    let (granted, answer) = oneshot::channel();
    let source = source(hub);
    let offered = Offered::held(
        head(),
        source.clone(),
        Incoming::Empty,
        Box::new(WaitingDevice(granted)),
    );
    let mut exchange = pin!(pipeline::run(entrance, Arrival::Offered(offered)));

    let answer = tokio::select! {
        answer = answer => answer,
        () = &mut exchange => return "the exchange was cut off".to_owned(),
        () = watch.graceful() => return "this node ends".to_owned(),
    };
    let granted = match answer {
        Ok(Ok(granted)) => granted,
        Ok(Err(reason)) => {
            // Its record is written first.
            exchange.await;
            return reason;
        }
        Err(_) => return "the exchange was cut off".to_owned(),
    };

    let listener = &entrance.rules.name;
    tracing::info!(%listener, device = hub.name(), "the device has a tunnel");
    let counted = counted(entrance, &source);
    let carried = pin!(through(&counted, hub, granted, watch));
    let (ended, ()) = tokio::join!(carried, exchange);
    ended
}

/// Carries packets through a tunnel that was opened.
async fn through(
    exchange: &Exchange,
    hub: &Arc<TunHub>,
    granted: OpenedTunnel,
    watch: &Watch,
) -> String {
    let tunnel = match TunTunnel::open(hub, "", PacketScope::any()) {
        Ok(tunnel) => Arc::new(tunnel),
        Err(error) => return error.to_string(),
    };
    let OpenedTunnel {
        fields,
        incoming,
        outgoing,
    } = granted;
    let listens = datagram_limit::is_understood(&fields);
    let mut source = Source::stream(incoming, DatagramFormat::IP);
    let sink = Sink::stream(outgoing, DatagramFormat::IP);

    let ended = tokio::select! {
        ended = carry(exchange, tunnel, (&mut source, &sink), Side::Target, listens) => ended,
        () = watch.graceful() => Ok("done"),
    };
    match ended {
        Ok(reason) => {
            let _ = tokio::time::timeout(FAREWELL, sink.finish()).await;
            let _ = tokio::time::timeout(FAREWELL, source.drain()).await;
            reason.to_owned()
        }
        Err(broken) => {
            sink.reset(broken.reset);
            broken.reason()
        }
    }
}

/// What counts the packets at this end of the pipe. The exchange behind it has a record of its own, with the same figures.
fn counted(entrance: &Entrance, source: &StreamInfo) -> Exchange {
    let telemetry = Telemetry::new(&entrance.rules.name, AccessSink::off());
    telemetry.begin(Begin {
        kind: "connect-ip",
        listener: entrance.rules.name.clone(),
        source: source.peer,
        protocol: "tun",
    })
}

/// The device is the peer, by the address that it has.
fn source(hub: &TunHub) -> Arc<StreamInfo> {
    let address = hub.settings().addresses.first().map(ipnet::IpNet::addr);
    let peer = match address {
        Some(address) => PeerAddress::Ip(SocketAddr::new(address, 0)),
        None => PeerAddress::Unix { uid: None },
    };
    Arc::new(StreamInfo {
        peer,
        local: None,
        tls: None,
    })
}

/// The CONNECT-IP that a device means.
fn head() -> RequestHead {
    let fields = [
        (CAPSULE_PROTOCOL, HeaderValue::from_static("?1")),
        (datagram_limit::FIELD, datagram_limit::understood()),
    ];
    RequestHead {
        method: Method::CONNECT,
        scheme: Some(Scheme::HTTPS),
        authority: Some(Authority::from_static("localhost")),
        path: Some(PathAndQuery::from_static(ANY)),
        protocol: Some(Protocol::ConnectIp),
        fields: Fields::from_iter(fields),
        // It is the extended CONNECT of HTTP/2 until a hop writes it otherwise.
        version: Version::HTTP_2,
        origin_form: false,
    }
}

/// A tunnel that was opened.
#[derive(Debug)]
struct OpenedTunnel {
    fields: Fields,
    incoming: Incoming,
    outgoing: Outgoing,
}

/// The device, while it waits for its tunnel.
#[derive(Debug)]
struct WaitingDevice(oneshot::Sender<Result<OpenedTunnel, String>>);

impl HeldClient for WaitingDevice {
    fn accept(self: Box<Self>, fields: Fields) -> Replying<(Incoming, Outgoing)> {
        let (outgoing, far_incoming) = pipe(None);
        let (far_outgoing, incoming) = pipe(None);
        let granted = OpenedTunnel {
            fields,
            incoming,
            outgoing,
        };
        // A device that is gone has dropped its ends of the pipes.
        let _ = self.0.send(Ok(granted));
        Box::pin(async { Ok((far_incoming, far_outgoing)) })
    }

    fn respond(self: Box<Self>, head: ResponseHead, _: Option<u64>) -> Replying<Outgoing> {
        let reason = said(&head);
        let _ = self.0.send(Err(reason));
        Box::pin(async { Ok::<_, StreamError>(Outgoing::Ended) })
    }
}

/// Why the tunnel was refused.
fn said(head: &ResponseHead) -> String {
    let status: StatusCode = head.status;
    let cause = head
        .fields
        .get("proxy-status")
        .and_then(|value| value.to_str().ok());
    match cause {
        Some(cause) => format!("refused with {status}: {cause}"),
        None => format!("refused with {status}"),
    }
}
