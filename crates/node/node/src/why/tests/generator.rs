//! Random configurations, and random exchanges for them.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fastrand::Rng;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::super::SupposedExchange;

const HOSTS: [&str; 5] = ["VIDEO", "DB", "NOWHERE", "127.0.0.2", "127.0.0.3"];
const PATHS: [&str; 6] = [
    "/",
    "/films/one",
    "/admin/x",
    "/admin",
    "/..%2fx",
    "/films/../admin/y",
];
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];
const FIELDS: [&str; 8] = [
    "user: alice",
    "user: al",
    "user: bob",
    "user: eve",
    "service: web",
    "room: alice-web",
    "role: admin",
    "plain: 1",
];
/// The last takes tokens, the two before it connections and datagrams.
const LISTENERS: [&str; 6] = ["web", "side", "open", "db", "voice", "token"];

/// What clients ask of listeners for HTTP.
const OF_HTTP: [&str; 4] = ["web", "side", "open", "token"];

/// Whose tokens there are; the second is another name of the first.
const TOKENS: [&str; 4] = ["alice", "al", "bob", "eve"];

/// The tenants that tokens claim.
const TENANTS: [&str; 3] = ["blue", "red", "none"];

/// Policies in Rego that decide by path, kind, listener, group and claims.
const REGO: [&str; 4] = [
    r#"package overlay
import rego.v1
decision := {"allow": false, "status": 451, "reason": "no films"} if startswith(input.path, "/films")
else := {"allow": true, "fields": {"level": "high"}} if "staff" in input.groups
else := {"allow": true}
"#,
    r#"package overlay
import rego.v1
default decision := false
decision if input.user == "alice"
decision if input.kind == "http"
"#,
    r#"package overlay
import rego.v1
decision := {"allow": input.kind != "connect-udp", "fields": {"level": input.listener}}
"#,
    r#"package overlay
import rego.v1
default decision := {"allow": true}
decision := {"allow": false, "reason": "not for red"} if { input.claims.tenant == "red"; input.claims.sub != "eve" }
decision := {"allow": true, "fields": {"level": input.claims.tenant}} if {
    input.claims.tenant == "blue"
    "ops" in input.claims.groups
}
"#,
];

/// How an exchange is sent.
pub(super) enum Sent {
    /// A request, which ends its connection.
    Request(String),
    /// A connection to a `tcp` listener.
    Connection,
    /// A datagram to a `udp` listener.
    Datagram,
}

/// Who issues tokens.
pub(super) struct Issuer(Ed25519KeyPair);

impl Issuer {
    pub(super) fn new() -> Self {
        Self(Ed25519KeyPair::generate().unwrap())
    }

    fn key_set(&self) -> String {
        let public = URL_SAFE_NO_PAD.encode(self.0.public_key().as_ref());
        json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "x": public }] }).to_string()
    }

    /// A token of this user, who is in these groups and is this tenant's.
    fn token(&self, user: &str, groups: &[String], tenant: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let claims = json!({
            "iss": "https://issuer.test", "aud": "overlay", "sub": user, "groups": groups, "tenant": tenant,
            "exp": now.as_secs() + 3600,
        });
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(json!({ "alg": "EdDSA" })), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.0.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }

    /// The files that configurations name.
    pub(super) fn write(&self, folder: &Path) {
        std::fs::write(folder.join("keys.json"), self.key_set()).unwrap();
        for (number, text) in REGO.iter().enumerate() {
            std::fs::write(folder.join(format!("{number}.rego")), text).unwrap();
        }
    }
}

/// One of several.
fn one<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.usize(..of.len())]
}

