//! A neighbour's exchanges while one process succeeds another, in every order in which the two may notice each other.

use std::net::UdpSocket;

use hermes_net::shared_socket::SocketUse;
use hermes_noise::PrivateKey;
use tokio::task::JoinSet;

use super::*;
use crate::engine::{Event, ExchangeKey, NeighbourId, Opening, Reading};

/// How long an exchange may take, keys and the loss of a process included.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a process waits for messages that were sent to it already.
const MOMENT: Duration = Duration::from_millis(1);

/// One thing that a process does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    OlderLooks,
    OlderHears,
    NewerLooks,
    NewerHears,
}

/// The process to which the kernel gives the neighbour's datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Receiver {
    Older,
    Newer,
    /// One after the other, the older one first.
    Both,
}

/// An order of what happens while the neighbour begins an exchange.
#[derive(Debug, Clone)]
struct Order {
    steps: [Step; 4],
    receiver: Receiver,
    /// After so many steps the newer process is killed.
    newer_is_killed_after: Option<usize>,
}

/// One of the processes that have the node's socket.
struct Process {
    engine: Mutex<Engine>,
    company: Company,
    /// The exchanges that were begun here.
    asked: Vec<[u8; 16]>,
}

/// The neighbour, and the two processes.
struct Succession {
    near: Engine,
    next: NeighbourId,
    older: Process,
    newer: Option<Process>,
    socket: UdpSocket,
    key: PrivateKey,
    near_key: PrivateKey,
    /// Datagrams of the neighbour so far.
    sent: usize,
}

fn near_at() -> SocketAddr {
    "192.0.2.1:4500".parse().unwrap()
}

fn node_at() -> SocketAddr {
    "192.0.2.2:4500".parse().unwrap()
}

impl Process {
    fn new(socket: &UdpSocket, key: &PrivateKey, near: &PrivateKey) -> Self {
        let now = Instant::now();
        let mut engine = Engine::new(key.clone(), 7, now);
        engine.add_neighbour(near.public(), None, now);
        let rendezvous = Rendezvous::open(socket, SocketUse::Ingress).unwrap();
        let company = Company::new(Some(rendezvous), &mut engine).unwrap();
        Self {
            engine: Mutex::new(engine),
            company,
            asked: Vec::new(),
        }
    }

    fn take(&mut self, datagram: &Bytes) {
        let came = Came {
            from: near_at(),
            waited: Duration::ZERO,
            now: Instant::now(),
        };
        self.company.take(&mut self.engine.lock(), datagram, came);
    }

    fn look(&mut self) {
        self.company.look(&self.engine, &AtomicBool::new(false));
    }

    /// Takes all messages that the other process has sent.
    async fn hear(&mut self) {
        while let NextDatagrams::Forwarded(arrived) =
            self.company.next_or(tokio::time::sleep(MOMENT)).await
        {
            self.company.hear(&self.engine, arrived);
        }
    }

    /// Answers the exchanges that were begun here, and gives the neighbour its datagrams.
    fn answer(&mut self, near: &mut Engine) {
        let now = Instant::now();
        let mut engine = self.engine.lock();
        engine.handle_timeout(now);
        while let Some(event) = engine.poll_event() {
            if let Event::Asked(key) = event {
                self.asked.push(key.exchange);
                engine.write(key, Bytes::from_static(b"response"));
                engine.finish(key);
            }
        }
        while let Some((to, datagram)) = engine.poll_transmit(now) {
            assert_eq!(to, near_at());
            near.handle_datagram(&datagram, node_at(), now);
        }
    }
}

impl Succession {
    /// A process that has answered one exchange of the neighbour, which goes on, and another process that has just come.
    async fn new() -> Self {
        let key = PrivateKey::generate().unwrap();
        let near_key = PrivateKey::generate().unwrap();
        let mut near = Engine::new(near_key.clone(), 9, Instant::now());
        let next = near.add_neighbour(key.public(), Some(node_at()), Instant::now());
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let older = Process::new(&socket, &key, &near_key);
        let mut all = Self {
            near,
            next,
            older,
            newer: None,
            socket,
            key,
            near_key,
            sent: 0,
        };

        let first = all.open(1);
        let until = Instant::now() + PATIENCE;
        while all.response(first) != b"response" && Instant::now() < until {
            all.pass(Receiver::Older);
            all.older.answer(&mut all.near);
            tokio::time::sleep(MOMENT).await;
        }
        assert_eq!(all.older.asked, [[1; 16]]);
        all.newer = Some(Process::new(&all.socket, &all.key, &all.near_key));
        all
    }

    fn open(&mut self, name: u8) -> ExchangeKey {
        let key = ExchangeKey {
            neighbour: self.next,
            exchange: [name; 16],
        };
        let opening = Opening {
            keep: Duration::from_secs(60),
            repeatable: true,
            parent: None,
        };
        assert!(self.near.open(key, opening, Instant::now()));
        self.near.write(key, Bytes::from_static(b"request"));
        key
    }

