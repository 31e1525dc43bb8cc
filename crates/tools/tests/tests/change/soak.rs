//! Reloads under load: long TCP tunnels, UDP sessions, HTTP exchanges on kept and on new connections, while routes, upstreams,
//! listeners and fields change. Nothing may fail, and every byte and datagram is accounted for.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle, scope};

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::eventually::eventually_true;
use hermes_tests::free::tcp as free;
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client;
use hermes_tests::{Node, origins};

/// Reloads of the ordinary test; `HERMES_SOAK` asks for another number.
const RELOADS: usize = 20;

/// What a soak needs.
struct Stage {
    edge: Node,
    voices: [SocketAddr; 2],
    db: SocketAddr,
    site: SocketAddr,
    web: SocketAddr,
    voice: SocketAddr,
    tcp: SocketAddr,
    spare: SocketAddr,
}

impl Stage {
    /// The configuration of one round: each round differs in routes, upstreams, listeners and fields.
    fn yaml(&self, round: usize) -> String {
        let Self {
            edge,
            voices,
            db,
            site,
            web,
            voice,
            tcp,
            spare,
        } = self;
        let (edge, even) = (edge.address("web"), round.is_multiple_of(2));
        let names = if even {
            ["web", "tcp", "voice"]
        } else {
            ["front", "port", "speech"]
        };
        let spare = match round % 3 {
            0 => format!("  spare: {{ http: \"{spare}\" }}\n"),
            1 => format!("  spare: {{ tcp: \"{spare}\", target: \"DB:1\" }}\n"),
            _ => String::new(),
        };
        let voices_route = ["terminate: one", "terminate: two", "to: edge", "to: other"][round % 4];
        let connect = 5 + round % 7;
        format!(
            "listeners:\n  {}: {{ http: \"{web}\", set: {{ round: \"{round}\" }} }}\n  {}: {{ tcp: \"{tcp}\", target: \"DB:1\" }}\n  \
             {}: {{ udp: \"{voice}\", target: \"VOICE:1\" }}\n{spare}routes:\n  \
             - {{ name: \"site-{round}\", match: {{ target: SITE }}, terminate: site }}\n  \
             - {{ match: {{ target: DB }}, terminate: db }}\n  - {{ {voices_route} }}\nupstreams:\n  \
             site: {{ endpoints: [\"{site}\"], timeouts: {{ connect: {connect}s }} }}\n  \
             db: {{ endpoints: [\"{db}\"], timeouts: {{ connect: {connect}s }} }}\n  \
             one: {{ endpoints: [\"{}\"] }}\n  two: {{ endpoints: [\"{}\"], timeouts: {{ connect: {connect}s }} }}\n  \
             edge: {{ endpoints: [\"{edge}\"], http: 2 }}\n  other: {{ endpoints: [\"{edge}\"], http: 1 }}\n\
             drain: 5s\n\
             log: {{ level: warn, access: {{ file: access.json }} }}\n",
            names[0], names[1], names[2], voices[0], voices[1],
        )
    }
}

/// What is under way: work that stops when told, and counts its steps.
struct Load<'a> {
    over: &'a AtomicBool,
    steps: Vec<&'a AtomicU64>,
}

impl<'a> Load<'a> {
    /// A thread that repeats `step`, which gets the number of the step and returns the bytes or datagrams it moved.
    fn start<'s>(
        &mut self,
        threads: &'s Scope<'s, 'a>,
        mut step: impl FnMut(u64) -> u64 + Send + 's,
    ) -> ScopedJoinHandle<'s, u64>
    where
        'a: 's,
    {
        let steps: &'a AtomicU64 = Box::leak(Box::default());
        self.steps.push(steps);
        let over = self.over;
        threads.spawn(move || {
            let mut moved = 0;
            while !over.load(Ordering::Relaxed) {
                moved += step(steps.fetch_add(1, Ordering::Relaxed));
            }
            moved
        })
    }

    /// Waits until everything has made some more steps.
    fn goes_on(&self) {
        let before: Vec<u64> = self
            .steps
            .iter()
            .map(|steps| steps.load(Ordering::Relaxed))
            .collect();
        eventually_true("all work goes on", || {
            self.steps
                .iter()
                .zip(&before)
                .all(|(steps, before)| steps.load(Ordering::Relaxed) >= before + 3)
        });
    }
}

/// A block that no other step sends.
fn block(step: u64) -> Vec<u8> {
    (0..2000_u64)
        .map(|byte| (byte.wrapping_mul(step + 1) % 251) as u8)
        .collect()
}

