//! Three nodes in a row that keep what they have in custody on disk: one for clients, one in the middle, and one for targets.

use std::net::SocketAddr;
use std::path::Path;

use hermes_tests::gate::Gate;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, free, program};
use tempfile::TempDir;

/// The nodes, each of which can be killed.
pub struct Row {
    pub near: Node,
    pub core: Node,
    pub far: Node,
    /// What lies between the first two.
    pub gate: Gate,
}

/// Makes a node's key in its folder; its public part.
pub fn key(folder: &Path) -> String {
    let said = program::command()
        .arg("custody-key")
        .arg(folder.join("key"))
        .output()
        .unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// A node that custody passes through: who its neighbours are, what it listens to, and where its requests go.
fn document(neighbours: &str, listeners: &str, routes: &str) -> String {
    format!(
        "defaults: {{ custody: {{ key_file: key, spool: {{ folder: spool }}, neighbours: {{ {neighbours} }} }} }}\n\
         listeners: {{ {listeners} }}\nroutes: [ {{ {routes} }} ]\n\
         upstreams: {{ next: {{ endpoints: [\"127.0.0.1:9\"] }} }}\negress: {{ allow: [127.0.0.0/8] }}\n"
    )
}

impl Row {
    /// One to this target, whose first node has listeners `web` and `db`; its route says this, too.
    pub fn start(target: SocketAddr, route: &str) -> Self {
        Self::start_with(target, route, "")
    }

    /// The same; the route of the node in the middle says `core`, too.
    pub fn start_with(target: SocketAddr, route: &str, core: &str) -> Self {
        let folders: [TempDir; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let keys = folders.each_ref().map(|folder| key(folder.path()));
        let at = [free::udp(), free::udp()];
        let gate = Gate::to(at[0]);
        let before = |index: usize| format!("before: {{ key: \"{}\" }}", keys[index]);
        let next = |index: usize, at: SocketAddr| {
            format!("next: {{ key: \"{}\", address: \"{at}\" }}", keys[index])
        };
        let hop = |index: usize| format!("in: {{ udp: \"{}\", ingress: custody }}", at[index]);
        let onward = "to: next, retry: { custody: true }";

        let near = document(
            &next(1, gate.address()),
            &format!(
                "web: {{ http: \"{}\" }}, db: {{ tcp: \"{}\", target: \"{target}\" }}",
                free::tcp(),
                free::tcp()
            ),
            &format!("{onward}{route}"),
        );
        let core = document(
            &format!("{}, {}", before(0), next(2, at[1])),
            &hop(0),
            &format!("{onward}{core}"),
        );
        let end = format!(
            "terminate: \"{target}\", retry: {{ keep_for: 30s, per_try_timeout: 10s, attempts: 2, on: [gateway-error], \
             backoff: {{ base: 10ms, max: 50ms }} }}"
        );
        let far = document(&before(1), &hop(1), &end);

        let [first, second, third] = folders;
        let far = Node::start_in(third, "far", &far, &[]);
        let core = Node::start_in(second, "core", &core, &[]);
        Self {
            near: Node::start_in(first, "near", &near, &[]),
            core,
            far,
            gate,
        }
    }

    /// Asks for a target by the first node.
    pub fn ask(&self, request: &str) -> Raw {
        let mut raw = Raw::connect(self.near.address("web"));
        raw.send(request);
        raw
    }
}

/// A node dies, and is started again.
pub fn dies(node: &mut Node) {
    node.kill();
    node.restart();
}

/// Says something, and hears it again.
pub fn talk(raw: &mut Raw, word: &str) {
    raw.send(word);
    assert_eq!(raw.exactly(word.len()), word.as_bytes());
}
