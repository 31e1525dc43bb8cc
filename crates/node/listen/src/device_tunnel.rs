//! The tunnel of a device, or one of several that it has: when it ends, or no one takes it, another is begun after a pause.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::entrance::Entrance;
use hermes_exchange as pipeline;
use hermes_net::machine_tag::machine_tag;
use hermes_net::{PeerAddress, StreamInfo, Watch};
use hermes_packet::PacketEnd;
use hermes_packet::tun::{DevicePart, TunHub, TunTunnel, TunnelOwner};
use hermes_plug::arrival::PacketArrival;
use hermes_plug::opening_head::connect_ip;
use tokio::time::Instant;

use crate::device_spec::DATAGRAMS;

/// The first pause after a tunnel that could not be had; each is twice the one before.
#[doc(alias = "bound")]
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: how late this machine may notice that the overlay is there again.
#[doc(alias = "bound")]
pub(super) const LONGEST: Duration = Duration::from_secs(5);

/// How long a tunnel must last for the next pause to begin small again.
const GOOD: Duration = Duration::from_secs(5);

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

        // A tunnel that ends at once, again and again, is asked for ever more rarely.
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
    let part = entrance.tunnel.as_ref().map(|tunnel| DevicePart {
        tunnel: tunnel.to_string(),
        device: device_identity(&entrance.worker.snapshot().node.name, hub.name()),
    });
    let head = connect_ip(part.as_ref(), hub.offers_super_packets());
    let owner = TunnelOwner {
        identity: String::new(),
        part,
    };
    let tunnel = match TunTunnel::asked(hub, &owner) {
        Ok(tunnel) => Arc::new(tunnel),
        Err(error) => return error.to_string(),
    };
    let arrival = PacketArrival {
        head,
        source: source(hub),
        end: PacketEnd::Device(tunnel.clone(), DATAGRAMS),
    };
    let mut exchange = pin!(pipeline::run(entrance, arrival.into()));

    tokio::select! {
        () = tunnel.accepted() => {}
        () = &mut exchange => return end_reason(&tunnel),
        () = watch.graceful() => return "this node ends".to_owned(),
    }

    let listener = &entrance.rules.name;
    let name = entrance.tunnel.as_deref();
    tracing::info!(%listener, tunnel = name, device = hub.name(), "the device has a tunnel");
    let devices = &entrance.worker.shared.devices;
    devices.has_tunnel(listener, name, Ok(()));
    tokio::select! {
        () = &mut exchange => {}
        () = watch.graceful() => {
            // Closed here, so that the far end hears of it and frees the address.
            tunnel.close();
            exchange.await;
        }
    }
    end_reason(&tunnel)
}

fn end_reason(tunnel: &TunTunnel) -> String {
    let reason = tunnel.end_reason().unwrap_or("the exchange was cut off");
    reason.to_owned()
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
        origin: None,
    })
}
