//! A client, nodes in a row, and a server at its end, in virtual time.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use hermes_custody::engine::Opening;
use hermes_custody::{Engine, Event, ExchangeKey, NeighbourId, PrivateKey, Reading};

use crate::bound::Schedule;

/// After this time a transfer has failed.
const GIVEN_UP: Duration = Duration::from_secs(300);

/// What IP, UDP and Ethernet add to a datagram, in bytes.
const HEADERS: usize = 46;

/// What the client sends.
const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: example.org\r\nUser-Agent: test\r\n\r\n";

/// Links in a row.
#[derive(Debug, Clone)]
pub struct Network {
    pub links: usize,
    /// Bytes a second.
    pub rate: f64,
    pub delay: Duration,
    /// Bytes that may wait at a link.
    pub queue: usize,
    /// The share of datagrams that is lost.
    pub loss: f64,
    pub schedule: Schedule,
}

/// What has happened when.
enum Happening {
    Arrives {
        to: usize,
        from: usize,
        datagram: Bytes,
    },
    Wakes(usize),
}

/// One node.
struct Node {
    engine: Engine,
    /// The neighbour towards the server.
    up: Option<NeighbourId>,
    /// The exchange with the other neighbour, for each.
    other: HashMap<ExchangeKey, ExchangeKey>,
    wakes: Option<Instant>,
}

pub struct Chain {
    network: Network,
    nodes: Vec<Node>,
    content: Bytes,
    begun: Instant,
    now: Instant,
    happenings: BTreeMap<(Instant, u64), Happening>,
    count: u64,
    /// When a link has sent what waits at it, by sending node and receiving node.
    busy: HashMap<(usize, usize), Instant>,
    rng: Rng,
    received: Vec<u8>,
    asked: Vec<u8>,
    done: Option<Instant>,
    /// Requests that the server has answered.
    pub executed: usize,
    /// The longest that a datagram has waited at a link, for those before it.
    pub longest_queue: Duration,
}

fn address(node: usize) -> SocketAddr {
    format!("10.0.0.{}:4500", node + 1).parse().unwrap()
}

fn node_at(address: SocketAddr) -> usize {
    let last = address.ip().to_string();
    last.rsplit('.').next().unwrap().parse::<usize>().unwrap() - 1
}

