//! Memory and descriptors stay flat, whatever comes and goes: short exchanges of all kinds, refused and aborted ones, reloads.

use std::thread::scope;
use std::time::{Duration, Instant};

use hermes_tests::crowd::resident;
use hermes_tests::{Node, Pki, origins};

use crate::asked;
use crate::visits::{self, Places};

/// Rounds at least, of which the first third warms up; `HERMES_CHURN` asks for another number, and `HERMES_CHURN_MINUTES` for a time.
const ROUNDS: usize = 30;

/// Visitors at once in a round, and visits of each kind that each of them makes. `HERMES_CHURN_VISITS` asks for more.
const VISITORS: usize = 6;
const VISITS: usize = 2;

/// By how many bytes the least of the last third may be above that of the middle third: the buffers of two QUIC connections, of
/// which a burst touches more or less. The least, because connections that a reload left are kept until they are closed.
const GROWTH: usize = 8 * 1024 * 1024;

/// Memory that is free goes back to the system at once, so that what a node holds can be seen from outside.
const AT_ONCE: [(&str, &str); 1] = [("MIMALLOC_PURGE_DELAY", "0")];

/// The same for descriptors: which connections are kept is a matter of chance.
const DESCRIPTORS: usize = 8;

/// After this many rounds, what waits at the last node is waited for: its least is of these rounds.
const SETTLED: usize = 5;

/// What a node holds after a round.
#[derive(Debug, Clone, Copy)]
struct Held {
    bytes: usize,
    descriptors: usize,
}

/// Names of the nodes.
const NAMES: [&str; 4] = ["alice", "core", "gate", "edge"];

/// Four nodes: HTTP/2 between the first two, then HTTP/3, then HTTP/1.1.
struct Stage {
    nodes: [Node; NAMES.len()],
    files: [[String; 2]; NAMES.len()],
    /// Its files are read again on each reload.
    _pki: Pki,
}

impl Stage {
    fn start(places: &Places) -> Self {
        let pki = Pki::new();
        let [alice, core, gate, edge] = NAMES;
        let edge_files = edge_files(places);
        let end = start(edge, &edge_files[0]);
        let tls = format!(", tls: {{ {} }}", pki.issue(&["127.0.0.1"]).yaml());
        let gate_files = between(&end, "http: 1", &tls, "");
        let third = start(gate, &gate_files[0]);
        let core_files = between(
            &third,
            &format!("http: 3, tls: {{ ca_file: {} }}", pki.ca().display()),
            "",
            "",
        );
        let second = start(core, &core_files[0]);
        let alice_files = between(
            &second,
            "http: 2",
            "",
            "  voice: { udp: 127.0.0.1:0, target: \"VOICE:1\" }\n  db: { tcp: 127.0.0.1:0, target: \"DB:1\" }\n",
        );
        let first = start(alice, &alice_files[0]);
        Self {
            nodes: [first, second, third, end],
            files: [alice_files, core_files, gate_files, edge_files],
            _pki: pki,
        }
    }

    /// A round, with a reload of every node in its midst.
    fn round(&self, number: usize, places: &Places, visits: usize) {
        scope(|threads| {
            for visitor in 0..VISITORS {
                let alice = &self.nodes[0];
                threads.spawn(move || {
                    (0..visits).for_each(|visit| visits::all(alice, visitor + visit))
                });
            }
            for (node, files) in self.nodes.iter().zip(&self.files) {
                let (status, said) = node.reload(&files[number % 2]);
                assert_eq!(status, 200, "{said:#}");
            }
        });
        places.forget();
        for (node, name) in self.nodes.iter().zip(NAMES) {
            // A session that broke while it was opened waits there, for 10 s, to be taken over.
            if name != "edge" || (number + 1).is_multiple_of(SETTLED) {
                node.idle();
            }
            // The records of a long run would fill the disk.
            drop(std::fs::File::create(node.folder().join("access.json")).unwrap());
        }
    }

    fn held(&self) -> [Held; NAMES.len()] {
        std::array::from_fn(|at| Held {
            bytes: resident(&self.nodes[at]),
            descriptors: self.nodes[at].fds(),
        })
    }
}

