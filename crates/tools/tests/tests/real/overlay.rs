//! The three nodes of the paper's policy cases: one beside the clients, an ingress, and one that decides and has the servers behind it.
//!
//! They know each other by certificates. Whatever decides, the nodes and their routes are the same.

use std::process::Command;

use hermes_tests::pki::Issued;
use hermes_tests::{Node, Pki};

/// The policy of the prototype, unedited: the form is that of OPA's plugin for Envoy.
const PROTOTYPE: &str = include_str!("../integration/authorize/prototype.rego");

/// The same in rules of our own. Operators need no token.
const RULES: &str = "
policy:
  default: deny
  rules:
    - { name: operators, match: { user: operator, method: GET }, set: { x-secure: admin }, allow: true }
    - { name: admins, match: { method: GET, fields: { token: admin } }, set: { x-secure: admin }, allow: true }
    - { name: users, match: { method: GET, fields: { token: true } }, set: { x-secure: user }, allow: true }
    - { name: database, match: { method: POST, fields: { clientip: 192.168.252.20 } }, set: { x-secure: user }, allow: true }
";

const AUTHORIZE: &str = "
authorize:
  - name: prototype
    timeout: 60s
    allow_fields: [x-secure]
    rego: { files: policy.rego, query: data.envoy.authz.allow, input: envoy }
";

/// What decides at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deciding {
    Rules,
    Rego,
}

impl Deciding {
    pub const BOTH: [Self; 2] = [Self::Rules, Self::Rego];

    fn yaml(self) -> &'static str {
        match self {
            Self::Rules => RULES,
            Self::Rego => AUTHORIZE,
        }
    }

    /// The version of HTTP that the nodes speak: both are tried.
    fn http(self) -> u8 {
        match self {
            Self::Rules => 2,
            Self::Rego => 3,
        }
    }
}

/// The nodes. Dropping it ends them.
pub struct Overlay {
    pub dp: Node,
    pub ingress: Node,
    pub gate: Node,
    pub pki: Pki,
}

/// The servers behind the gate, and how each node is run.
pub struct Plan<'a> {
    pub deciding: Deciding,
    /// Endpoints of `web`, `admin` and `db`.
    pub servers: [&'a str; 3],
    /// Where connections for the database enter.
    pub database: &'a str,
    pub command: &'a dyn Fn() -> Command,
}

impl Overlay {
    pub fn start(plan: &Plan<'_>) -> Self {
        let pki = Pki::new();

        let gate = tempfile::tempdir().unwrap();
        std::fs::write(gate.path().join("policy.rego"), PROTOTYPE).unwrap();
        let yaml = gate_yaml(plan, &pki);
        let gate = Node::start_in_by(gate, (plan.command)(), "gate", &yaml);

        let yaml = ingress_yaml(&pki, &next(&gate, "gate", plan.deciding));
        let ingress = Node::start_by((plan.command)(), "ingress", &yaml);

        let yaml = dp_yaml(plan, &pki, &next(&ingress, "ingress", plan.deciding));
        let dp = Node::start_by((plan.command)(), "dp", &yaml);

        Self {
            dp,
            ingress,
            gate,
            pki,
        }
    }
}

/// The upstream that is this node.
fn next(node: &Node, name: &str, deciding: Deciding) -> String {
    format!(
        "{{ endpoints: [\"{}\"], http: {}, tls: {{ server_name: {name}.overlay }} }}",
        node.address("overlay"),
        deciding.http()
    )
}

/// What all nodes have in common: their fields and certificates.
fn common(pki: &Pki, name: &str) -> String {
    let Issued { cert, key, .. } = pki.issue(&[&format!("{name}.overlay")]);
    let ca = pki.ca();
    format!(
        "workers: 1\nfields: [user, x-secure, clientip]\ndefaults: {{ tls: {{ cert_file: {}, key_file: {}, ca_file: {}, client_ca_file: {} }} }}\n",
        cert.display(),
        key.display(),
        ca.display(),
        ca.display()
    )
}

/// The listener of nodes for those before them, of which `peer` is believed.
fn overlay(peer: &str) -> String {
    format!(
        "listeners: {{ overlay: {{ http: 127.0.0.1:0, tls: true, auth: mtls }} }}\n\
         peers: {{ {peer}: {{ certificate: {peer}.overlay, speaks_for: [\"*\"] }} }}\n"
    )
}

/// Clients of `web` are students, those of `desk` operators; connections of `db` say where they came from.
fn dp_yaml(plan: &Plan<'_>, pki: &Pki, next: &str) -> String {
    format!(
        "{}
listeners:
  web: {{ http: 127.0.0.1:0, user: student }}
  desk: {{ http: 127.0.0.1:0, user: operator }}
  db: {{ tcp: \"{}\", public: true, target: \"onl:3306\", set: {{ clientip: \"{{peer.address}}\" }} }}
routes:
  - {{ match: {{ listener: db }}, tunnel: {{ post: /org/db/ }}, to: ingress }}
  - {{ to: ingress }}
upstreams: {{ ingress: {next} }}
",
        common(pki, "dp"),
        plan.database
    )
}

fn ingress_yaml(pki: &Pki, next: &str) -> String {
    format!(
        "{}{}
routes:
  - {{ match: {{ target: onl, method: POST, path: /org/db/ }}, tunnel: post, to: gate }}
  - {{ match: {{ target: onl, path: /org/* }}, to: gate }}
upstreams: {{ gate: {next} }}
",
        common(pki, "ingress"),
        overlay("dp")
    )
}

fn gate_yaml(plan: &Plan<'_>, pki: &Pki) -> String {
    let [web, admin, db] = plan.servers;
    format!(
        "{}{}{}
routes:
  - {{ match: {{ method: POST, path: /org/db/, fields: {{ x-secure: user }} }}, tunnel: post, terminate: db }}
  - {{ match: {{ path: /org/web/*, fields: {{ x-secure: user }} }}, terminate: web, rewrite: {{ path: {{ prefix: /org/web/, with: / }} }} }}
  - {{ match: {{ path: /org/web/*, fields: {{ x-secure: admin }} }}, terminate: admin, rewrite: {{ path: {{ prefix: /org/web/, with: / }} }} }}
  - {{ match: {{ path: /org/admin/*, fields: {{ x-secure: admin }} }}, terminate: admin, rewrite: {{ path: {{ prefix: /org/admin/, with: / }} }} }}
  - {{ match: {{ path: /org/video/*, fields: {{ x-secure: true }} }}, terminate: web, rewrite: {{ path: {{ prefix: /org/video/, with: / }} }} }}
upstreams:
  web: {{ endpoints: [\"{web}\"] }}
  admin: {{ endpoints: [\"{admin}\"] }}
  db: {{ endpoints: [\"{db}\"] }}
",
        common(pki, "gate"),
        overlay("ingress"),
        plan.deciding.yaml()
    )
}
