//! Four proxies and an origin, at addresses that outlive them.

use std::net::SocketAddr;

use hermes_tests::{Mortal, Node, free};

/// What can be killed, from the client to the origin.
pub const PROCESSES: [&str; 5] = ["alice", "ingress", "core", "edge", "origin"];

/// Every hop tries again what it may, for longer than a process needs to start.
const RETRY: &str = "retry: { attempts: 10, per_try_timeout: 60s, backoff: { base: 50ms, max: 2s }, \
                     budget: { ratio: 100%, min: 10000 per second } }";

/// The chain.
pub struct Chain {
    nodes: [Node; 4],
    pub origin: Mortal,
    /// Alice's HTTP proxy.
    pub web: SocketAddr,
    /// Her UDP port.
    pub voice: SocketAddr,
}

impl Chain {
    /// Starts all of it, with this HTTP version between the proxies.
    pub fn start(version: u8) -> Self {
        let (origin, voice) = (Mortal::new(), free::udp());
        let listens = [(); 4].map(|()| free::tcp());
        let to = |next: SocketAddr| {
            format!(
                "routes: [ {{ to: next, timeouts: {{ udp: 1s }} }} ]\nupstreams: {{ next: {{ endpoints: [\"{next}\"], http: {version}, {RETRY} }} }}\n"
            )
        };
        let listener = |at: SocketAddr| format!("  web: {{ http: \"{at}\" }}\n");
        let [alice, ingress, core, edge] = listens;
        let port = format!("  voice: {{ udp: \"{voice}\", target: \"VOICE:1\" }}\n");
        let files = [
            format!("listeners:\n{}{port}{}", listener(alice), to(ingress)),
            format!("listeners:\n{}{}", listener(ingress), to(core)),
            format!("listeners:\n{}{}", listener(core), to(edge)),
            format!("listeners:\n{}{}", listener(edge), ends(&origin)),
        ];
        let mut names = PROCESSES.iter();
        let nodes = files.map(|yaml| Node::start(names.next().unwrap(), &yaml));
        Self {
            nodes,
            origin,
            web: alice,
            voice,
        }
    }

    /// Kills a process (SIGKILL).
    pub fn kill(&mut self, process: usize) {
        match self.nodes.get_mut(process) {
            Some(node) => node.kill(),
            None => self.origin.kill(),
        }
    }

    /// Starts it again.
    pub fn restart(&mut self, process: usize) {
        match self.nodes.get_mut(process) {
            Some(node) => node.restart(),
            None => self.origin.restart(),
        }
    }

    /// The proxies.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Tells every proxy to stop; a task that hangs would keep it.
    pub fn stop(&mut self) {
        for node in &mut self.nodes {
            assert!(node.stop().success(), "{}", node.log());
        }
    }
}

/// Where the overlay ends.
fn ends(origin: &Mortal) -> String {
    let [http, tcp, udp] = origin.addresses();
    format!(
        "routes:\n  - {{ match: {{ target: SITE }}, terminate: site }}\n  - {{ match: {{ target: DB }}, terminate: db }}\n  \
         - {{ match: {{ target: VOICE }}, terminate: voice }}\nupstreams:\n  site: {{ endpoints: [\"{http}\"], {RETRY} }}\n  \
         db: {{ endpoints: [\"{tcp}\"], {RETRY} }}\n  voice: {{ endpoints: [\"{udp}\"] }}\n"
    )
}