/// Conditions of a rule or a route; none of them for one in five.
fn conditions(rng: &mut Rng) -> String {
    let mut conditions = Vec::new();
    let mut maybe = |rng: &mut Rng, condition: String| {
        if rng.u8(..4) == 0 {
            conditions.push(condition);
        }
    };

    let user = one(
        rng,
        &[
            "alice",
            "bob",
            "\"group:staff\"",
            "\"claim-group:ops\"",
            "\"a*\"",
            "none",
        ],
    );
    maybe(rng, format!("user: {user}"));
    let target = one(
        rng,
        &[
            "VIDEO",
            "[DB, VIDEO]",
            "\"service:db\"",
            "127.0.0.0/30",
            "10.0.0.0/8",
            "NOWHERE",
        ],
    );
    maybe(rng, format!("target: {target}"));
    let port = one(rng, &["80", "5432", "8000-9000"]);
    maybe(rng, format!("port: {port}"));
    let path = one(rng, &["/admin/*", "/films/*", "/", "/.well-known/*"]);
    maybe(rng, format!("path: {path}"));
    let method = one(rng, &METHODS);
    maybe(rng, format!("method: {method}"));
    let listener = one(rng, &LISTENERS);
    maybe(rng, format!("listener: {listener}"));
    let kinds = [
        "http",
        "connect",
        "connect-udp",
        "[connect-ip, upgrade]",
        "[http, connect-udp]",
    ];
    let kind = one(rng, &kinds);
    maybe(rng, format!("kind: {kind}"));
    let fields = [
        "{ service: web }",
        "{ room: true }",
        "{ role: admin }",
        "{ level: high }",
    ];
    let fields = one(rng, &fields);
    maybe(rng, format!("fields: {fields}"));

    conditions.join(", ")
}

/// A configuration; `far` answers everything.
pub(super) fn configuration(rng: &mut Rng, folder: &TempDir, far: SocketAddr) -> String {
    let path = folder.path().display();
    let forged = one(rng, &["refuse", "remove"]);
    let accepts = one(rng, &["[]", "[service]", "[service, room]"]);
    let tagged = one(
        rng,
        &[
            "",
            ", set: { room: \"{user}-{listener}\" }",
            ", remove: [role]",
        ],
    );
    let mut text = format!(
        "version: 1\nnode: edge\nworkers: 1\nlog: {{ access: {{ file: {path}/access.json }} }}\n\
         admin: {{ socket: {path}/admin.sock }}\nfields: [user, service, room, role, level]\n\
         users: {{ alice: [al] }}\ngroups: {{ staff: [alice, carol] }}\nservices: {{ db: [\"DB:5432\"] }}\n\
         listeners:\n  web: {{ http: 127.0.0.1:0, user: alice, forged: {forged}, accepts: {accepts}{tagged} }}\n\
         \u{20} side: {{ http: 127.0.0.1:0, user: bob }}\n  open: {{ http: 127.0.0.1:0, accepts: [user, role] }}\n\
         \u{20} db: {{ tcp: 127.0.0.1:0, target: \"DB:5432\", user: bob }}\n\
         \u{20} voice: {{ udp: 127.0.0.1:0, target: \"DB:5432\", user: alice }}\n\
         \u{20} token:\n    http: 127.0.0.1:0\n    auth: {{ bearer: {{ jwks_file: {path}/keys.json, \
         issuer: \"https://issuer.test\", audience: overlay }} }}\n\
         upstreams: {{ far: {{ endpoints: [\"{far}\"] }}, gone: {{ endpoints: [\"127.0.0.1:1\"] }} }}\n\
         egress: {{ allow: [{}] }}\n",
        one(rng, &["", "127.0.0.2/32", "127.0.0.0/8"])
    );

    if rng.bool() {
        writeln!(
            text,
            "policy:\n  default: {}\n  rules:",
            one(rng, &["allow", "deny"])
        )
        .unwrap();
        for number in 0..rng.usize(1..6) {
            let effect = one(
                rng,
                &[
                    "allow: true",
                    "deny: true",
                    "deny: { status: 451, reason: not from here }",
                    "set: { level: high }",
                    "set: { level: \"{user}\" }, allow: true",
                ],
            );
            let conditions = conditions(rng);
            writeln!(
                text,
                "    - {{ name: p{number}, match: {{ {conditions} }}, {effect} }}"
            )
            .unwrap();
        }
    }

    if rng.bool() {
        let number = rng.usize(..REGO.len());
        let conditions = if rng.bool() {
            conditions(rng)
        } else {
            String::new()
        };
        writeln!(
            text,
            "authorize:\n  - {{ name: asks, match: {{ {conditions} }}, allow_fields: [level], \
             rego: {{ files: {path}/{number}.rego, query: data.overlay.decision }} }}"
        )
        .unwrap();
    }

    text.push_str("routes:\n");
    let routes = rng.usize(1..7);
    // Half of the configurations have a route for everything.
    let last = if rng.bool() { routes - 1 } else { routes };
    for number in 0..routes {
        let action = match rng.u8(..6) {
            0 => "to: far".to_owned(),
            1 => "to: gone".to_owned(),
            2 => "redirect: { location: \"http://elsewhere/\" }".to_owned(),
            3 | 4 => "terminate: true".to_owned(),
            _ => format!("respond: {{ status: {} }}", 410 + number),
        };
        let conditions = if number == last {
            String::new()
        } else {
            conditions(rng)
        };
        writeln!(
            text,
            "  - {{ name: r{number}, match: {{ {conditions} }}, {action} }}"
        )
        .unwrap();
    }

    text
}

