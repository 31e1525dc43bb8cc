//! The tunnel of a device, or one of several that it has: when it ends, or no one takes it, another is begun after a pause.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::entrance::Entrance;
use hermes_exchange as pipeline;
use hermes_http::{
    HeldClient, Incoming, Offered, Outgoing, Replying, ResponseHead, StreamError, pipe,
};
use hermes_ip::PacketScope;
use hermes_net::machine_tag::machine_tag;
use hermes_net::{PeerAddress, StreamInfo, Watch};
use hermes_observe::{AccessSink, Begin, Exchange, Telemetry};
use hermes_packet::tun::{DevicePart, TunHub, TunTunnel, TunnelOwner, carry};
use hermes_packet::{Side, Sink, Source};
use hermes_plug::arrival::Arrival;
use hermes_plug::opening_head::connect_ip;
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::datagram_limit;
use hermes_proto::fields::Fields;
use http::StatusCode;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The first pause after a tunnel that could not be had; each is twice the one before.
#[doc(alias = "bound")]
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: how late this machine may notice that the overlay is there again.
#[doc(alias = "bound")]
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// How long a tunnel must last for the next pause to begin small again.
const GOOD: Duration = Duration::from_secs(5);

/// How long the end of a tunnel may take to be sent.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_secs(1);

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

/// One tunnel, from its request to its end; why it ended.
async fn one(entrance: &Entrance, hub: &Arc<TunHub>, watch: &Watch) -> String {
    let (granted, answer) = oneshot::channel();
    let source = source(hub);
    let part = entrance.tunnel.as_ref().map(|tunnel| DevicePart {
        tunnel: tunnel.to_string(),
        device: device_identity(&entrance.worker.snapshot().node, hub.name()),
    });
    let offered = Offered::held(
        connect_ip(part.as_ref(), hub.offers_super_packets()),
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
