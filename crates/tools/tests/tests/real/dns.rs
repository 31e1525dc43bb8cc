//! A resolver that asks from a fresh port each time, as all of them do, beside a call of the same user.

use std::time::{Duration, Instant};

use hermes_tests::eventually::{PATIENCE, eventually_true, found};
use hermes_tests::udp::Client;

use crate::calls::call;
use crate::row::{ADDRESS, DNS, NAME, Row, VOICE};

/// Between two questions.
const EVERY: Duration = Duration::from_millis(10);

/// Questions, where no variable asks for more.
const QUESTIONS: u32 = 1_000;

/// Sessions that a user may have at a proxy, as by default: with fewer, one that makes room takes along a question that is on its way.
const SESSIONS: usize = 4_096;

/// The question for the address of the only name (RFC 1035, 4.1).
fn question(id: u16) -> Vec<u8> {
    let mut message = [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in NAME {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    message
}

/// Asks from a port of its own; whether the address came.
pub fn ask(id: u16, patience: Duration) -> bool {
    let client = Client::connect(DNS.parse().unwrap());
    client.send_if_open(question(id));
    let answer = client.receive_within(patience);
    answer.is_some_and(|answer| answer[..2] == id.to_be_bytes() && answer.ends_with(&ADDRESS))
}

/// As many as a variable says: `HERMES_QUESTIONS=60000` takes 10 minutes.
fn questions() -> u32 {
    std::env::var("HERMES_QUESTIONS").map_or(QUESTIONS, |count| count.parse().unwrap())
}

fn a_hundred_a_second(http: u8) {
    let row = Row::start(http, SESSIONS);
    let count = questions();
    let called = row.in_client(move || {
        let client = Client::connect(VOICE.parse().unwrap());
        assert_eq!(client.ask([0, 0, 0, 0]), [0, 0, 0, 0]);
        call(&client, count, EVERY, Duration::from_secs(2))
    });
    let asked = row.in_client(move || {
        eventually_true("the name server answers", || {
            ask(0, Duration::from_millis(200))
        });
        let began = Instant::now();
        let pause = Client::connect(VOICE.parse().unwrap());
        let mut asking = std::collections::VecDeque::new();
        let mut lost = 0;
        for number in 0..count {
            asking.push_back(std::thread::spawn(move || ask(number as u16, PATIENCE)));
            if asking.len() > 50 {
                lost += u32::from(!asking.pop_front().unwrap().join().unwrap());
            }
            let next = began + EVERY * (number + 1);
            let left = next.saturating_duration_since(Instant::now());
            drop(pause.receive_within(left.max(Duration::from_micros(1))));
        }
        lost + asking
            .into_iter()
            .map(|one| u32::from(!one.join().unwrap()))
            .sum::<u32>()
    });
    assert_eq!(asked.join().unwrap(), 0, "no question is lost");
    let heard = called.join().unwrap();
    assert_eq!(
        heard.numbers.len(),
        count as usize,
        "and nothing of the call: {:?}",
        heard.gap
    );
    // All nodes let go of questions that were answered. A port that the system gives out again at once asks twice, which is a
    // conversation: one in a hundred, with as many sessions as there are here.
    let again = (count / 20) as usize;
    for node in [&row.entry, &row.near, &row.far] {
        let over = found(|| (node.exchanges().len() <= again).then_some(()));
        assert!(over.is_some(), "{:#?}", node.exchanges());
    }
}

#[test]
fn questions_from_fresh_ports_starve_no_one_over_http2() {
    a_hundred_a_second(2);
}

#[test]
fn questions_from_fresh_ports_starve_no_one_over_http3() {
    a_hundred_a_second(3);
}
