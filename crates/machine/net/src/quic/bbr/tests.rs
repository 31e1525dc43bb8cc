//! Connections over a bottleneck: how much of it they use, how long its queue is, and whether they leave others a share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use quinn::{Connection, Endpoint};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::quic::simulation;
use crate::quic::{Carrier, Congestion};

/// The link of the thesis: 1 Mbit/s.
const RATE: f64 = 125_000.0;
/// There, and as much back.
const DELAY: Duration = Duration::from_millis(100);
/// How long a flow is looked at.
const TIME: Duration = Duration::from_secs(30);
/// Bytes that the link holds without a queue.
const PRODUCT: f64 = 25_000.0;

/// Bursts that are none.
const AT_ONCE: Duration = Duration::from_micros(1);

/// One direction of a link.
struct Bottleneck {
    /// In bytes.
    queue: f64,
    /// Behind the queue.
    loss: f64,
    state: Mutex<LinkState>,
}

struct LinkState {
    /// When the last packet in the queue has left it.
    free: Instant,
    random: u64,
    /// The delays in the queue of all packets, and their number.
    waited: Duration,
    passed: u32,
}

impl Bottleneck {
    /// With a queue of so many times what the link holds by itself.
    fn new(queue: f64, loss: f64) -> Arc<Self> {
        Arc::new(Self {
            queue: queue * PRODUCT,
            loss,
            state: Mutex::new(LinkState {
                free: Instant::now(),
                random: 0x9e37_79b9_7f4a_7c15,
                waited: Duration::ZERO,
                passed: 0,
            }),
        })
    }

    /// When a packet that comes now arrives, unless it is lost.
    fn arrival(&self, bytes: usize) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let wait = state.free.saturating_duration_since(now);
        if wait.as_secs_f64() * RATE + bytes as f64 > self.queue {
            return None;
        }

        state.waited += wait;
        state.passed += 1;
        state.free = now.max(state.free) + Duration::from_secs_f64(bytes as f64 / RATE);
        let arrival = state.free + DELAY;
        (state.random() >= self.loss).then_some(arrival)
    }

    fn mean_wait(&self) -> Duration {
        let state = self.state.lock();
        state.waited / state.passed.max(1)
    }
}

impl LinkState {
    /// A number from 0 to 1 (xorshift).
    fn random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Carries packets over a link, in order, and gives them to the receiver in bursts that are so far apart.
fn carry(link: Arc<Bottleneck>, from: Arc<Carrier>, to: Arc<Carrier>, apart: Duration) {
    let begin = Instant::now();
    let (arrivals, mut arriving) = mpsc::unbounded_channel::<(Instant, Bytes)>();
    tokio::spawn(async move {
        let mut packets = Vec::new();
        while from.take(&mut packets, 64).await {
            for packet in packets.drain(..) {
                if let Some(at) = link.arrival(packet.len()) {
                    let _ = arrivals.send((at, packet));
                }
            }
        }
    });
    tokio::spawn(async move {
        while let Some((at, packet)) = arriving.recv().await {
            let bursts = at.duration_since(begin).div_duration_f64(apart).ceil();
            let burst = begin + apart.mul_f64(bursts);
            sleep_until(burst.max(at)).await;
            to.give([packet]);
        }
    });
}

type Ends = [(Connection, Endpoint); 2];

async fn connect(congestion: Congestion, out: &Arc<Bottleneck>, back: &Arc<Bottleneck>) -> Ends {
    connect_apart(congestion, out, back, AT_ONCE).await
}

/// The same, whose acknowledgements come in bursts.
async fn connect_apart(
    congestion: Congestion,
    out: &Arc<Bottleneck>,
    back: &Arc<Bottleneck>,
    apart: Duration,
) -> Ends {
    let mut ways = [(out.clone(), AT_ONCE), (back.clone(), apart)].into_iter();
    simulation::pair(congestion, |from, to| {
        let (link, apart) = ways.next().unwrap();
        carry(link, from, to, apart);
    })
    .await
}

/// A connection that sends as much as it may.
struct Flow {
    received: Arc<Mutex<u64>>,
    _ends: Ends,
}

impl Flow {
    async fn begin(congestion: Congestion, out: &Arc<Bottleneck>, back: &Arc<Bottleneck>) -> Self {
        Self::over(connect(congestion, out, back).await)
    }

    fn over(ends: Ends) -> Self {
        let (client, server) = (ends[0].0.clone(), ends[1].0.clone());
        let received = Arc::<Mutex<u64>>::default();
        let count = received.clone();
        tokio::spawn(async move {
            let mut stream = client.open_uni().await.unwrap();
            while stream.write_all(&[7; 16_384]).await.is_ok() {}
        });
        tokio::spawn(async move {
            let mut stream = server.accept_uni().await.unwrap();
            while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX, true).await {
                *count.lock() += chunk.bytes.len() as u64;
            }
        });
        Self {
            received,
            _ends: ends,
        }
    }

