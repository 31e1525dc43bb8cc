//! A standalone proxy, Alice's node, which only ever connects to it, and what runs on Alice's machine.

use std::net::SocketAddr;

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::origins::{self, Origin, Request};
use hermes_tests::{Node, Pki, curl};
use serde_json::Value;

/// The proxy that everybody can reach, and Alice's node, which no one can.
pub struct Overlay {
    pub core: Node,
    pub alice: Node,
    pub pki: Pki,
    pub site: Origin<Request>,
    pub machine: Machine,
}

/// What runs on a machine: a site, a database, a player.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    pub site: SocketAddr,
    pub db: SocketAddr,
    pub player: SocketAddr,
}

/// Routes of [`core`].
pub const ROUTES: &str = r#"
routes:
  - { name: attach, match: { protocol: ptth }, attach: true }
  - { name: users, to: users }
"#;

impl Overlay {
    /// Starts everything; `version` carries the attachments.
    pub fn start(version: u8) -> Self {
        let pki = Pki::new();
        let core = Node::start("core", &core(&pki, ROUTES));
        let site = origins::http();
        let (db, player) = (origins::tcp_echo(), origins::udp_echo(origins::V4));
        let machine = Machine {
            site: site.address(),
            db: db.address(),
            player: player.address(),
        };
        // They run as long as the test.
        std::mem::forget((db, player));
        let alice = Node::start("alice", &node(&pki, "alice", &core, version, machine));
        attached(&core, "alice", 2);
        Self {
            core,
            alice,
            pki,
            site,
            machine,
        }
    }

    /// Asks `core` for a page, as a client of its own.
    pub fn get(&self, url: &str) -> curl::Output {
        curl(&["-x", &self.core.url("web"), url])
    }
}

/// The standalone proxy.
pub fn core(pki: &Pki, routes: &str) -> String {
    let (issued, authority) = (pki.issue(&["core.overlay"]).yaml(), pki.ca());
    format!(
        r#"
listeners:
  overlay: {{ http: 127.0.0.1:0, auth: mtls, tls: {{ {issued}, client_ca_file: {} }} }}
  web: {{ http: 127.0.0.1:0, user: server }}
  video: {{ udp: 127.0.0.1:0, target: "ALICE:5004", user: server }}
peers:
  alice: {{ certificate: alice.overlay, speaks_for: [alice] }}
  bob: {{ certificate: bob.overlay, speaks_for: [bob] }}
{routes}
upstreams:
  users: {{ attached: "{{target.host}}" }}
"#,
        authority.display()
    )
}

/// A user's node, attached to `core`.
pub fn node(pki: &Pki, user: &str, core: &Node, version: u8, machine: Machine) -> String {
    reaching(pki, user, core.address("overlay"), version, machine, "core")
}

/// As [`node`], by its address and with the whole of `attach`.
pub fn reaching(
    pki: &Pki,
    user: &str,
    core: SocketAddr,
    version: u8,
    machine: Machine,
    attach: &str,
) -> String {
    let (issued, authority) = (pki.issue(&[&format!("{user}.overlay")]).yaml(), pki.ca());
    let Machine { site, db, player } = machine;
    format!(
        r#"
identity: {{ user: {user} }}
listeners:
  reach: {{ attach: {attach} }}
peers:
  core: {{ certificate: core.overlay, speaks_for: ["*"] }}
routes:
  - {{ match: {{ listener: reach, target: "{user}:80" }}, terminate: site, expose: [user] }}
  - {{ match: {{ listener: reach, target: "{user}:5432", user: server }}, terminate: db }}
  - {{ match: {{ listener: reach, target: "{user}:5004" }}, terminate: player }}
upstreams:
  core:
    endpoints: ["{core}"]
    http: {version}
    tls: {{ ca_file: {}, {issued}, server_name: core.overlay }}
  site: {{ endpoints: ["{site}"] }}
  db: {{ endpoints: ["{db}"] }}
  player: {{ endpoints: ["{player}"] }}
"#,
        authority.display()
    )
}

/// Waits until a node says why it is not attached, in words that hold these.
pub fn refused(node: &Node, words: &str) {
    eventually("the reason", || {
        let status = node.status();
        let errors = status["attachments"]
            .as_array()?
            .iter()
            .filter_map(|one| one["last_error"].as_str());
        errors
            .into_iter()
            .any(|error| error.contains(words))
            .then_some(())
    });
}

/// Waits until this many attachments of `name` can be used.
pub fn attached(core: &Node, name: &str, count: usize) {
    let (mut status, prefix) = (Value::Null, format!("{name}#"));
    eventually_true(
        &format!("{count} attachments of {name}: {status:#}"),
        || {
            status = core.status();
            let all = status["attached"].as_array().into_iter().flatten();
            all.filter(|one| {
                one["attachment"]
                    .as_str()
                    .is_some_and(|text| text.starts_with(&prefix))
            })
            .count()
                == count
        },
    );
}
