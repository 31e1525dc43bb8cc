//! Two ends on a simulated path that loses, repeats and reorders frames.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::frame::{Frame, FrameBody, Report};
use crate::{ParityShare, RecoveryEnd, RecoverySettings};

const MS: Duration = Duration::from_millis(1);

/// A path, in both directions.
#[derive(Clone, Copy)]
struct PathModel {
    one_way: Duration,
    /// Thousandths of frames that are lost.
    loss: u32,
    /// The length of a run of lost frames.
    burst: u32,
    /// Thousandths of frames that come a while later, or twice.
    disorder: u32,
}

/// The outcome of a simulation.
struct Outcome {
    received: Vec<(u32, Duration)>,
    /// Bytes of all frames from the first end, for each byte of datagrams.
    ratio: f64,
    ends: [RecoveryEnd; 2],
}

struct Simulation {
    path: PathModel,
    random: fastrand::Rng,
    now: Instant,
    /// Frames on their way: to which end.
    flying: BTreeMap<(Instant, u64), (usize, Bytes)>,
    sequence: u64,
    /// Frames that the running burst still loses.
    losing: [u32; 2],
    bytes: usize,
    ends: [RecoveryEnd; 2],
    received: Vec<(u32, Duration)>,
    began: Vec<Instant>,
}

impl Simulation {
    fn new(path: PathModel, settings: RecoverySettings, seed: u64) -> Self {
        let end = |tag| RecoveryEnd::new(settings, settings.within, tag);
        Self {
            path,
            random: fastrand::Rng::with_seed(seed),
            now: Instant::now(),
            flying: BTreeMap::new(),
            sequence: 0,
            losing: [0; 2],
            bytes: 0,
            ends: [end(1), end(2)],
            received: Vec::new(),
            began: Vec::new(),
        }
    }

    /// Sends so many datagrams, one each so often, and then waits for a second.
    fn run(mut self, datagrams: u32, every: Duration) -> Outcome {
        let start = self.now;
        for number in 0..datagrams {
            self.until(start + every * number);
            self.began.push(self.now);
            let size = 1000 + 300 * (number as usize % 2);
            let mut datagram = number.to_be_bytes().to_vec();
            datagram.resize(size, number as u8);
            self.ends[0].send(&datagram, self.now);
            self.settle();
        }
        self.until(self.now + Duration::from_secs(1));

        let sent = datagrams as usize * 1150;
        Outcome {
            received: self.received,
            ratio: self.bytes as f64 / sent as f64,
            ends: self.ends,
        }
    }

    /// Lets time pass.
    fn until(&mut self, end: Instant) {
        loop {
            let flying = self.flying.first_key_value().map(|((at, _), _)| *at);
            let due = self.ends.iter().filter_map(RecoveryEnd::due).min();
            let next = flying.into_iter().chain(due).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            if flying == Some(next)
                && let Some((_, (to, frame))) = self.flying.pop_first()
            {
                self.ends[to].handle_frame(frame, self.now).unwrap();
            }
            for end in &mut self.ends {
                if end.due().is_some_and(|due| due <= self.now) {
                    end.handle_time(self.now);
                }
            }
            self.settle();
        }
    }

    /// Moves frames and datagrams out of the ends.
    fn settle(&mut self) {
        for from in 0..2 {
            while let Some(frame) = self.ends[from].poll_frame() {
                if from == 0 {
                    self.bytes += frame.len();
                }
                self.fly(1 - from, frame);
            }
        }
        while let Some(datagram) = self.ends[1].poll_datagram() {
            let number = u32::from_be_bytes(*datagram.first_chunk().unwrap());
            assert!(datagram[4..].iter().all(|byte| *byte == number as u8));
            assert_eq!(datagram.len(), 1000 + 300 * (number as usize % 2));
            let delay = self.now - self.began[number as usize];
            self.received.push((number, delay));
        }
    }

    fn fly(&mut self, to: usize, frame: Bytes) {
        if self.losing[to] > 0 {
            self.losing[to] -= 1;
            return;
        }
        if self.random.u32(..1000 * self.path.burst) < self.path.loss {
            self.losing[to] = self.path.burst - 1;
            return;
        }
        let odd = self.random.u32(..1000) < self.path.disorder;
        let later = if odd { 3 * MS } else { Duration::ZERO };
        self.launch(to, frame.clone(), later);
        if odd && self.random.bool() {
            self.launch(to, frame, later + MS);
        }
    }

    fn launch(&mut self, to: usize, frame: Bytes, later: Duration) {
        self.sequence += 1;
        let at = self.now + self.path.one_way + later;
        self.flying.insert((at, self.sequence), (to, frame));
    }
}