fn request(raw: &mut Raw, number: u64) {
    let close = if number == u64::MAX {
        "Connection: close\r\n"
    } else {
        ""
    };
    let content = block(number % 1000);
    raw.send(format!(
        "POST http://SITE/ HTTP/1.1\r\nHost: SITE\r\n{close}Content-Length: {}\r\n\r\n",
        content.len()
    ));
    raw.send(content);
    let (head, content) = raw.response();
    assert_eq!(head.status(), 200, "{}", String::from_utf8_lossy(&content));
}

#[test]
fn reloads_under_load_lose_nothing_and_leave_nothing_behind() {
    let reloads = std::env::var("HERMES_SOAK")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(RELOADS);
    let voices = [
        origins::udp_echo(origins::V4),
        origins::udp_echo(origins::V4),
    ];
    let (db, site) = (origins::tcp_echo(), origins::http());
    let edge = Node::start(
        "edge",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }} }}\nroutes: [ {{ terminate: voice }} ]\n\
             upstreams: {{ voice: {{ endpoints: [\"{}\"] }} }}\n",
            voices[0].address()
        ),
    );
    let voices_at = [voices[0].address(), voices[1].address()];
    let (web, voice, tcp, spare) = (free(), free(), free(), free());
    let stage = Stage {
        edge,
        voices: voices_at,
        db: db.address(),
        site: site.address(),
        web,
        voice,
        tcp,
        spare,
    };
    let mut node = Node::start("alice", &stage.yaml(0));
    let over = AtomicBool::new(false);
    let (mut fds, mut tunnels) = (Vec::new(), serde_json::Map::new());
    let moved: Vec<u64> = scope(|threads| {
        let mut load = Load {
            over: &over,
            steps: Vec::new(),
        };
        let mut all = Vec::new();
        for _ in 0..3 {
            let mut tunnel = Raw::connect(tcp);
            all.push(load.start(threads, move |step| {
                let sent = block(step);
                tunnel.send(&sent);
                assert!(
                    tunnel.exactly(sent.len()) == sent,
                    "a block came back otherwise"
                );
                sent.len() as u64
            }));
            let client = Client::connect(voice);
            assert_eq!(client.ask("first"), b"first");
            all.push(load.start(threads, move |step| {
                client.send(step.to_be_bytes());
                assert_eq!(
                    client.receive(),
                    step.to_be_bytes(),
                    "a datagram was lost, doubled or out of order"
                );
                1
            }));
        }
        let mut capsules = UdpTunnel::h1(web, "VOICE", 1, "").unwrap();
        all.push(load.start(threads, move |step| {
            capsules.send(step.to_be_bytes());
            assert_eq!(
                capsules.receive(),
                step.to_be_bytes(),
                "a datagram was lost, doubled or out of order"
            );
            1
        }));
        let mut kept = Raw::connect(web);
        all.push(load.start(threads, move |step| {
            request(&mut kept, step);
            1
        }));
        all.push(load.start(threads, move |_| {
            request(&mut Raw::connect(web), u64::MAX);
            1
        }));
        load.goes_on();
        for round in 1..=reloads {
            let (status, report) = node.reload(&stage.yaml(round));
            assert_eq!(status, 200, "{report:#}");
            assert_eq!(report["tunnels"]["ended"], 0, "{report:#}");
            for (what, count) in report["tunnels"].as_object().unwrap() {
                let sum = tunnels.entry(what.clone()).or_insert(0.into());
                *sum = (sum.as_u64().unwrap() + count.as_u64().unwrap()).into();
            }
            load.goes_on();
            fds.push(node.fds());
        }
        over.store(true, Ordering::Relaxed);
        all.into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let (first, last) = fds.split_at(fds.len() / 2);
    let most = |fds: &[usize]| fds.iter().copied().max().unwrap_or_default();
    eprintln!(
        "{reloads} reloads; tunnels {tunnels:?}; moved {moved:?}; descriptors at most {} and {}",
        most(first),
        most(last)
    );
    assert!(most(last) <= most(first) + 8, "descriptors grow: {fds:?}");
    assert_eq!(node.status()["config"]["revision"], reloads as u64 + 1);
    let failed: Vec<_> = node
        .access()
        .into_iter()
        .filter(|record| record["dropped"].as_u64().unwrap_or(0) > 0)
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    // A task that hangs would be in the way of the end, which then is not a success.
    assert!(node.stop().success());
}
