//! `tun` listeners: the packets that this machine sends into a device become one CONNECT-IP exchange, or several (`split.rs`).
//!
//! The exchange is an ordinary one: it is routed by its fields and its user, and where it goes its capsules go. When it ends, or no one
//! takes it, another is begun after a pause; the device, its addresses and its routes stay meanwhile.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::entrance::Entrance;
use hermes_admit::remote_device;
use hermes_config::model::{TunDetails, Wireguard};
use hermes_exchange as pipeline;
use hermes_http::{
    HeldClient, Incoming, Offered, Outgoing, Replying, RequestHead, ResponseHead, StreamError, pipe,
};
use hermes_ip::PacketScope;
use hermes_ip::offload::agreement;
use hermes_net::machine_tag::machine_tag;
use hermes_net::tun::TunSettings;
use hermes_net::{PeerAddress, StreamInfo, Watch};
use hermes_observe::{AccessSink, Begin, Exchange, Telemetry};
use hermes_packet::tun::{
    DEVICE_FIELD, DevicePart, NamedHosts, NodePools, OtherAssigned, StackDeviceSettings, TunClient,
    TunHub, TunService, TunTunnel, TunnelOwner, carry,
};
use hermes_packet::{Side, Sink, Source};
use hermes_plug::arrival::Arrival;
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::datagram_limit;
use hermes_proto::fields::Fields;
use hermes_proto::ip::IpPrefix;
use hermes_proto::upgrade::Protocol;
use hermes_rules::packets::prefix_of;
use hermes_stack::{EchoHandling, StackSettings};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, StatusCode, Version};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{named, split};
use crate::device_upkeep::{DATAGRAMS, mind};

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

/// The device of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerTun {
    /// What it is to be.
    pub settings: TunSettings,
    /// What happens where its tunnel assigns other addresses.
    pub other: OtherAssigned,
    /// Whether its tunnels offer super-packets.
    pub super_packets: bool,
    /// Whether there is no device, but what routes send there.
    pub is_stack: bool,
    /// The names behind some of the addresses that are led to it.
    pub names: Option<ListenerNames>,
    /// The machine that has the device, if it is not this one.
    pub wireguard: Option<Box<Wireguard>>,
}

/// The names behind the device of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerNames {
    /// Of what each gets an address.
    pub pool: Vec<IpPrefix>,
    /// What becomes of their pings.
    pub echo: EchoHandling,
    /// Whether there are tunnels beside them.
    pub has_tunnels: bool,
}

/// Keeps a tunnel for the packets of a device until told to stop.
pub(super) async fn serve(
    mut entrance: Entrance,
    tun: ListenerTun,
    watch: &Watch,
) -> io::Result<()> {
    entrance.renew();
    let has_tunnels = tun.names.as_ref().is_none_or(|names| names.has_tunnels);
    let Some(hub) = opened(&entrance, tun, watch).await? else {
        return Ok(());
    };
    let listener = entrance.rules.name.clone();
    let devices = &entrance.worker.shared.clone().devices;
    devices.listens(&listener, &hub);
    let own = watch.clone();
    let minded = hub.clone();
    watch.spawn(async move { mind(&minded, &own).await });

    watch.spawn(named::serve(entrance.clone(), hub.clone(), watch.clone()));

    if !has_tunnels {
        tokio::select! {
            () = hub.closed() => {}
            () = watch.graceful() => {}
        }
    } else if hub.is_split() {
        split::serve(&mut entrance, &hub, watch).await;
    } else {
        keep(&mut entrance, &hub, watch).await;
    }
    // Connections to names go on for a while where the node ends, and not where there is to be another device.
    if hub.names().is_some() && entrance.worker.shared.drain.is_draining() {
        hub.closed().await;
    }
    devices.leaves(&listener, &hub);
    hub.close();
    Ok(())
}