const DATAGRAMS: u32 = 3000;

/// 3,000 datagrams of 1,150 bytes at 4.6 Mbit/s.
fn run(path: PathModel, settings: RecoverySettings, seed: u64) -> Outcome {
    Simulation::new(path, settings, seed).run(DATAGRAMS, 2 * MS)
}

fn path(loss: u32, one_way: Duration) -> PathModel {
    PathModel {
        one_way,
        loss,
        burst: 1,
        disorder: 0,
    }
}

impl Outcome {
    fn lost(&self) -> usize {
        DATAGRAMS as usize - self.received.len()
    }

    fn longest(&self) -> Duration {
        self.received.iter().map(|(_, delay)| *delay).max().unwrap()
    }

    fn is_in_order(&self) -> bool {
        self.received.is_sorted_by(|one, other| one.0 < other.0)
    }
}

#[test]
fn nothing_is_lost_up_to_five_percent_by_retransmission_within_the_deadline() {
    let settings = RecoverySettings::retransmission(200 * MS, 5);
    for loss in [10, 30, 50] {
        for seed in 0..3 {
            let outcome = run(path(loss, 20 * MS), settings, seed);
            assert_eq!(outcome.lost(), 0, "{loss} per mille");
            assert!(outcome.is_in_order());
            assert!(outcome.longest() <= 220 * MS, "{:?}", outcome.longest());
            let demanded = 1.0 + f64::from(loss) / 1000.0;
            assert!(
                outcome.ratio < demanded * 1.03,
                "{} of {demanded}",
                outcome.ratio
            );
        }
    }
}

#[test]
fn a_path_without_loss_costs_heads_and_probes_alone() {
    let outcome = run(path(0, 20 * MS), RecoverySettings::auto(200 * MS, 3), 1);
    assert_eq!(outcome.lost(), 0);
    assert_eq!(outcome.longest(), 20 * MS);
    assert!(outcome.ratio < 1.01, "{}", outcome.ratio);
    assert_eq!(outcome.ends[0].tally().sent_again, 0);
}

#[test]
fn parity_mends_where_there_is_no_time_to_send_again() {
    // A round trip of 400 ms, and 150 ms to wait.
    let settings = RecoverySettings::auto(150 * MS, 3);
    for seed in 0..3 {
        let outcome = run(path(30, 200 * MS), settings, seed);
        // Until the loss is measured, nothing can be mended.
        let early = outcome.lost();
        assert!(early < 60, "{early} lost");
        let late = (DATAGRAMS / 2..DATAGRAMS)
            .filter(|number| !outcome.received.iter().any(|(found, _)| found == number))
            .count();
        assert!(late <= 1, "{late} lost of the second half");
        assert!(outcome.longest() <= 350 * MS);
        assert!(outcome.ends[1].tally().computed > 50);
    }
}

#[test]
fn a_share_of_parity_alone_mends_bursts_shorter_than_itself() {
    let bursts = PathModel {
        burst: 4,
        ..path(10, 100 * MS)
    };
    let settings = RecoverySettings::parity(300 * MS, 40);
    let outcome = run(bursts, settings, 3);
    assert_eq!(outcome.ends[0].tally().sent_again, 0);
    assert!(outcome.ends[1].tally().computed > 20);
    assert!(outcome.lost() <= 4, "{}", outcome.lost());
}

#[test]
fn auto_sends_again_where_there_is_time_and_no_parity() {
    let outcome = run(path(50, 10 * MS), RecoverySettings::auto(300 * MS, 5), 2);
    assert_eq!(outcome.lost(), 0);
    let tally = outcome.ends[0].tally();
    assert!(
        tally.sent_again > 100 && tally.sent_parity == 0,
        "{tally:?}"
    );
    let loss = outcome.ends[0].loss();
    assert!((0.03..0.08).contains(&loss), "{loss}");
    assert_eq!(
        outcome.ends[0].round_trip().map(|time| time.as_millis()),
        Some(20)
    );
}

#[test]
fn bursts_that_take_reports_and_probes_too_lose_nothing() {
    for burst in [5, 10] {
        let bursts = PathModel {
            burst,
            ..path(10, 10 * MS)
        };
        for seed in 0..5 {
            let outcome = run(bursts, RecoverySettings::auto(300 * MS, 5), seed);
            assert_eq!(outcome.lost(), 0, "bursts of {burst}");
            assert!(outcome.longest() <= 310 * MS, "{:?}", outcome.longest());
        }
    }
}

