//! The transport's settings, each a bound with its reason.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use quinn::{IdleTimeout, MtuDiscoveryConfig, QlogStream, TransportConfig, VarInt};

use super::congestion::Congestion;
use super::flows::Counting;
use crate::memory::Memory;

/// Bytes that a peer may send on one stream before we read. At most 2.5 MiB: quinn gives a connection up when a stream has
/// more than 1024 gaps, and with packets of [`INITIAL_MTU`] so many do not fit in less.
#[doc(alias = "bound")]
pub(super) const STREAM_WINDOW: u32 = 2 << 20;

/// Bytes that a peer may send on all streams of one connection before we read, if `memory.connection` is not less: 8 full streams, and 1 Gbit/s at 128 ms.
#[doc(alias("bound", "memory.connection"))]
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Bytes of one connection that we keep until the peer acknowledges them, if half of
/// `memory.connection` is not less: 1 Gbit/s at 64 ms.
#[doc(alias("bound", "memory.connection"))]
const SEND_WINDOW: u64 = 8 << 20;

/// One-way streams that a peer may have open: HTTP/3 needs three, and each group of datagrams one. Others are refused one layer up.
#[doc(alias = "bound")]
pub(super) const UNI_STREAMS: u32 = 128;

/// Requests at once on a connection where nothing else is configured.
#[doc(alias("bound", "limits.streams"))]
pub(super) const BI_STREAMS: u32 = 100;

/// Bytes of received datagrams that wait to be taken, with 32 for each: 20 ms at 800 Mbit/s. The
/// oldest are dropped, and counted.
#[doc(alias = "bound")]
pub(super) const DATAGRAMS_IN: usize = 2 << 20;

/// Bytes of datagrams that wait to be sent, with 32 for each: 10 ms at 800 Mbit/s. The newest are
/// dropped, and counted.
#[doc(alias = "bound")]
pub const DATAGRAMS_OUT: usize = 1 << 20;

/// A peer that is silent for so long is gone: three keep-alives were lost.
#[doc(alias = "bound")]
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(45);

/// How often a silent connection is kept alive, also for the address translators on the path: many
/// forget UDP after 30 s.
#[doc(alias = "bound")]
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Bounds of the expected round-trip time on a path that was measured before: the first packet is
/// sent again after three of these. The upper bound is the default for unknown paths (RFC 9002,
/// 6.2.2); the least leaves a busy server the time for a handshake.
const EXPECTED_RTT: RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_millis(333);

/// Bytes of a UDP payload before the path is measured: so many that the first packet of a QUIC
/// connection inside (1200 bytes, RFC 9000 section 14) fits into a datagram from the start, and
/// fewer than common tunnels carry.
#[doc(alias = "bound")]
pub const INITIAL_MTU: u16 = 1280;

/// Bytes of the largest UDP payload: the most that Ethernet carries over IPv6.
#[doc(alias = "bound")]
pub(super) const LARGEST_MTU: u16 = 1452;
/// Bytes of a UDP payload that every path of QUIC carries (RFC 9000 section 14).
pub const SMALLEST_MTU: u16 = 1200;
/// Bytes that a connection inside another one has less: the overhead before and behind the payload
/// of a datagram in a packet of the outer one, with an HTTP datagram's stream and context.
const LAYER: u16 = 40;

/// How often a connection checks whether its path carries more than was found: a search that met a
/// full queue has found too little, and where one connection is inside another, the end of the
/// outer one's search cannot be seen from within. A search sends 18 packets at most, and none on a
/// path with the largest MTU.
#[doc(alias = "bound")]
const SEARCH: Duration = Duration::from_secs(5);
/// The search for the MTU ends below this difference, in bytes.
const MTU_STEP: u16 = 12;

/// When a path that lost its large packets is measured again. The time is short, because an
/// overflowing queue looks the same where packets are of nearly one size: until then datagrams of
/// 1200 bytes do not fit.
#[doc(alias = "bound")]
const MTU_COOLDOWN: Duration = Duration::from_millis(100);

/// How large the packets of a connection are, in bytes of UDP payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// At first.
    initial: u16,
    /// At most.
    largest: u16,
    /// The most that the peer may send.
    pub(super) from_peer: u16,
}

impl Sizes {
    /// On a path of its own.
    pub(super) const OWN: Self = Self {
        initial: INITIAL_MTU,
        largest: LARGEST_MTU,
        from_peer: LARGEST_MTU,
    };

    /// Inside `depth` other connections, the innermost of which carries `payload` bytes now. If it
    /// carries the initial size of peers, it is expected to carry as much as its own path allows.
    /// Unless the other end of the tunnel can be `trusted` to cope with packets that are too large
    /// for it, the peer must not send any.
    #[must_use]
    pub fn inside(depth: u8, payload: usize, trusted: bool) -> Self {
        let largest = LARGEST_MTU - LAYER * u16::from(depth.min(5));
        let now = u16::try_from(payload)
            .unwrap_or(u16::MAX)
            .clamp(SMALLEST_MTU, largest);
        let from_peer = match trusted {
            false => SMALLEST_MTU,
            true if now < INITIAL_MTU => now,
            true => largest,
        };

        Self {
            initial: now.min(INITIAL_MTU),
            largest,
            from_peer,
        }
    }
}