    /// What has come of a response.
    fn response(&mut self, key: ExchangeKey) -> Vec<u8> {
        match self.near.read(key, 100) {
            Reading::Bytes(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        }
    }

    /// Gives a process the neighbour's datagrams.
    fn pass(&mut self, receiver: Receiver) {
        let now = Instant::now();
        self.near.handle_timeout(now);
        while let Some((_, datagram)) = self.near.poll_transmit(now) {
            let is_newer = match receiver {
                Receiver::Older => false,
                Receiver::Newer => true,
                Receiver::Both => self.sent % 2 == 1,
            };
            self.sent += 1;
            match self.newer.as_mut().filter(|_| is_newer) {
                Some(newer) => newer.take(&datagram),
                None => self.older.take(&datagram),
            }
        }
    }

    async fn step(&mut self, step: Step) {
        match (step, &mut self.newer) {
            (Step::OlderLooks, _) => self.older.look(),
            (Step::OlderHears, _) => self.older.hear().await,
            (Step::NewerLooks, Some(newer)) => newer.look(),
            (Step::NewerHears, Some(newer)) => newer.hear().await,
            (Step::NewerLooks | Step::NewerHears, None) => {}
        }
    }

    /// The neighbour begins another exchange, and gets its response.
    async fn second(&mut self, order: &Order) {
        let second = self.open(2);
        let until = Instant::now() + PATIENCE;
        let mut steps = 0;
        loop {
            self.pass(order.receiver);
            for step in order.steps {
                if order.newer_is_killed_after == Some(steps) {
                    self.newer = None;
                }
                self.step(step).await;
                steps += 1;
            }
            self.older.answer(&mut self.near);
            if let Some(newer) = &mut self.newer {
                newer.answer(&mut self.near);
            }
            if self.response(second) == b"response" {
                return;
            }
            assert!(Instant::now() < until, "no response: {order:?}");
            tokio::time::sleep(MOMENT).await;
        }
    }
}

/// All orders of the steps.
fn permutations() -> Vec<[Step; 4]> {
    use Step::{NewerHears, NewerLooks, OlderHears, OlderLooks};
    let all = [OlderLooks, OlderHears, NewerLooks, NewerHears];
    let mut found = Vec::new();
    for number in 0..4_usize.pow(4) {
        let steps = std::array::from_fn(|at| all[number / 4_usize.pow(at as u32) % 4]);
        if all.iter().all(|step| steps.contains(step)) {
            found.push(steps);
        }
    }
    assert_eq!(found.len(), 24);
    found
}

/// Each order with each receiver.
fn orders(newer_is_killed_after: Option<usize>) -> impl Iterator<Item = Order> {
    let receivers = [Receiver::Older, Receiver::Newer, Receiver::Both];
    permutations().into_iter().flat_map(move |steps| {
        receivers.map(|receiver| Order {
            steps,
            receiver,
            newer_is_killed_after,
        })
    })
}

#[tokio::test]
async fn a_new_exchange_comes_to_the_newer_process_in_whatever_order_they_notice_each_other() {
    let mut cases = JoinSet::new();
    for order in orders(None) {
        cases.spawn(async move {
            let mut all = Succession::new().await;
            all.second(&order).await;
            assert_eq!(all.older.asked, [[1; 16]], "{order:?}");
            let newer = all.newer.unwrap();
            assert_eq!(newer.asked, [[2; 16]], "{order:?}");
        });
    }
    cases.join_all().await;
}

#[tokio::test]
async fn a_process_that_has_come_can_answer_the_first_frames_that_it_is_given() {
    for receiver in [Receiver::Older, Receiver::Newer] {
        let mut all = Succession::new().await;
        all.open(2);
        // The neighbour says it once, and the older process has not looked round since the newer one came.
        all.pass(receiver);
        let until = Instant::now() + PATIENCE;
        let (to, _) = loop {
            all.older.hear().await;
            let newer = all.newer.as_mut().unwrap();
            newer.hear().await;
            if let Some(due) = newer.engine.lock().poll_transmit(Instant::now()) {
                break due;
            }
            assert!(Instant::now() < until, "nothing is said: {receiver:?}");
        };
        assert_eq!(to, near_at());
    }
}

#[tokio::test]
async fn a_new_exchange_is_answered_by_the_older_process_if_the_newer_one_is_killed() {
    // Before anything has happened, and up to the second turn, in which the newer one may have begun the exchange.
    for steps in 0..8 {
        let mut cases = JoinSet::new();
        for order in orders(Some(steps)) {
            cases.spawn(async move {
                let mut all = Succession::new().await;
                all.second(&order).await;
                let asked = &all.older.asked;
                // The newer one may have been so fast that it answered before it was killed.
                let is_answered_before = all.newer.is_some();
                let is_answered_here = *asked == [[1; 16], [2; 16]];
                assert!(
                    is_answered_before || is_answered_here,
                    "{order:?}: {asked:?}"
                );
            });
        }
        cases.join_all().await;
    }
}
