//! What a chain carries while something happens to its path.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hermes_tests::eventually;
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client;

use super::row::{Row, TUNNEL, VOICE, WEB};

/// Bytes of a tunnel that go forth and back at once.
const CHUNK: usize = 16_384;

/// Between two datagrams of a session.
const PACE: Duration = Duration::from_millis(10);

/// How long the last answers of a session are waited for.
const LAST: Duration = Duration::from_secs(1);

/// How many of each kind there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) tunnels: usize,
    pub(super) messages: usize,
    pub(super) sessions: usize,
    /// Bytes of a datagram.
    pub(super) datagram: usize,
}

/// Some of each.
pub(super) const MIXED: Load = Load {
    tunnels: 3,
    messages: 2,
    sessions: 3,
    datagram: 200,
};

/// How far each of them has come: echoed chunks, answered requests, answered datagrams.
pub(super) struct Progress {
    counts: Vec<AtomicU64>,
    /// Those of the sessions stand last.
    sessions: usize,
    over: AtomicBool,
}

/// Datagrams of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Datagrams {
    pub(super) sent: u64,
    pub(super) answered: u64,
}

impl Progress {
    /// Waits until each has come so much further.
    pub(super) fn more(&self, rounds: u64) {
        self.further(rounds, 0);
    }

    /// Waits until each session has come so much further.
    pub(super) fn answered(&self, rounds: u64) {
        self.further(rounds, self.counts.len() - self.sessions);
    }

    fn further(&self, rounds: u64, from: usize) {
        let counts = || {
            self.counts[from..]
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .collect::<Vec<_>>()
        };
        let before = counts();
        let far = |now: &[u64]| {
            now.iter()
                .zip(&before)
                .all(|(now, before)| *now >= before + rounds)
        };
        eventually(&format!("all to go on from {before:?}"), || {
            far(&counts()).then_some(())
        });
    }
}

/// Ends the load, also when what happens fails.
struct Ending<'a>(&'a Progress);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

impl Load {
    /// Carries it while `happens` runs. Tunnels echo byte for byte and requests are answered, or the test fails; what became of the
    /// datagrams is returned.
    pub(super) fn during(self, row: &Row, happens: impl FnOnce(&Progress)) -> Vec<Datagrams> {
        let all = self.tunnels + self.messages + self.sessions;
        let counts = (0..all).map(|_| AtomicU64::new(0)).collect();
        let progress = Progress {
            counts,
            sessions: self.sessions,
            over: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            let (mut streams, mut sessions) = (Vec::new(), Vec::new());
            for (number, count) in progress.counts.iter().enumerate() {
                let over = &progress.over;
                let enter = || row.topology.namespace("client").unwrap().enter().unwrap();
                if number < self.tunnels {
                    streams.push(scope.spawn(move || (enter(), tunnel(count, over)).1));
                } else if number < self.tunnels + self.messages {
                    streams.push(scope.spawn(move || (enter(), messages(count, over)).1));
                } else {
                    sessions.push(
                        scope.spawn(move || (enter(), session(self.datagram, count, over)).1),
                    );
                }
            }
            let ending = Ending(&progress);
            progress.more(5);
            happens(&progress);
            drop(ending);
            streams
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            sessions
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        })
    }
}

fn tunnel(count: &AtomicU64, over: &AtomicBool) {
    let mut raw = Raw::connect(TUNNEL.parse().unwrap());
    while !over.load(Ordering::Relaxed) {
        let round = count.load(Ordering::Relaxed);
        let chunk: Vec<u8> = (0..CHUNK as u64)
            .map(|at| (at ^ (at >> 8)).wrapping_mul(round + 3) as u8)
            .collect();
        raw.send(&chunk);
        assert!(
            raw.exactly(CHUNK) == chunk,
            "not what was sent, in round {round}"
        );
        count.fetch_add(1, Ordering::Relaxed);
    }
    raw.finish();
    assert_eq!(raw.rest().0, b"", "nothing comes that was not sent");
}

fn messages(count: &AtomicU64, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let mut raw = Raw::connect(WEB.parse().unwrap());
        raw.send("GET http://PAGE/ HTTP/1.1\r\nHost: PAGE\r\nConnection: close\r\n\r\n");
        let (head, content) = raw.response();
        assert_eq!(
            (head.status(), content.as_slice()),
            (200, &b"page"[..]),
            "{head:?}"
        );
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn session(length: usize, count: &AtomicU64, over: &AtomicBool) -> Datagrams {
    let client = Client::connect(VOICE.parse().unwrap());
    let mut answered = Vec::new();
    let take = |answered: &mut Vec<bool>, answer: &[u8]| {
        let number = u64::from_be_bytes(answer[..8].try_into().unwrap()) as usize;
        assert_eq!(answer.len(), length);
        if !std::mem::replace(&mut answered[number], true) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    while !over.load(Ordering::Relaxed) {
        let mut datagram = vec![answered.len() as u8; length];
        datagram[..8].copy_from_slice(&(answered.len() as u64).to_be_bytes());
        answered.push(false);
        client.send(&datagram);
        let next = Instant::now() + PACE;
        while let Some(left) = next
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            if let Some(answer) = client.receive_within(left) {
                take(&mut answered, &answer);
            }
        }
    }
    while let Some(answer) = client.receive_within(LAST) {
        take(&mut answered, &answer);
    }
    let got = answered.iter().filter(|answered| **answered).count();
    Datagrams {
        sent: answered.len() as u64,
        answered: got as u64,
    }
}