/// Keeps one tunnel of a device until told to stop.
pub(super) async fn keep(entrance: &mut Entrance, hub: &Arc<TunHub>, watch: &Watch) {
    let listener = entrance.rules.name.clone();
    let devices = &entrance.worker.shared.clone().devices;
    let mut pause = PAUSE;
    while !watch.is_draining() && !hub.is_closed() {
        entrance.renew();
        let began = Instant::now();
        let ended = one(entrance, hub, watch).await;
        if watch.is_draining() {
            break;
        }

        if began.elapsed() >= GOOD {
            pause = PAUSE;
        }
        let tunnel = entrance.tunnel.as_deref();
        tracing::warn!(%listener, tunnel, reason = ended, "the device has no tunnel");
        devices.has_tunnel(&listener, tunnel, Err(ended));
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST),
            () = watch.graceful() => {}
            () = hub.closed() => {}
        }
    }
}

/// Opens the device of a listener; none: the listener ends before.
///
/// # Errors
/// There is no device. One on another machine is tried again: what it takes may be that of a listener which is about to end.
async fn opened(
    entrance: &Entrance,
    tun: ListenerTun,
    watch: &Watch,
) -> io::Result<Option<Arc<TunHub>>> {
    let mut pause = PAUSE;
    let mut said = None;
    let devices = &entrance.worker.shared.devices;
    let listener = &entrance.rules.name;
    let port = tun.wireguard.as_ref();
    let port = port.and_then(|wireguard| wireguard.listen.socket_address());
    loop {
        let reason = match open(entrance, tun.clone()) {
            Ok(hub) => return Ok(Some(hub)),
            Err(reason) => reason,
        };
        devices.lacks(listener, &tun.settings.name, &reason);
        if tun.wireguard.is_none() {
            return Err(io::Error::other(reason));
        }
        // The first time it may be over at once.
        if pause > PAUSE && said.as_ref() != Some(&reason) {
            tracing::error!(device = tun.settings.name, "{reason}");
            said = Some(reason);
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST),
            () = devices.ports().freed(port.as_slice()) => {}
            () = watch.graceful() => {
                devices.wants_none(listener);
                return Ok(None);
            }
        }
    }
}

/// What is led to the device: errors about packets come from there.
fn led(tun: &ListenerTun, details: Option<&TunDetails>) -> Vec<IpPrefix> {
    let mut routes: Vec<IpPrefix> = tun.settings.routes.iter().filter_map(prefix_of).collect();
    let tunnels = details.map(|details| &details.tunnels);
    let tunnels = tunnels.into_iter().flat_map(|tunnels| tunnels.values());
    let split = tunnels.flat_map(|tunnel| tunnel.prefixes.iter());
    routes.extend(split.filter_map(prefix_of));
    if tun.wireguard.is_some() {
        // The other machine believes errors only from where it sends packets to, which is the network of its address as well.
        let networks = tun.settings.addresses.iter().map(ipnet::IpNet::trunc);
        let networks = networks.filter(|net| net.prefix_len() < net.max_prefix_len());
        routes.extend(networks.filter_map(|net| prefix_of(&net)));
    }
    routes
}

fn open(entrance: &Entrance, tun: ListenerTun) -> Result<Arc<TunHub>, String> {
    let details = entrance
        .rules
        .config
        .tun
        .as_ref()
        .and_then(|tun| tun.details());
    let configured = details.map_or(&[][..], |details| &details.addresses);
    let tunnels = details.map(|details| &details.tunnels);
    let host = |net: &ipnet::IpNet| IpPrefix::host(net.addr());
    let addresses = configured.iter().map(host).collect();
    let routes = led(&tun, details);

    let names = tun.names.as_ref();
    let pools = entrance.worker.shared.devices.pools();
    let names = names.map(|names| named_hosts(names, &tun.settings, pools));
    let client = TunClient::new(addresses, tun.other, &routes)
        .super_packets(tun.super_packets)
        .names(names.transpose()?);
    let client = match tunnels.is_some_and(|tunnels| !tunnels.is_empty()) {
        true => client.sharing(tun.other),
        false => client,
    };
    let service = TunService::Client(client);
    if let Some(wireguard) = &tun.wireguard {
        let TunSettings { addresses, mtu, .. } = &tun.settings;
        let remote = remote_device::settings(wireguard, addresses, *mtu)?;
        let ports = entrance.worker.shared.devices.ports();
        return TunHub::on_another_machine(tun.settings, service, (ports, remote));
    }
    if !tun.is_stack {
        let workers = entrance.worker.shared.devices.workers();
        return TunHub::open(tun.settings, service, workers);
    }
    let stack = StackSettings {
        mtu: tun.settings.mtu as usize,
        intercepts: false,
        ..StackSettings::default()
    };
    let stack = StackDeviceSettings {
        stack,
        datagrams: DATAGRAMS,
    };
    Ok(TunHub::in_user_space(tun.settings, service, stack))
}

