//! Two nodes and what lies between them: replayed, forged and cut datagrams, amplification, and nodes that lose their memory.

#![expect(
    clippy::unwrap_used,
    reason = "the functions around the tests are tests, too"
)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use hermes_custody::engine::HELD;
use hermes_custody::receiver::AHEAD;
use hermes_custody::{Engine, Event, ExchangeKey, NeighbourId, NodeKey, Reading};
use hermes_proto::custody::ErrCode;

const KEEP: Duration = Duration::from_secs(60);

/// A client and a server in one room, whose datagrams the test carries.
struct Pair {
    now: Instant,
    keys: [NodeKey; 2],
    client: Engine,
    server: Engine,
    next: NeighbourId,
    /// What went each way, from the beginning on.
    sent: [Vec<Bytes>; 2],
    asked: Vec<ExchangeKey>,
}

fn client_at() -> SocketAddr {
    "192.0.2.1:4500".parse().unwrap()
}

fn server_at() -> SocketAddr {
    "192.0.2.2:4500".parse().unwrap()
}

fn engine(
    own: &NodeKey,
    other: &NodeKey,
    at: Option<SocketAddr>,
    now: Instant,
) -> (Engine, NeighbourId) {
    let mut engine = Engine::new(own.clone(), 7, now);
    let id = engine.add_neighbour(other.public(), at, now);
    (engine, id)
}

impl Pair {
    fn new() -> Self {
        let now = Instant::now();
        let keys = [NodeKey::generate().unwrap(), NodeKey::generate().unwrap()];
        let (client, next) = engine(&keys[0], &keys[1], Some(server_at()), now);
        let (server, _) = engine(&keys[1], &keys[0], None, now);
        Self {
            now,
            keys,
            client,
            server,
            next,
            sent: [Vec::new(), Vec::new()],
            asked: Vec::new(),
        }
    }

    fn key(&self, name: u8) -> ExchangeKey {
        ExchangeKey {
            neighbour: self.next,
            exchange: [name; 16],
        }
    }

    fn open(&mut self, name: u8, repeatable: bool) -> ExchangeKey {
        let key = self.key(name);
        assert!(self.client.open(key, KEEP, repeatable, self.now));
        self.client.write(key, Bytes::from_static(b"request"));
        self.client.finish(key);
        key
    }

    /// Lets time pass and datagrams through, in the directions that are open.
    fn run(&mut self, time: Duration, to_server: bool, to_client: bool) {
        let end = self.now + time;
        while self.now < end {
            while let Some((_, datagram)) = self.client.poll_transmit(self.now) {
                self.sent[0].push(datagram.clone());
                if to_server {
                    self.server
                        .handle_datagram(&datagram, client_at(), self.now);
                }
            }
            while let Some((_, datagram)) = self.server.poll_transmit(self.now) {
                self.sent[1].push(datagram.clone());
                if to_client {
                    self.client
                        .handle_datagram(&datagram, server_at(), self.now);
                }
            }
            while let Some(event) = self.server.poll_event() {
                if let Event::Asked(key) = event {
                    self.asked.push(key);
                }
            }
            while self.client.poll_event().is_some() {}
            self.now += Duration::from_millis(1);
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
        }
    }

    fn settle(&mut self) {
        self.run(Duration::from_millis(400), true, true);
    }

    fn answer(&mut self, content: &[u8]) {
        let key = *self.asked.last().unwrap();
        assert_eq!(
            self.server.read(key, 100),
            Reading::Bytes(Bytes::from_static(b"request"))
        );
        self.server.write(key, Bytes::copy_from_slice(content));
        self.server.finish(key);
    }

    fn response(&mut self, key: ExchangeKey) -> Result<Vec<u8>, Reading> {
        let mut whole = Vec::new();
        loop {
            match self.client.read(key, 4096) {
                Reading::Bytes(bytes) => whole.extend_from_slice(&bytes),
                Reading::End => return Ok(whole),
                other => return Err(other),
            }
        }
    }