impl Chain {
    pub fn new(network: &Network, seed: u64, size: usize) -> Self {
        let now = Instant::now();
        let mut rng = Rng::with_seed(seed);
        let keys: Vec<_> = (0..=network.links)
            .map(|_| PrivateKey::generate().unwrap())
            .collect();
        let node = |index: usize| {
            let mut engine = Engine::new(keys[index].clone(), seed * 31 + index as u64, now);
            if index > 0 {
                engine.add_neighbour(keys[index - 1].public(), None, now);
            }
            let up = keys.get(index + 1);
            let up =
                up.map(|key| engine.add_neighbour(key.public(), Some(address(index + 1)), now));
            Node {
                engine,
                up,
                other: HashMap::new(),
                wakes: None,
            }
        };
        let nodes = (0..=network.links).map(node).collect();
        let content = (0..size).map(|_| rng.u8(..)).collect();
        Self {
            network: network.clone(),
            nodes,
            content,
            begun: now,
            now,
            happenings: BTreeMap::new(),
            count: 0,
            busy: HashMap::new(),
            rng,
            received: Vec::new(),
            asked: Vec::new(),
            done: None,
            executed: 0,
            longest_queue: Duration::ZERO,
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.now - self.begun
    }

    /// One transfer, `begin` after the links began; how long it took.
    pub fn transfer(&mut self, begin: Duration) -> Option<Duration> {
        self.now = self.begun + begin;
        let start = self.now;
        let client = &mut self.nodes[0];
        let key = ExchangeKey {
            neighbour: client.up.unwrap(),
            exchange: [7; 16],
        };
        assert!(client.engine.open(key, opening(), self.now));
        client.engine.write(key, Bytes::from_static(REQUEST));
        client.engine.finish(key);
        self.run(0);

        while self.done.is_none() && self.elapsed() < GIVEN_UP {
            let ((at, _), happening) = self.happenings.pop_first()?;
            self.now = at;
            match happening {
                Happening::Arrives { to, from, datagram } => {
                    self.nodes[to]
                        .engine
                        .handle_datagram(&datagram, address(from), at);
                    self.run(to);
                }
                Happening::Wakes(node) => {
                    if self.nodes[node].wakes == Some(at) {
                        self.nodes[node].wakes = None;
                        self.nodes[node].engine.handle_timeout(at);
                        self.run(node);
                    }
                }
            }
        }

        assert!(
            self.done.is_none() || self.received == self.content,
            "every byte is right"
        );
        self.done.map(|done| done - start)
    }

    /// What a node does until it waits again.
    fn run(&mut self, index: usize) {
        loop {
            while let Some(event) = self.nodes[index].engine.poll_event() {
                self.handle(index, event);
            }
            let Some((to, datagram)) = self.nodes[index].engine.poll_transmit(self.now) else {
                break;
            };
            self.send(index, node_at(to), datagram);
        }

        let wakes = self.nodes[index].engine.poll_timeout(self.now);
        let wakes = wakes.map(|at| at.max(self.now + Duration::from_micros(1)));
        let node = &mut self.nodes[index];
        if let Some(at) = wakes.filter(|at| {
            node.wakes
                .is_none_or(|known| known > *at || known < self.now)
        }) {
            node.wakes = Some(at);
            self.happen(at, Happening::Wakes(index));
        }
    }

    fn handle(&mut self, index: usize, event: Event) {
        match event {
            Event::Asked(key) => {
                let node = &mut self.nodes[index];
                if let Some(up) = node.up {
                    let next = ExchangeKey {
                        neighbour: up,
                        ..key
                    };
                    assert!(node.engine.open(next, opening(), self.now));
                    node.other.insert(key, next);
                    node.other.insert(next, key);
                }
                self.pass_on(index, key);
            }
            Event::Readable(key) => self.pass_on(index, key),
            Event::Writable(key) => {
                if let Some(other) = self.nodes[index].other.get(&key) {
                    self.pass_on(index, *other);
                }
            }
            Event::Over(_) => {}
        }
    }

    /// Moves what can be read of an exchange to where it goes.
    fn pass_on(&mut self, index: usize, from: ExchangeKey) {
        if index == 0 && self.done.is_some() {
            return;
        }
        let node = &mut self.nodes[index];
        let to = node.other.get(&from).copied();
        loop {
            let room = to.map_or(usize::MAX, |to| node.engine.room(to));
            if room == 0 {
                return;
            }
            match node.engine.read(from, room.min(16 * 1024)) {
                Reading::Bytes(bytes) => match to {
                    Some(to) => node.engine.write(to, bytes),
                    None if index == 0 => self.received.extend_from_slice(&bytes),
                    None => self.asked.extend_from_slice(&bytes),
                },
                Reading::End => break,
                Reading::Waiting => return,
                Reading::Broken(code) => panic!("node {index}: {code:?}"),
            }
        }

        match to {
            Some(to) => node.engine.finish(to),
            None if index == 0 => {
                self.done = self.done.or(Some(self.now));
                node.engine.close(from, self.now);
            }
            // The server has the whole request.
            None if self.executed == 0 => {
                assert_eq!(self.asked, REQUEST);
                self.executed += 1;
                // Its room is what one response takes; more would have to wait.
                node.engine.write(from, self.content.clone());
                node.engine.finish(from);
            }
            None => {}
        }
    }

    fn send(&mut self, from: usize, to: usize, datagram: Bytes) {
        let link = from.min(to);
        let size = datagram.len() + HEADERS;
        let begins = self
            .busy
            .get(&(from, to))
            .copied()
            .unwrap_or(self.now)
            .max(self.now);
        self.longest_queue = self.longest_queue.max(begins - self.now);
        let waiting = (begins - self.now).as_secs_f64() * self.network.rate;
        if waiting as usize > self.network.queue || self.rng.f64() < self.network.loss {
            return;
        }

        let sent = begins + Duration::from_secs_f64(size as f64 / self.network.rate);
        self.busy.insert((from, to), sent);
        // What is on the wire while the link goes down is lost.
        if self.network.schedule.is_up(link, sent - self.begun) {
            let arrives = Happening::Arrives { to, from, datagram };
            self.happen(sent + self.network.delay, arrives);
        }
    }

    fn happen(&mut self, at: Instant, happening: Happening) {
        self.count += 1;
        self.happenings.insert((at, self.count), happening);
    }
}

fn opening() -> Opening {
    Opening {
        keep: GIVEN_UP * 2,
        repeatable: true,
        parent: None,
    }
}