#[test]
fn disorder_and_repeats_change_nothing() {
    let disorder = PathModel {
        disorder: 100,
        ..path(20, 20 * MS)
    };
    for seed in 0..3 {
        let outcome = run(disorder, RecoverySettings::auto(200 * MS, 5), seed);
        assert_eq!(outcome.lost(), 0);
        assert!(outcome.is_in_order(), "each once, in order");
    }
}

#[test]
fn what_cannot_come_in_time_is_given_up_and_delays_no_more_than_agreed() {
    let bursts = PathModel {
        burst: 100,
        ..path(100, 20 * MS)
    };
    let outcome = run(bursts, RecoverySettings::retransmission(50 * MS, 1), 5);
    assert!(outcome.lost() > 0 && outcome.is_in_order());
    let slowest = 50 * MS + 20 * MS + 250 * MS;
    assert!(outcome.longest() <= slowest, "{:?}", outcome.longest());
    let given_up = outcome.ends[1].tally().lost;
    assert!(given_up as usize <= outcome.lost());
}

#[test]
fn the_last_datagram_comes_though_no_later_one_shows_that_it_is_lost() {
    let mut ends = [1, 2]
        .map(|tag| RecoveryEnd::new(RecoverySettings::retransmission(500 * MS, 3), 500 * MS, tag));
    let mut now = Instant::now();
    ends[0].send(b"last", now);
    for round in 0..400 {
        now += MS;
        for from in 0..2 {
            ends[from].handle_time(now);
            while let Some(frame) = ends[from].poll_frame() {
                // All that leaves in the first 150 ms is lost: the datagram, and three probes.
                if round >= 150 {
                    ends[1 - from].handle_frame(frame, now).unwrap();
                }
            }
        }
    }
    assert_eq!(ends[1].poll_datagram().as_deref(), Some(&b"last"[..]));
}

#[test]
fn a_new_stream_of_the_peer_begins_anew() {
    let settings = RecoverySettings::retransmission(100 * MS, 3);
    let now = Instant::now();
    let mut receiver = RecoveryEnd::new(settings, 100 * MS, 9);
    for tag in [1, 2] {
        let mut sender = RecoveryEnd::new(settings, 100 * MS, tag);
        for text in [b"one", b"two"] {
            sender.send(text, now);
        }
        while let Some(frame) = sender.poll_frame() {
            receiver.handle_frame(frame, now).unwrap();
        }
    }
    let mut received = Vec::new();
    while let Some(datagram) = receiver.poll_datagram() {
        received.push(datagram);
    }
    assert_eq!(received, ["one", "two", "one", "two"]);
}

#[test]
fn a_peer_that_asks_for_everything_gets_half_of_what_is_sent() {
    let mut end = RecoveryEnd::new(
        RecoverySettings::retransmission(1000 * MS, 100),
        1000 * MS,
        1,
    );
    let now = Instant::now();
    let mut bytes = 0;
    let mut sent = 0;
    for round in 0..1000_u32 {
        end.send(&[0; 1000], now);
        sent += 1000;
        let greedy = Report {
            probe: 0,
            received: 0,
            missing: vec![(round.saturating_sub(254), 255); 64],
        };
        let frame = Frame {
            tag: 1,
            body: FrameBody::Report(greedy),
        };
        end.handle_frame(frame.encode(), now).unwrap();
        while let Some(frame) = end.poll_frame() {
            bytes += frame.len();
        }
    }
    assert!(bytes < sent * 16 / 10 + 70_000, "{bytes} of {sent}");
}

#[test]
fn any_bytes_for_frames_are_survived_within_bounds() {
    let mut random = fastrand::Rng::with_seed(7);
    let settings = RecoverySettings {
        parity: ParityShare::Percent(20),
        ..RecoverySettings::auto(100 * MS, 3)
    };
    let mut end = RecoveryEnd::new(settings, 100 * MS, 1);
    let mut now = Instant::now();
    for _ in 0..50_000 {
        let mut bytes = vec![0; random.usize(..60)];
        random.fill(&mut bytes);
        if let Some(kind) = bytes.first_mut() {
            *kind %= 6;
        }
        // Two tags: each other one begins anew.
        if bytes.len() > 3 {
            bytes[1] = 0;
            bytes[2] %= 2;
            bytes[3] = 0;
        }
        // Most are no frames.
        let _ = end.handle_frame(Bytes::from(bytes), now);
        now += MS / 4;
        if random.u8(..4) == 0 {
            end.handle_time(now);
        }
        while end.poll_frame().is_some() {}
        while end.poll_datagram().is_some() {}
    }
    end.handle_time(now + 200 * MS);
    assert!(end.due().is_none_or(|due| due > now));
}
