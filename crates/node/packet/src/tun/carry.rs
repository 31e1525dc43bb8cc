//! Carries one tunnel of a device.

use std::sync::Arc;
use std::time::Duration;

use hermes_observe::Exchange;
use hermes_proto::ip::MIN_MTU_V6;
use tokio::time::{MissedTickBehavior, interval};

use super::end::TunTunnel;
use super::super_packets::send_super;
use crate::{Bounds, Broken, Limits, PacketDirection, PacketEnd, Side, Sink, Source, Stop};

/// How often to look whether the path carries more or less than before.
const LOOK: Duration = Duration::from_millis(500);

/// Carries a tunnel between its device and a stream, which leads to this side, until the stream ends. `listens` says whether what is
/// behind it understands [limits](hermes_proto::datagram_limit).
///
/// # Errors
/// A side broke.
pub async fn carry(
    exchange: &Exchange,
    tunnel: Arc<TunTunnel>,
    (source, sink): (&mut Source, &Sink),
    peer: Side,
    listens: bool,
) -> Result<&'static str, Broken> {
    // What QUIC datagrams are too small for goes as capsules, so that every tunnel carries IPv6.
    let mut limits = Limits::new(MIN_MTU_V6);
    limits.lead(peer, sink, listens);
    let limits = limits;
    let stop = Stop::default();
    tunnel
        .end
        .inbox
        .super_packets
        .set_datagrams(sink.quic().is_some());
    tunnel.forget_ipv6();
    let end = PacketEnd::Device(tunnel.clone(), Bounds::NOTHING);
    let mut own = Source::end(&end);
    let own_sink = Sink::End(end);

    let direction = |from| PacketDirection {
        exchange,
        from,
        stop: &stop,
        alone: true,
        limits: &limits,
        steering: None,
    };
    let inwards = direction(peer);
    let outwards = direction(peer.other());

    tokio::select! {
        left = inwards.run(source, &own_sink) => left.map(|_| "done"),
        left = outwards.run(&mut own, sink) => left.map(|_| "done"),
        sent = send_super(&outwards, &tunnel, sink) => sent,
        told = tell(&outwards, &tunnel, (sink, peer)) => told,
        () = tunnel.closed() => Ok("the device is gone"),
    }
}

/// Takes what still comes on a stream that another one has replaced, until it ends or breaks.
pub async fn take(exchange: &Exchange, tunnel: Arc<TunTunnel>, source: &mut Source, peer: Side) {
    let limits = Limits::new(MIN_MTU_V6);
    let stop = Stop::default();
    let sink = Sink::End(PacketEnd::Device(tunnel.clone(), Bounds::NOTHING));
    let inwards = PacketDirection {
        exchange,
        from: peer,
        stop: &stop,
        alone: true,
        limits: &limits,
        steering: None,
    };
    tokio::select! {
        // However it ended: the tunnel goes on with the other one.
        _ = inwards.run(source, &sink) => {}
        () = tunnel.closed() => {}
    }
}

/// Sends the capsules that a tunnel has, and follows what its path carries.
async fn tell(
    outwards: &PacketDirection<'_>,
    tunnel: &TunTunnel,
    (sink, peer): (&Sink, Side),
) -> Result<&'static str, Broken> {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            capsules = tunnel.capsules() => outwards.write_capsules(sink, capsules).await?,
            _ = look.tick() => {
                tunnel.set_mtu(outwards.limits.carries(peer));
                tunnel.end_silent_flows();
                tunnel.prove_ipv6();
            }
        }
    }
}