/// An exchange as it is asked about, and as it is sent.
pub(super) fn exchange(rng: &mut Rng, issuer: &Issuer) -> (SupposedExchange, Sent) {
    let asked = SupposedExchange {
        words: Vec::new(),
        listener: None,
        user: None,
        claim_groups: Vec::new(),
        claims: Map::new(),
        peer: None,
        source: Some(Ipv4Addr::LOCALHOST.into()),
        at: None,
        fields: Vec::new(),
        ask: true,
    };
    let entering = |listener: &str| SupposedExchange {
        listener: Some(listener.to_owned()),
        ..asked.clone()
    };
    match rng.u8(..10) {
        0 => (entering("db"), Sent::Connection),
        1 => (entering("voice"), Sent::Datagram),
        _ => request(rng, issuer, asked),
    }
}

fn request(rng: &mut Rng, issuer: &Issuer, asked: SupposedExchange) -> (SupposedExchange, Sent) {
    let listener = one(rng, &OF_HTTP);
    let mut fields = Vec::new();
    for field in FIELDS {
        if rng.u8(..5) == 0
            && !fields
                .iter()
                .any(|known: &String| known.starts_with("user"))
        {
            fields.push(field.to_owned());
        }
    }

    let (words, line) = asked_for(rng);
    let mut lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let mut supposed = SupposedExchange {
        words,
        listener: Some(listener.to_owned()),
        fields,
        ..asked
    };
    if listener == "token" {
        let user = one(rng, &TOKENS);
        if rng.bool() {
            supposed.claim_groups.push("ops".to_owned());
        }
        let tenant = one(rng, &TENANTS);
        supposed.claims.insert("tenant".to_owned(), tenant.into());
        let token = issuer.token(user, &supposed.claim_groups, tenant);
        write!(lines, "Proxy-Authorization: Bearer {token}\r\n").unwrap();
        supposed.user = Some(user.to_owned());
    }
    let text = format!("{line}\r\nConnection: close\r\n{lines}\r\n");
    (supposed, Sent::Request(text))
}

/// The words of a question, and the first lines of the request.
fn asked_for(rng: &mut Rng) -> (Vec<String>, String) {
    let host = one(rng, &HOSTS);
    let port = *rng.choice(&[80, 5432, 8080]).unwrap();
    let target = format!("{host}:{port}");
    let path = one(rng, &PATHS);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    // Clients of HTTP/1.1 upgrade, also to tunnels that a template names.
    let upgrade = |url: &str, protocol: &str| {
        format!(
            "GET {url} HTTP/1.1\r\nHost: {target}\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
             Capsule-Protocol: ?1\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
        )
    };

    match rng.u8(..10) {
        0 | 1 => {
            let line = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}");
            (words(&["CONNECT", &target]), line)
        }
        2 => {
            let url = format!("http://proxy/.well-known/masque/udp/{host}/{port}/");
            let line = upgrade(&url, "connect-udp");
            (words(&["CONNECT-UDP", &target]), line)
        }
        3 => {
            let scope = one(rng, &["*", "10.1.0.0/16", "192.0.2.7/32", "VIDEO"]);
            let protocol = one(rng, &["*", "17"]);
            let written = scope.replace('/', "%2F");
            let url = format!("http://proxy/.well-known/masque/ip/{written}/{protocol}/");
            let line = upgrade(&url, "connect-ip");
            (words(&["CONNECT-IP", scope, protocol]), line)
        }
        4 => {
            let url = format!("http://{target}{path}");
            let line = upgrade(&url, "websocket");
            (words(&["UPGRADE", "websocket", &url]), line)
        }
        _ => {
            let method = one(rng, &METHODS);
            let url = format!("http://{target}{path}");
            let line = format!("{method} {url} HTTP/1.1\r\nHost: {target}\r\nContent-Length: 0");
            (words(&[method, &url]), line)
        }
    }
}
