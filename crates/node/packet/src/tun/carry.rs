//! Carries one tunnel that ends at a device.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use hermes_observe::Exchange;
use hermes_proto::ip::MIN_MTU_V6;
use tokio::time::{MissedTickBehavior, interval};

use super::end::TunTunnel;
use crate::{Bounds, Broken, Limits, PacketDirection, PacketEnd, Side, Sink, Source, Stop};

/// How often to look whether the path carries more or less than before.
const LOOK: Duration = Duration::from_millis(500);

/// The client of a tunnel that ends at a device.
pub struct DeviceClient<'a> {
    /// Packets that it sends.
    pub source: &'a mut Source,
    /// Where packets to it go.
    pub sink: &'a Sink,
    /// Whether it understands [limits](hermes_proto::datagram_limit).
    pub listens: bool,
}

/// Carries a tunnel between its device and its client, until the client's stream ends, or its device ends it.
///
/// # Errors
/// A side broke.
pub async fn carry(
    exchange: &Exchange,
    tunnel: Arc<TunTunnel>,
    client: DeviceClient<'_>,
) -> Result<&'static str, Broken> {
    let DeviceClient {
        source,
        sink,
        listens,
    } = client;
    // Packets that are too large for QUIC datagrams go as capsules, so that every tunnel carries
    // IPv6.
    let mut limits = Limits::new(MIN_MTU_V6);
    limits.lead(Side::Client, sink, listens);
    let limits = limits;
    let stop = Stop::default();
    let end = PacketEnd::Device(tunnel.clone(), Bounds::NOTHING);
    let mut own = Source::end(&end);
    let own_sink = Sink::End(end);

    let direction = |from| PacketDirection {
        exchange,
        from,
        stop: &stop,
        alone: true,
        limits: &limits,
        pins: None,
    };
    let inwards = direction(Side::Client);
    let outwards = direction(Side::Target);
    // Its client may be the device of a listener.
    let of_client = sink.upkeep(|| limits.carries(Side::Target));
    let of_client = async {
        match of_client {
            Some(upkeep) => upkeep.await,
            None => pending().await,
        }
    };

    // QUIC datagrams never wait for a writer, which would account for the packets that were dropped meanwhile.
    let look = || {
        own_sink.settle(exchange);
        limits.carries(Side::Client)
    };

    let ended = tokio::select! {
        left = inwards.run(source, &own_sink) => left.map(|_| "done"),
        left = outwards.run(&mut own, sink) => left.map(|_| "done"),
        reason = tunnel.keep(look) => Ok(reason),
        reason = of_client => Ok(reason),
    };
    own_sink.settle(exchange);
    ended
}

/// Drains a stream that another one has replaced, until it ends or breaks.
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
        pins: None,
    };
    tokio::select! {
        // However it ended: the tunnel goes on with the other one.
        _ = inwards.run(source, &sink) => {}
        () = tunnel.closed() => {}
    }
}

impl TunTunnel {
    /// Follows the MTU of its path, which `carries` is asked for at each look, until its device ends the tunnel; returns the reason.
    pub(super) async fn keep(&self, carries: impl Fn() -> usize) -> &'static str {
        tokio::select! {
            never = self.look(carries) => match never {},
            () = self.closed() => match self.hub.is_closed() {
                true => "the device is gone",
                false => "done",
            },
        }
    }

    async fn look(&self, carries: impl Fn() -> usize) -> Infallible {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            self.set_mtu(carries());
            self.end_silent_flows();
            self.prove_ipv6();
        }
    }
}