fn start(name: &str, yaml: &str) -> Node {
    Node::start_in(tempfile::tempdir().unwrap(), name, yaml, &AT_ONCE)
}

/// Two files of a node that sends all to the next one, as `link` says. (A listener's port is kept where the file says 0.)
fn between(next: &Node, link: &str, tls: &str, more: &str) -> [String; 2] {
    let next = next.address("web");
    ["5s", "6s"].map(|connect| {
        format!(
            "log: {{ level: error, access: {{ file: access.json }} }}\nlisteners:\n  web: {{ http: 127.0.0.1:0{tls} }}\n{more}\
             routes: [ {{ to: next, timeouts: {{ udp: 1500ms }} }} ]\nupstreams:\n  \
             next: {{ endpoints: [\"{next}\"], {link}, timeouts: {{ connect: {connect} }} }}\n"
        )
    })
}

/// Two files of the node where the overlay ends.
fn edge_files(places: &Places) -> [String; 2] {
    let (site, db, voice) = (
        places.site.address(),
        places.db.address(),
        places.voice.address(),
    );
    ["5s", "6s"].map(|connect| {
        format!(
            "log: {{ level: error, access: {{ file: access.json }} }}\nlisteners:\n  web: {{ http: 127.0.0.1:0 }}\nroutes:\n  \
             - {{ match: {{ target: SITE }}, terminate: site }}\n  - {{ match: {{ target: DB }}, terminate: db }}\n  \
             - {{ match: {{ target: VOICE }}, terminate: voice }}\n  - {{ match: {{ target: CLOSED }}, terminate: closed }}\n  \
             - {{ match: {{ target: \"127.0.0.1\" }}, terminate: true }}\nupstreams:\n  \
             site: {{ endpoints: [\"{site}\"], timeouts: {{ connect: {connect} }} }}\n  db: {{ endpoints: [\"{db}\"] }}\n  \
             voice: {{ endpoints: [\"{voice}\"] }}\n  closed: {{ endpoints: [\"127.0.0.1:1\"] }}\n"
        )
    })
}

#[test]
fn memory_and_descriptors_stay_flat_whatever_comes_and_goes() {
    let places = Places {
        site: origins::http(),
        db: origins::tcp_echo(),
        voice: origins::udp_echo(origins::V4),
    };
    let mut stage = Stage::start(&places);
    let (least, minutes) = (
        asked("HERMES_CHURN", ROUNDS),
        asked("HERMES_CHURN_MINUTES", 0),
    );
    let visits = asked("HERMES_CHURN_VISITS", VISITS);
    let (began, mut held) = (Instant::now(), Vec::new());
    while held.len() < least || began.elapsed() < Duration::from_mins(minutes as u64) {
        stage.round(held.len(), &places, visits);
        held.push(stage.held());
        eprintln!(
            "round {}, {} s: {:?}",
            held.len(),
            began.elapsed().as_secs(),
            held.last().unwrap()
        );
    }
    let rounds = held.len();
    let third = rounds / 3;
    eprintln!(
        "{rounds} rounds, {} visits",
        rounds * visits * VISITORS * visits::KINDS
    );
    for (at, name) in NAMES.iter().enumerate() {
        let of = |from: usize, what: fn(&Held) -> usize| {
            held[from..from + third]
                .iter()
                .map(|nodes| what(&nodes[at]))
                .min()
                .unwrap()
        };
        let [warm, middle, last] =
            [0, third, rounds - third].map(|from| of(from, |held| held.bytes));
        let [some, more] = [third, rounds - third].map(|from| of(from, |held| held.descriptors));
        eprintln!(
            "{name}: {warm}, {middle}, {last} bytes at least in the thirds; {some}, {more} descriptors in the last two"
        );
        assert!(
            last <= middle + GROWTH,
            "{name} grows from {middle} to {last} bytes: {held:?}"
        );
        assert!(
            more <= some + DESCRIPTORS,
            "{name} grows from {some} to {more} descriptors: {held:?}"
        );
    }
    for node in &mut stage.nodes {
        assert!(node.stop().success(), "{}", node.log());
    }
}