/// Room to receive for all streams of a connection together, in bytes.
pub(super) fn receive_window() -> u64 {
    u64::from(CONNECTION_WINDOW).min(Memory::node().connection() as u64)
}

/// Bytes that a connection keeps until they are acknowledged.
pub(super) fn send_window() -> u64 {
    SEND_WINDOW.min(Memory::node().connection() as u64 / 2)
}

/// The settings of a connection on a path with a last round-trip time of `rtt`; otherwise as
/// [`transport`].
pub(super) fn transport_of_known_path(
    qlog: Option<QlogStream>,
    keep_alive: Duration,
    sizes: Sizes,
    congestion: Congestion,
    rtt: Duration,
) -> Arc<TransportConfig> {
    let mut config = settings(qlog, BI_STREAMS, keep_alive, sizes, congestion);
    config.initial_rtt(rtt.clamp(*EXPECTED_RTT.start(), *EXPECTED_RTT.end()));
    Arc::new(config)
}

/// The settings of a connection on which the peer may have this many `streams` of both directions,
/// and which is kept alive every `keep_alive`; recorded to `qlog` if there is one. `congestion`
/// bounds its bytes in flight.
pub(super) fn transport(
    qlog: Option<QlogStream>,
    streams: u32,
    keep_alive: Duration,
    sizes: Sizes,
    congestion: Congestion,
) -> Arc<TransportConfig> {
    Arc::new(settings(qlog, streams, keep_alive, sizes, congestion))
}

fn settings(
    qlog: Option<QlogStream>,
    streams: u32,
    keep_alive: Duration,
    sizes: Sizes,
    congestion: Congestion,
) -> TransportConfig {
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(sizes.largest)
        .minimum_change(MTU_STEP)
        .interval(SEARCH)
        .black_hole_cooldown(MTU_COOLDOWN);
    let idle = IdleTimeout::from(VarInt::from_u32(IDLE_TIMEOUT.as_millis() as u32));
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(streams.into())
        .max_concurrent_uni_streams(UNI_STREAMS.into())
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(VarInt::from_u64(receive_window()).unwrap_or(VarInt::MAX))
        .send_window(send_window())
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(keep_alive))
        .initial_mtu(sizes.initial)
        .mtu_discovery_config(Some(mtu))
        .datagram_receive_buffer_size(Some(DATAGRAMS_IN))
        .datagram_send_buffer_size(DATAGRAMS_OUT)
        // Not BBR: quinn's grows without bound where the application does not fill the path, as a tunnel does.
        .congestion_controller_factory(Arc::new(Counting(congestion)))
        .qlog_stream(qlog);

    config
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;
    use tokio::time::{Instant, sleep, timeout};

    use super::*;
    use crate::quic::Carrier;
    use crate::quic::simulation;

    /// Of the clock that only waiting moves.
    const PATIENCE: Duration = Duration::from_secs(600);

    /// Carries packets; while the queue `overflows`, every other large one of those that wait is lost.
    async fn carry(from: Arc<Carrier>, to: Arc<Carrier>, overflows: Arc<AtomicBool>) {
        let mut packets = Vec::new();
        while from.take(&mut packets, 64).await {
            let (mut number, all) = (0, !overflows.load(Ordering::Relaxed));
            packets.retain(|packet: &Bytes| {
                number += usize::from(packet.len() > 1000);
                all || packet.len() <= 1000 || number % 2 == 1
            });
            to.give(packets.drain(..));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_that_overflows_makes_a_path_narrow_for_a_moment_only() {
        let overflows = Arc::new(AtomicBool::new(false));
        let [(near, _client), _server] = simulation::pair(Congestion::default(), |from, to| {
            tokio::spawn(carry(from, to, overflows.clone()));
        })
        .await;
        let carries = |bytes| near.max_datagram_size().is_some_and(|size| size >= bytes);
        let step = async |count, bytes| {
            for _ in 0..count {
                let _ = near.send_datagram(vec![0; bytes].into());
            }
            sleep(Duration::from_millis(10)).await;
        };
        timeout(PATIENCE, async {
            while !carries(1300) {
                step(1, 100).await;
            }
            overflows.store(true, Ordering::Relaxed);
            while carries(1200) {
                step(64, 1200).await;
            }
            overflows.store(false, Ordering::Relaxed);
            let begin = Instant::now();
            while !carries(1300) {
                step(1, 100).await;
            }
            assert!(begin.elapsed() < 3 * MTU_COOLDOWN);
        })
        .await
        .unwrap();
    }

    #[test]
    fn a_connection_inside_others_has_what_these_leave() {
        let wide = Sizes::inside(1, 1412, true);
        assert_eq!(
            (wide.initial, wide.largest, wide.from_peer),
            (1280, 1412, 1412)
        );
        let fresh = Sizes::inside(1, 1240, true);
        assert_eq!(
            (fresh.initial, fresh.largest, fresh.from_peer),
            (1240, 1412, 1240)
        );
        let narrow = Sizes::inside(4, 900, true);
        assert_eq!(
            (narrow.initial, narrow.from_peer),
            (SMALLEST_MTU, SMALLEST_MTU)
        );
        assert!(narrow.largest > SMALLEST_MTU);
        assert_eq!(Sizes::inside(1, 1412, false).from_peer, SMALLEST_MTU);
    }
}
