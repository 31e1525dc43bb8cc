//! A client of UDP that sends all the time, and counts what comes back.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hermes_tests::udp::Client;

/// What came back of what was sent.
#[derive(Debug, Default)]
pub struct Heard {
    /// The numbers that came back.
    pub numbers: BTreeSet<u32>,
    /// The longest time in which nothing came.
    pub gap: Duration,
}

/// Sends `count` numbered datagrams, one `every` so often, and takes what comes back until nothing more comes for `patience`.
pub fn call(client: &Client, count: u32, every: Duration, patience: Duration) -> Heard {
    let (began, mut heard) = (Instant::now(), Heard::default());
    let mut last = began;
    let mut take = |client: &Client, time: Duration| {
        let Some(datagram) = client.receive_within(time.max(Duration::from_micros(1))) else {
            return false;
        };
        heard
            .numbers
            .insert(u32::from_be_bytes(datagram[..4].try_into().unwrap()));
        heard.gap = heard.gap.max(last.elapsed());
        last = Instant::now();
        true
    };
    for number in 0..count {
        client.send_if_open([&number.to_be_bytes()[..], &[7; 196]].concat());
        let next = began + every * (number + 1);
        loop {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            take(client, left);
        }
    }
    while take(client, patience) {}
    heard
}
