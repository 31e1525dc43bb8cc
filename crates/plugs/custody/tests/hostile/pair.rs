//! Two nodes in one room, whose datagrams the test carries.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_custody::engine::Opening;
use hermes_custody::{Engine, Event, ExchangeKey, NeighbourId, PrivateKey, Reading};

pub const KEEP: Duration = Duration::from_secs(60);

/// A client and a server in one room, whose datagrams the test carries.
pub struct Pair {
    pub now: Instant,
    pub keys: [PrivateKey; 2],
    pub client: Engine,
    pub server: Engine,
    pub next: NeighbourId,
    /// What went each way, from the beginning on.
    pub sent: [Vec<Bytes>; 2],
    pub asked: Vec<ExchangeKey>,
}

pub fn client_at() -> SocketAddr {
    "192.0.2.1:4500".parse().unwrap()
}

pub fn server_at() -> SocketAddr {
    "192.0.2.2:4500".parse().unwrap()
}

pub fn engine(
    own: &PrivateKey,
    other: &PrivateKey,
    at: Option<SocketAddr>,
    now: Instant,
) -> (Engine, NeighbourId) {
    let mut engine = Engine::new(own.clone(), 7, now);
    let id = engine.add_neighbour(other.public(), at, now);
    (engine, id)
}

impl Pair {
    pub fn new() -> Self {
        let now = Instant::now();
        let keys = [
            PrivateKey::generate().unwrap(),
            PrivateKey::generate().unwrap(),
        ];
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

    pub fn key(&self, name: u8) -> ExchangeKey {
        ExchangeKey {
            neighbour: self.next,
            exchange: [name; 16],
        }
    }

    pub fn open(&mut self, name: u8, repeatable: bool) -> ExchangeKey {
        let key = self.begin(name, repeatable);
        self.client.write(key, Bytes::from_static(b"request"));
        self.client.finish(key);
        key
    }

    /// Begins an exchange, of which nothing is written yet.
    pub fn begin(&mut self, name: u8, repeatable: bool) -> ExchangeKey {
        self.begin_key(self.key(name), repeatable)
    }

    /// As [`begin`](Self::begin), under any name.
    pub fn begin_named(&mut self, exchange: [u8; 16]) -> ExchangeKey {
        let key = ExchangeKey {
            neighbour: self.next,
            exchange,
        };
        self.begin_key(key, true)
    }

    fn begin_key(&mut self, key: ExchangeKey, repeatable: bool) -> ExchangeKey {
        let opening = Opening {
            keep: KEEP,
            repeatable,
            parent: None,
        };
        assert!(self.client.open(key, opening, self.now));
        key
    }

    /// Lets time pass and datagrams through, in the directions that are open.
    pub fn run(&mut self, time: Duration, to_server: bool, to_client: bool) {
        let end = self.now + time;
        while self.now < end {
            self.write_out();
            while let Some((_, datagram)) = self.client.poll_transmit(self.now) {
                self.sent[0].push(datagram.clone());
                if to_server {
                    self.server
                        .handle_datagram(&datagram, client_at(), self.now);
                }
            }
            self.write_out();
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

    /// Waits until the disk has everything.
    fn write_out(&mut self) {
        for engine in [&mut self.client, &mut self.server] {
            while engine.is_writing() {
                engine.handle_written(self.now);
                std::thread::yield_now();
            }
        }
    }

    pub fn settle(&mut self) {
        self.run(Duration::from_millis(400), true, true);
    }

    pub fn answer(&mut self, content: &[u8]) {
        let key = *self.asked.last().unwrap();
        assert_eq!(
            self.server.read(key, 100),
            Reading::Bytes(Bytes::from_static(b"request"))
        );
        self.server.write(key, Bytes::copy_from_slice(content));
        self.server.finish(key);
    }

    pub fn response(&mut self, key: ExchangeKey) -> Result<Vec<u8>, Reading> {
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
    pub fn restart_server(&mut self) {
        let (server, _) = engine(&self.keys[1], &self.keys[0], None, self.now);
        self.server = server;
    }

    /// The client is another process, which knows where the server is, and nothing else.
    pub fn restart_client(&mut self) {
        let at = Some(server_at());
        let (client, next) = engine(&self.keys[0], &self.keys[1], at, self.now);
        self.client = client;
        self.next = next;
    }
}
