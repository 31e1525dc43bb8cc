//! The kill matrix: each process of a chain of four proxies, and the origin, is killed under load and started again.

use std::sync::atomic::Ordering;
use std::thread::{Scope, scope};

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, udp};

use crate::asked;
use crate::chain::{Chain, PROCESSES};
use crate::work::{self, Scene, Tunnel};

/// Rounds in which every process is killed once; `HERMES_KILLS` asks for another number, `HERMES_SEED` for another order.
const ROUNDS: usize = 1;

/// Steps that every client makes between two kills.
const STEPS: u64 = 3;

/// Clients of each kind.
const GETS: usize = 2;
const POSTS: usize = 2;
const TUNNELS: usize = 2;

/// Content of a PUT, in bytes.
const CONTENT: usize = 20_000;

#[test]
fn whichever_process_dies_over_http_1_what_is_idempotent_succeeds_and_nothing_is_done_twice() {
    matrix(1);
}

#[test]
fn whichever_process_dies_over_http_2_what_is_idempotent_succeeds_and_nothing_is_done_twice() {
    matrix(2);
}

fn matrix(version: u8) {
    let mut chain = Chain::start(version);
    let scene = Scene::new(GETS + POSTS + TUNNELS + 2);
    scope(|threads| {
        // A client that fails must not leave the others working for ever.
        let over = Over(&scene);
        start(threads, &scene, &chain, version);
        scene.go_on(STEPS);
        let mut random = Random(asked("HERMES_SEED", 1) as u64);
        for _ in 0..asked("HERMES_KILLS", ROUNDS) {
            for process in random.shuffled() {
                let before = scene.failed();
                kill_and_restart(&scene, &mut chain, process);
                scene.go_on(STEPS);
                let failures = scene
                    .failed()
                    .iter()
                    .zip(before)
                    .map(|(after, before)| after - before)
                    .max();
                assert!(
                    failures <= Some(1),
                    "{failures:?} POSTs of one client failed when {} died",
                    PROCESSES[process]
                );
            }
        }
        drop(over);
    });
    judge(&scene, &chain, version);
    chain.nodes().iter().for_each(Node::idle);
    chain.stop();
}

fn start<'s>(threads: &'s Scope<'s, '_>, scene: &'s Scene, chain: &Chain, version: u8) {
    let (web, voice) = (chain.web, chain.voice);
    let mut number = 0..;
    let mut client =
        |step: Box<dyn FnMut(u64) + Send + 's>| scene.work(threads, number.next().unwrap(), step);
    for _ in 0..GETS {
        client(Box::new(move |step| {
            work::idempotent(scene, web, "GET", step, b"")
        }));
    }
    client(Box::new(move |step| {
        work::idempotent(scene, web, "PUT", step, &[b'c'; CONTENT])
    }));
    for poster in 0..POSTS {
        client(Box::new(move |step| work::post(scene, web, poster, step)));
    }
    for _ in 0..TUNNELS {
        let mut tunnel = Tunnel::new(scene, web, version == 2);
        client(Box::new(move |step| tunnel.step(step)));
    }
    let speaker = udp::Client::connect(voice);
    client(Box::new(move |step| work::datagram(&speaker, step)));
}

/// The process is gone until every tunnel has noticed.
fn kill_and_restart(scene: &Scene, chain: &mut Chain, process: usize) {
    let ended = scene.ended.load(Ordering::SeqCst);
    scene.victim.store(process, Ordering::SeqCst);
    scene.kills.fetch_add(1, Ordering::SeqCst);
    chain.kill(process);
    eventually_true(
        &format!("all tunnels end when {} dies", PROCESSES[process]),
        || scene.ended.load(Ordering::SeqCst) >= ended + TUNNELS,
    );
    chain.restart(process);
    scene.back.fetch_add(1, Ordering::SeqCst);
}

/// What was told to the clients, and what the origin did.
fn judge(scene: &Scene, chain: &Chain, version: u8) {
    let (processed, posts) = (chain.origin.processed(), scene.posts.lock());
    for post in posts.iter() {
        let times = processed
            .get(&format!("POST {}", post.id))
            .copied()
            .unwrap_or(0);
        assert!(times <= 1, "{post:?} was processed {times} times");
        assert!(
            times == 1 || !post.done,
            "{post:?} was answered with success and never processed"
        );
    }
    let failed = posts.iter().filter(|post| !post.done).count();
    let repeated = processed
        .iter()
        .filter(|(request, times)| !request.starts_with("POST") && **times > 1)
        .count();
    let kills = scene.kills.load(Ordering::SeqCst);
    eprintln!(
        "HTTP/{version}: {kills} kills; {} POSTs, {failed} failed, none done twice; {} requests that may be repeated, \
         {repeated} done more than once, none failed; {} tunnels ended and were opened again",
        posts.len(),
        processed
            .keys()
            .filter(|request| !request.starts_with("POST"))
            .count(),
        scene.ended.load(Ordering::SeqCst),
    );
}

/// Ends the work, however the test ends.
struct Over<'a>(&'a Scene);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
    }
}

/// Numbers of which the seed decides (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % 1_000_003).unwrap()
    }

    /// Every process once.
    fn shuffled(&mut self) -> Vec<usize> {
        let mut left: Vec<usize> = (0..PROCESSES.len()).collect();
        let mut order = Vec::new();
        while !left.is_empty() {
            order.push(left.swap_remove(self.next() % left.len()));
        }
        order
    }
}
