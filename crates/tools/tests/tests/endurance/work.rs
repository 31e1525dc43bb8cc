//! What clients do while processes die, and what they may see.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::Duration;

use hermes_tests::eventually::eventually;
use hermes_tests::head::Head;
use hermes_tests::raw::{End, Raw};
use hermes_tests::udp;
use parking_lot::Mutex;

/// What all clients know of the killing, and what became of their work.
#[derive(Debug)]
pub struct Scene {
    /// Which process is killed, or was last; [`Scene::NONE`] before the first.
    pub victim: AtomicUsize,
    /// Kills so far.
    pub kills: AtomicUsize,
    /// Kills after which the process is back.
    pub back: AtomicUsize,
    /// Tunnels that broke off.
    pub ended: AtomicUsize,
    /// Whether clients should stop.
    pub over: AtomicBool,
    /// What each POST came to.
    pub posts: Mutex<Vec<Post>>,
    /// Steps of each client.
    steps: Vec<AtomicU64>,
}

/// What a request that may not be repeated came to.
#[derive(Debug)]
pub struct Post {
    /// Which client sent it.
    client: usize,
    pub id: u64,
    /// Answered with success.
    pub done: bool,
}

/// What came of a request.
#[derive(Debug)]
enum Outcome {
    /// An answer, and its content.
    Answer(Head, Vec<u8>),
    /// An answer whose content broke off.
    Cut,
    /// No answer: only the proxy next to the client can die without one.
    Nothing,
}

impl Scene {
    /// No one was killed.
    pub const NONE: usize = usize::MAX;

    /// For this many clients.
    pub fn new(clients: usize) -> Self {
        let zero = AtomicUsize::default;
        Self {
            victim: AtomicUsize::new(Self::NONE),
            kills: zero(),
            back: zero(),
            ended: zero(),
            over: AtomicBool::new(false),
            posts: Mutex::default(),
            steps: (0..clients).map(|_| AtomicU64::default()).collect(),
        }
    }

    /// A client that repeats `step`, which gets a number of its own, until all is over.
    pub fn work<'s>(
        &'s self,
        threads: &'s Scope<'s, '_>,
        client: usize,
        mut step: impl FnMut(u64) + Send + 's,
    ) {
        threads.spawn(move || {
            while !self.over.load(Ordering::SeqCst) {
                step(((client as u64) << 40) + self.steps[client].load(Ordering::SeqCst));
                self.steps[client].fetch_add(1, Ordering::SeqCst);
            }
        });
    }

    /// Waits until every client has made some more steps.
    pub fn go_on(&self, more: u64) {
        for (client, steps) in self.steps.iter().enumerate() {
            let before = steps.load(Ordering::SeqCst);
            eventually(&format!("client {client} goes on"), || {
                (steps.load(Ordering::SeqCst) >= before + more).then_some(())
            });
        }
    }

    /// POSTs that failed, by client.
    pub fn failed(&self) -> Vec<usize> {
        let posts = self.posts.lock();
        let of = |client| {
            posts
                .iter()
                .filter(|post| post.client == client && !post.done)
                .count()
        };
        (0..self.steps.len()).map(of).collect()
    }

    /// Asserts that it was Alice's own proxy that died: no one else can say what happened to her clients then.
    fn alice_died(&self, what: &str) {
        assert_eq!(
            self.victim.load(Ordering::SeqCst),
            0,
            "{what}, and it was not the first proxy that died"
        );
    }

    fn await_back(&self) {
        let kills = self.kills.load(Ordering::SeqCst);
        eventually("the process is back", || {
            (self.back.load(Ordering::SeqCst) >= kills).then_some(())
        });
    }
}

