//! Memory and descriptors stay flat, whatever comes and goes: short exchanges of all kinds, refused and aborted ones, reloads.

use std::thread::scope;

use hermes_tests::crowd::resident;
use hermes_tests::{Node, origins};

use crate::asked;
use crate::visits::{self, Places};

/// Rounds, of which the first third warms up; `HERMES_CHURN` asks for another number.
const ROUNDS: usize = 18;

/// Visitors at once in a round, and visits of each kind that each of them makes. `HERMES_CHURN_VISITS` asks for more.
const VISITORS: usize = 6;
const VISITS: usize = 2;

/// By how many bytes the median of the last third may be above that of the middle third: what an allocator keeps by chance.
const GROWTH: usize = 4 * 1024 * 1024;

/// Memory that is free goes back to the system at once, so that what a node holds can be seen from outside.
const AT_ONCE: [(&str, &str); 1] = [("MIMALLOC_PURGE_DELAY", "0")];

/// The same for descriptors: which connections are kept is a matter of chance.
const DESCRIPTORS: usize = 8;

/// What a node holds after a round.
#[derive(Debug, Clone, Copy)]
struct Held {
    bytes: usize,
    descriptors: usize,
}

/// Three nodes: HTTP/2 between the first two, HTTP/1.1 between the last.
struct Stage {
    nodes: [Node; 3],
    files: [[String; 2]; 3],
}

impl Stage {
    fn start(places: &Places) -> Self {
        let edge = edge(places);
        let end = start("edge", &edge[0]);
        let core = between(&end, 1, "");
        let middle = start("core", &core[0]);
        let alice = between(
            &middle,
            2,
            "  voice: { udp: 127.0.0.1:0, target: \"VOICE:1\" }\n  db: { tcp: 127.0.0.1:0, target: \"DB:1\" }\n",
        );
        let first = start("alice", &alice[0]);
        Self { nodes: [first, middle, end], files: [alice, core, edge] }
    }

    /// A round, with a reload of every node in its midst.
    fn round(&self, number: usize, places: &Places, visits: usize) {
        scope(|threads| {
            for visitor in 0..VISITORS {
                let alice = &self.nodes[0];
                threads.spawn(move || (0..visits).for_each(|visit| visits::all(alice, visitor + visit)));
            }
            for (node, files) in self.nodes.iter().zip(&self.files) {
                let (status, said) = node.reload(&files[number % 2]);
                assert_eq!(status, 200, "{said:#}");
            }
        });
        places.forget();
        for node in &self.nodes {
            node.idle();
            // The records of a long run would fill the disk.
            drop(std::fs::File::create(node.folder().join("access.json")).unwrap());
        }
    }

    fn held(&self) -> [Held; 3] {
        [0, 1, 2].map(|at| Held { bytes: resident(&self.nodes[at]), descriptors: self.nodes[at].fds() })
    }
}

fn start(name: &str, yaml: &str) -> Node {
    Node::start_in(tempfile::tempdir().unwrap(), name, yaml, &AT_ONCE)
}

/// Two files of a node that sends all to the next one. (A listener's port is kept where the file says 0.)
fn between(next: &Node, version: u8, more: &str) -> [String; 2] {
    let next = next.address("web");
    ["5s", "6s"].map(|connect| {
        format!(
            "log: {{ level: error, access: {{ file: access.json }} }}\nlisteners:\n  web: {{ http: 127.0.0.1:0 }}\n{more}\
             routes: [ {{ to: next, timeouts: {{ udp: 300ms }} }} ]\nupstreams:\n  \
             next: {{ endpoints: [\"{next}\"], http: {version}, timeouts: {{ connect: {connect} }} }}\n"
        )
    })
}

/// Two files of the node where the overlay ends.
fn edge(places: &Places) -> [String; 2] {
    let (site, db, voice) = (places.site.address(), places.db.address(), places.voice.address());
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
    let places = Places { site: origins::http(), db: origins::tcp_echo(), voice: origins::udp_echo(origins::V4) };
    let mut stage = Stage::start(&places);
    let (rounds, visits) = (asked("HERMES_CHURN", ROUNDS), asked("HERMES_CHURN_VISITS", VISITS));
    let held: Vec<[Held; 3]> = (0..rounds)
        .map(|number| {
            stage.round(number, &places, visits);
            let held = stage.held();
            eprintln!("round {number}: {held:?}");
            held
        })
        .collect();
    let third = rounds / 3;
    eprintln!("{rounds} rounds, {} visits", rounds * visits * VISITORS * visits::KINDS);
    for at in 0..3 {
        let of = |from: usize, what: fn(&Held) -> usize| {
            median(held[from..from + third].iter().map(|nodes| what(&nodes[at])))
        };
        let [warm, middle, last] = [0, third, rounds - third].map(|from| of(from, |held| held.bytes));
        let [some, more] = [third, rounds - third].map(|from| of(from, |held| held.descriptors));
        let name = ["alice", "core", "edge"][at];
        eprintln!("{name}: {warm}, {middle}, {last} bytes in the thirds; {some}, {more} descriptors in the last two");
        assert!(last <= middle + GROWTH, "{name} grows from {middle} to {last} bytes: {held:?}");
        assert!(more <= some + DESCRIPTORS, "{name} grows from {some} to {more} descriptors: {held:?}");
    }
    for node in &mut stage.nodes {
        assert!(node.stop().success(), "{}", node.log());
    }
}

fn median(values: impl Iterator<Item = usize>) -> usize {
    let mut values: Vec<usize> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}