    /// The server is another process, which knows nothing.
    fn restart_server(&mut self) {
        let (server, _) = engine(&self.keys[1], &self.keys[0], None, self.now);
        self.server = server;
    }
}

#[test]
fn what_was_heard_once_is_not_heard_again() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.settle();
    pair.answer(b"response");
    pair.settle();
    assert_eq!(pair.response(key), Ok(b"response".to_vec()));
    pair.client.close(key, pair.now);
    pair.settle();

    // Everything once more, from the same addresses: no exchange begins, and no word is changed.
    let asked = pair.asked.len();
    let [to_server, to_client] = pair.sent.clone();
    for datagram in &to_server {
        pair.server.handle_datagram(datagram, client_at(), pair.now);
    }
    for datagram in &to_client {
        pair.client.handle_datagram(datagram, server_at(), pair.now);
    }
    pair.settle();
    assert_eq!(pair.asked.len(), asked);

    // And the two still understand each other.
    let key = pair.open(2, true);
    pair.settle();
    pair.answer(b"another");
    pair.settle();
    assert_eq!(pair.response(key), Ok(b"another".to_vec()));
}

#[test]
fn flipped_bits_deliver_nothing_wrong() {
    let mut rng = Rng::with_seed(11);
    let content: Vec<u8> = (0..40_000).map(|_| rng.u8(..)).collect();
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let mut pair = Pair::new();
        let key = pair.open(1, true);
        let mut answered = false;
        for _ in 0..4000 {
            // One datagram of three is changed, in one bit or in its length.
            let mut pass = |datagram: Bytes| {
                let mut bytes = datagram.to_vec();
                match rng.u8(0..6) {
                    0 => bytes[rng.usize(..datagram.len())] ^= 1 << rng.u8(..8),
                    1 => bytes.truncate(rng.usize(..datagram.len())),
                    _ => {}
                }
                Bytes::from(bytes)
            };
            while let Some((_, datagram)) = pair.client.poll_transmit(pair.now) {
                pair.server
                    .handle_datagram(&pass(datagram), client_at(), pair.now);
            }
            while let Some((_, datagram)) = pair.server.poll_transmit(pair.now) {
                pair.client
                    .handle_datagram(&pass(datagram), server_at(), pair.now);
            }
            while let Some(event) = pair.server.poll_event() {
                if let Event::Asked(key) = event {
                    pair.asked.push(key);
                }
            }
            if !answered && !pair.asked.is_empty() {
                pair.answer(&content);
                answered = true;
            }
            pair.now += Duration::from_millis(1);
            pair.client.handle_timeout(pair.now);
        }
        assert_eq!(pair.asked.len(), 1);
        assert_eq!(pair.response(key), Ok(content.clone()), "seed {seed}");
    }
}

#[test]
fn a_stranger_gets_less_than_it_sends_and_leaves_nothing() {
    let mut pair = Pair::new();
    pair.open(1, true);
    pair.run(Duration::from_millis(1), false, false);
    let hello = pair.sent[0][0].clone();

    // The HELLO of a neighbour, from an address that it is not at: without a cookie nothing comes of it.
    let mut heard = 0;
    let mut said = 0;
    let forged: SocketAddr = "198.51.100.7:53".parse().unwrap();
    for _ in 0..100 {
        heard += hello.len();
        pair.server.handle_datagram(&hello, forged, pair.now);
        while let Some((to, datagram)) = pair.server.poll_transmit(pair.now) {
            assert_eq!(to, forged);
            said += datagram.len();
        }
    }
    assert!(said <= heard, "{said} for {heard}");
    assert!(pair.server.poll_timeout(pair.now).is_none());
    assert!(pair.server.poll_event().is_none());
}

#[test]
fn an_unknown_key_gets_no_further_than_a_cookie() {
    let mut pair = Pair::new();
    let stranger = NodeKey::generate().unwrap();
    let (client, next) = engine(&stranger, &pair.keys[1], Some(server_at()), pair.now);
    pair.client = client;
    pair.next = next;
    pair.open(1, true);
    pair.run(Duration::from_secs(5), true, true);
    assert!(pair.asked.is_empty());
    assert!(pair.sent[1].iter().all(|datagram| datagram.len() <= 21));
}