    fn received(&self) -> f64 {
        *self.received.lock() as f64
    }
}

/// The bytes of a flow alone, as a share of those that the link can carry, and their mean wait in its queue.
async fn alone(congestion: Congestion, queue: f64, loss: f64) -> (f64, Duration) {
    let out = Bottleneck::new(queue, loss);
    let back = Bottleneck::new(queue, loss);
    let flow = Flow::begin(congestion, &out, &back).await;
    sleep(TIME).await;
    let most = RATE * (1.0 - loss) * TIME.as_secs_f64();
    (flow.received() / most, out.mean_wait())
}

/// The shares of two flows of one link.
async fn beside(one: Congestion, other: Congestion, queue: f64) -> [f64; 2] {
    let out = Bottleneck::new(queue, 0.0);
    let back = Bottleneck::new(queue, 0.0);
    let one = Flow::begin(one, &out, &back).await;
    let other = Flow::begin(other, &out, &back).await;
    sleep(2 * TIME).await;
    let most = RATE * 2.0 * TIME.as_secs_f64();
    [one, other].map(|flow| flow.received() / most)
}

#[tokio::test(start_paused = true)]
async fn a_link_that_loses_a_tenth_of_its_packets_is_filled_where_cubic_leaves_most_of_it() {
    let (share, waited) = alone(Congestion::Bbr, 2.5, 0.1).await;
    assert!(share > 0.8, "{share}");
    assert!(waited < 2 * DELAY, "{waited:?}");
    let (cubic, _) = alone(Congestion::Cubic, 2.5, 0.1).await;
    assert!(cubic < 0.4, "{cubic}");
}

#[tokio::test(start_paused = true)]
async fn a_deep_queue_stays_short_and_a_short_one_is_no_hindrance() {
    let (share, waited) = alone(Congestion::Bbr, 4.0, 0.0).await;
    assert!(share > 0.9 && waited < 2 * DELAY, "{share} {waited:?}");
    let (_, cubic) = alone(Congestion::Cubic, 4.0, 0.0).await;
    assert!(cubic > 2 * waited, "{cubic:?} {waited:?}");
    let (share, _) = alone(Congestion::Bbr, 0.5, 0.0).await;
    assert!(share > 0.9, "{share}");
}

#[tokio::test(start_paused = true)]
async fn no_one_starves_on_a_shared_link() {
    for other in [Congestion::Cubic, Congestion::Bbr] {
        for queue in [1.0, 4.0] {
            let shares = beside(Congestion::Bbr, other, queue).await;
            let has_share = shares.iter().all(|share| *share > 0.15);
            assert!(has_share, "{other:?} {queue}: {shares:?}");
            assert!(shares.iter().sum::<f64>() > 0.9, "{shares:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_application_that_does_not_fill_the_path_has_a_small_window() {
    let out = Bottleneck::new(4.0, 0.0);
    let back = Bottleneck::new(4.0, 0.0);
    let ends = connect(Congestion::Bbr, &out, &back).await;
    let mut stream = ends[0].0.open_uni().await.unwrap();
    for _ in 0..200 {
        stream.write_all(&[7; 1000]).await.unwrap();
        sleep(DELAY).await;
    }
    let window = ends[0].0.stats().path.cwnd;
    assert!(window < 4 * super::INITIAL, "{window}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_holds_its_acknowledgements_back_makes_no_one_believe_in_a_faster_path() {
    for apart in [300, 1000].map(Duration::from_millis) {
        let out = Bottleneck::new(100.0, 0.0);
        let back = Bottleneck::new(100.0, 0.0);
        let ends = connect_apart(Congestion::Bbr, &out, &back, apart).await;
        let sender = ends[0].0.clone();
        let flow = Flow::over(ends);
        let begin = Instant::now();
        let mut most = 0;
        while begin.elapsed() < TIME {
            sleep(DELAY).await;
            most = most.max(sender.stats().path.cwnd);
        }
        let share = flow.received() / (RATE * TIME.as_secs_f64());
        println!("{apart:?}: {share} {most} {:?}", out.mean_wait());
        // Some three times of all that is on its way in the longest round trip that it ever saw.
        let round_trip = 2 * DELAY + apart;
        assert!(
            most as f64 <= 3.0 * RATE * round_trip.as_secs_f64(),
            "{apart:?}: {most}"
        );
        assert!(share > 0.5, "{apart:?}: {share}");
    }
}