/// Sends one request on a connection of its own.
fn ask(web: SocketAddr, method: &str, id: u64, content: &[u8]) -> Outcome {
    let Some(mut raw) = Raw::try_connect(web) else {
        return Outcome::Nothing;
    };
    let length = content.len();
    raw.send_if_open(format!(
        "{method} http://SITE/ HTTP/1.1\r\nHost: SITE\r\nx-id: {id}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    ));
    raw.send_if_open(content);
    let answer = raw.until(|_| false);
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Outcome::Nothing;
    };
    let (head, content) = (
        Head::parse(&String::from_utf8_lossy(&answer[..end])),
        answer[end + 4..].to_vec(),
    );
    let whole = head
        .field("content-length")
        .is_none_or(|length| length == content.len().to_string());
    if whole {
        Outcome::Answer(head, content)
    } else {
        Outcome::Cut
    }
}

/// A request that may be repeated: it succeeds, whichever process dies. A client of a proxy that died asks again itself, and so does one
/// whose answer had begun.
pub fn idempotent(scene: &Scene, web: SocketAddr, method: &str, id: u64, content: &[u8]) {
    eventually("an answer", || match ask(web, method, id, content) {
        Outcome::Answer(head, echo) => {
            assert_eq!(head.status(), 200, "{method} {id}: {head:?}");
            assert!(echo == content, "{method} {id}: other content came back");
            Some(())
        }
        Outcome::Cut => None,
        Outcome::Nothing => {
            scene.alice_died("an idempotent request was not answered");
            None
        }
    });
}

/// A request that may not be repeated: it succeeds, or fails with a reason. A client that failed waits until the process is back.
pub fn post(scene: &Scene, web: SocketAddr, client: usize, id: u64) {
    let done = match ask(web, "POST", id, b"content") {
        Outcome::Answer(head, _) if head.status() == 200 => true,
        Outcome::Answer(head, _) => {
            let reason = head.field("proxy-status").unwrap_or_default();
            assert!([502, 503, 504].contains(&head.status()), "{head:?}");
            assert!(
                reason.contains("error=") && reason.contains("details="),
                "POST {id} failed without a reason: {head:?}"
            );
            false
        }
        Outcome::Cut => false,
        Outcome::Nothing => {
            scene.alice_died("a POST was not answered");
            false
        }
    };
    scene.posts.lock().push(Post { client, id, done });
    if !done {
        scene.await_back();
    }
}

/// A tunnel that is opened again when it has ended.
pub struct Tunnel<'a> {
    scene: &'a Scene,
    web: SocketAddr,
    /// Whether an end in the overlay must show as a reset: HTTP/1.1 cannot tell a process's end from that of a direction.
    resets: bool,
    open: Option<Raw>,
}

impl<'a> Tunnel<'a> {
    pub fn new(scene: &'a Scene, web: SocketAddr, resets: bool) -> Self {
        Self {
            scene,
            web,
            resets,
            open: None,
        }
    }

    /// One block there and back, through a tunnel that may have to be opened first.
    pub fn step(&mut self, number: u64) {
        let sent: Vec<u8> = (0..2000_u64)
            .map(|byte| (byte.wrapping_mul(number + 1) % 251) as u8)
            .collect();
        loop {
            let mut tunnel = self.open.take().unwrap_or_else(|| self.reopen());
            match tunnel.exchange(&sent) {
                Ok(came) => {
                    assert!(came == sent, "a block came back otherwise");
                    self.open = Some(tunnel);
                    return;
                }
                Err(end) => {
                    let victim = self.scene.victim.load(Ordering::SeqCst);
                    assert_ne!(victim, Scene::NONE, "a tunnel ended although no one died");
                    let inside = (1..4).contains(&victim);
                    assert!(
                        !(self.resets && inside) || end == End::Reset,
                        "the tunnel ended as if it were over"
                    );
                    self.scene.ended.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }

    fn reopen(&self) -> Raw {
        eventually("a tunnel", || {
            let Some(mut raw) = Raw::try_connect(self.web) else {
                self.scene.alice_died("nothing listens");
                return None;
            };
            raw.send_if_open("CONNECT DB:1 HTTP/1.1\r\nHost: DB:1\r\n\r\n");
            let answer = raw.until(|came| came.ends_with(b"\r\n\r\n"));
            if answer.is_empty() {
                self.scene.alice_died("CONNECT was not answered");
                return None;
            }
            let head = Head::parse(&String::from_utf8_lossy(&answer));
            let reason = head.field("proxy-status").unwrap_or_default();
            assert!(
                head.status() == 200 || reason.contains("error="),
                "CONNECT failed without a reason: {head:?}"
            );
            (head.status() == 200).then_some(raw)
        })
    }
}

/// How long a UDP client waits before it sends again.
const PATIENCE: Duration = Duration::from_millis(200);

/// A datagram there and back; again, as UDP clients do, when no answer comes.
pub fn datagram(client: &udp::Client, number: u64) {
    let sent = number.to_be_bytes();
    eventually("an answer over UDP", || {
        client.send_if_open(sent);
        while let Some(came) = client.receive_within(PATIENCE) {
            if came == sent {
                return Some(());
            }
        }
        None
    });
}