/// The names behind a device.
fn named_hosts(
    names: &ListenerNames,
    device: &TunSettings,
    pools: &Arc<NodePools>,
) -> Result<Arc<NamedHosts>, String> {
    let stack = StackSettings {
        mtu: device.mtu as usize,
        echo: names.echo,
        ..StackSettings::default()
    };
    let hosts = NamedHosts::new(&names.pool, stack, DATAGRAMS, pools);
    hosts.map_err(|error| error.to_string())
}

/// One tunnel, from its request to its end; why it ended.
async fn one(entrance: &Entrance, hub: &Arc<TunHub>, watch: &Watch) -> String {
    let (granted, answer) = oneshot::channel();
    let source = source(hub);
    let part = entrance.tunnel.as_ref().map(|tunnel| DevicePart {
        tunnel: tunnel.to_string(),
        device: device_identity(&entrance.worker.snapshot().node, hub.name()),
    });
    let offered = Offered::held(
        head(part.as_ref(), hub.offers_super_packets()),
        source.clone(),
        Incoming::Empty,
        Box::new(WaitingDevice(granted)),
    );
    let mut exchange = pin!(pipeline::run(entrance, Arrival::Offered(offered)));

    let answer = tokio::select! {
        // The exchange may be over, too: why is in the answer.
        biased;
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
    let tunnel = entrance.tunnel.as_deref();
    tracing::info!(%listener, tunnel, device = hub.name(), "the device has a tunnel");
    let devices = &entrance.worker.shared.devices;
    devices.has_tunnel(listener, tunnel, Ok(()));
    let counted = counted(entrance, &source);
    let owner = TunnelOwner {
        identity: String::new(),
        part,
    };
    let carried = pin!(through(&counted, (hub, &owner), granted, watch));
    let (ended, ()) = tokio::join!(carried, exchange);
    ended
}

/// Carries packets through a tunnel that was opened.
async fn through(
    exchange: &Exchange,
    (hub, owner): (&Arc<TunHub>, &TunnelOwner),
    granted: OpenedTunnel,
    watch: &Watch,
) -> String {
    let tunnel = match TunTunnel::open(hub, owner, PacketScope::any()) {
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

/// The device among those of its user, who may have machines whose nodes have one name.
fn device_identity(node: &str, device: &str) -> String {
    format!("{node}/{}/{device}", machine_tag())
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
        neighbour: None,
    })
}

/// The CONNECT-IP that a device means, or that one of its tunnels does.
pub fn head(part: Option<&DevicePart>, offers_super_packets: bool) -> RequestHead {
    let fields = [
        (CAPSULE_PROTOCOL, HeaderValue::from_static("?1")),
        (datagram_limit::FIELD, datagram_limit::understood()),
    ];
    let part = part.and_then(|part| HeaderValue::try_from(part.to_string()).ok());
    let part = part.map(|value| (HeaderName::from_static(DEVICE_FIELD), value));
    let offer =
        offers_super_packets.then(|| (agreement::FIELD, agreement::value(agreement::CONTEXT)));
    RequestHead {
        method: Method::CONNECT,
        scheme: Some(Scheme::HTTPS),
        authority: Some(Authority::from_static("localhost")),
        path: Some(PathAndQuery::from_static(ANY)),
        protocol: Some(Protocol::ConnectIp),
        fields: Fields::from_iter(fields.into_iter().chain(part).chain(offer)),
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