#[test]
fn a_new_address_gets_three_times_what_came_from_it_until_it_answers() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.settle();
    // The client's next datagram comes from elsewhere, and no one there answers.
    let elsewhere: SocketAddr = "198.51.100.7:53".parse().unwrap();
    pair.now += Duration::from_millis(500);
    let mut heard = 0;
    while let Some((_, datagram)) = pair.client.poll_transmit(pair.now) {
        heard += datagram.len();
        pair.server.handle_datagram(&datagram, elsewhere, pair.now);
    }
    assert!(heard > 0);
    pair.answer(&vec![7; 100_000]);
    let mut said = 0;
    while let Some((to, datagram)) = pair.server.poll_transmit(pair.now) {
        assert_eq!(to, elsewhere);
        said += datagram.len();
    }
    assert!(said <= 3 * heard, "{said} for {heard}");

    // Where it was: the client is heard again, says what it is asked, and gets everything.
    pair.run(Duration::from_secs(3), true, true);
    assert_eq!(pair.response(key), Ok(vec![7; 100_000]));
}

#[test]
fn a_neighbour_that_has_forgotten_is_asked_again_where_that_does_no_harm() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.settle();
    assert_eq!(pair.asked.len(), 1);
    pair.restart_server();
    pair.run(Duration::from_secs(2), true, true);
    assert_eq!(pair.asked.len(), 2);
    pair.answer(b"response");
    pair.settle();
    assert_eq!(pair.response(key), Ok(b"response".to_vec()));
}

#[test]
fn what_may_be_done_once_is_done_once_whenever_the_neighbour_forgets() {
    // Which milliseconds of the beginning get through to the server and back, and when the server is started again.
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let mut pair = Pair::new();
        let key = pair.open(1, false);
        for _ in 0..3 {
            for _ in 0..rng.u32(1..60) {
                let to_server = rng.u8(..4) > 0;
                let to_client = rng.bool();
                pair.run(Duration::from_millis(rng.u64(1..20)), to_server, to_client);
            }
            pair.restart_server();
        }
        pair.run(Duration::from_secs(3), true, true);
        assert!(
            pair.asked.len() <= 1,
            "seed {seed}: executed {} times",
            pair.asked.len()
        );
        let lost = pair.response(key) == Err(Reading::Broken(ErrCode::Unknown));
        let waiting = pair.asked.len() == 1 && pair.response(key) == Err(Reading::Waiting);
        assert!(lost || waiting, "seed {seed}: {:?}", pair.response(key));
    }
}

#[test]
fn an_exchange_that_no_one_answers_ends_when_its_time_is_over() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.settle();
    pair.run(KEEP, true, true);
    assert!(matches!(pair.response(key), Err(Reading::Broken(_))));
    assert!(
        pair.client
            .poll_timeout(pair.now)
            .is_none_or(|at| at > pair.now)
    );
}

#[test]
fn a_reader_that_is_slow_cannot_stop_the_others() {
    let mut pair = Pair::new();
    // More than all that may be held, in exchanges that no one reads from.
    let slow = (HELD / AHEAD + 2) as u8;
    for name in 1..=slow {
        pair.open(name, true);
        pair.settle();
        pair.answer(&vec![name; AHEAD as usize + 1000]);
    }
    pair.run(Duration::from_secs(20), true, true);

    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let key = pair.open(200, true);
    pair.settle();
    pair.answer(&content);
    let mut read = Vec::new();
    for _ in 0..20_000 {
        match pair.client.read(key, 64 * 1024) {
            Reading::Bytes(bytes) => read.extend_from_slice(&bytes),
            Reading::Waiting => pair.run(Duration::from_millis(1), true, true),
            Reading::End => break,
            Reading::Broken(code) => panic!("{code:?}"),
        }
    }
    assert!(read == content, "{} bytes", read.len());
}
