//! What is forecast is what the node does: random configurations and exchanges, with a whole node in this process.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use hermes_config::load;
use serde_json::Value;
use tempfile::TempDir;

use super::{Account, SupposedExchange};
use crate::Proxy;
use crate::node::LogFilter;
use crate::plug::Plugs;

/// How many exchanges are tried: `HERMES_FORECASTS`, else this many.
const EXCHANGES: usize = 400;

/// Exchanges with one configuration.
const BATCH: usize = 25;

/// How long records may take to be written.
const WRITTEN: Duration = Duration::from_secs(30);

/// Nothing is logged.
struct Silent;

impl LogFilter for Silent {
    fn current(&self) -> String {
        "off".to_owned()
    }

    fn change(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// An origin, or a next proxy, that answers everything with 404 and no word.
fn nothing_here() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(stream));
        }
    });

    address
}

fn answer_all(mut stream: TcpStream) {
    let mut buffer = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(1..) = stream.peek(&mut chunk) {
        let length = stream.read(&mut chunk).unwrap_or(0);
        buffer.extend_from_slice(&chunk[..length]);
        while let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            buffer.drain(..end + 4);
            let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

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
const FIELDS: [&str; 7] = [
    "user: alice",
    "user: bob",
    "user: eve",
    "service: web",
    "room: alice-web",
    "role: admin",
    "plain: 1",
];
const LISTENERS: [&str; 3] = ["web", "side", "open"];

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

    let user = one(rng, &["alice", "bob", "\"group:staff\"", "\"a*\"", "none"]);
    maybe(rng, format!("user: {user}"));
    let target = one(
        rng,
        &[
            "VIDEO",
            "[DB, VIDEO]",
            "\"service:db\"",
            "127.0.0.0/30",
            "NOWHERE",
        ],
    );
    maybe(rng, format!("target: {target}"));
    let port = one(rng, &["80", "5432", "8000-9000"]);
    maybe(rng, format!("port: {port}"));
    let path = one(rng, &["/admin/*", "/films/*", "/"]);
    maybe(rng, format!("path: {path}"));
    let method = one(rng, &METHODS);
    maybe(rng, format!("method: {method}"));
    let listener = one(rng, &LISTENERS);
    maybe(rng, format!("listener: {listener}"));
    let kind = one(rng, &["http", "connect"]);
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
fn configuration(rng: &mut Rng, folder: &TempDir, far: SocketAddr) -> String {
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
         groups: {{ staff: [alice, carol] }}\nservices: {{ db: [\"DB:5432\"] }}\n\
         listeners:\n  web: {{ http: 127.0.0.1:0, user: alice, forged: {forged}, accepts: {accepts}{tagged} }}\n\
         \u{20} side: {{ http: 127.0.0.1:0, user: bob }}\n  open: {{ http: 127.0.0.1:0, accepts: [user, role] }}\n\
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

    text.push_str("routes:\n");
    for number in 0..rng.usize(1..7) {
        let action = match rng.u8(..6) {
            0 => "to: far".to_owned(),
            1 => "to: gone".to_owned(),
            2 => "redirect: { location: \"http://elsewhere/\" }".to_owned(),
            3 => "terminate: true".to_owned(),
            _ => format!("respond: {{ status: {} }}", 410 + number),
        };
        let conditions = conditions(rng);
        writeln!(
            text,
            "  - {{ name: r{number}, match: {{ {conditions} }}, {action} }}"
        )
        .unwrap();
    }

    text
}

/// An exchange as it is asked about, and as it is sent.
fn exchange(rng: &mut Rng) -> (SupposedExchange, String) {
    let host = one(rng, &HOSTS);
    let port = *rng.choice(&[80, 5432, 8080]).unwrap();
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

    let (words, line) = if rng.u8(..3) == 0 {
        let target = format!("{host}:{port}");
        let line = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}");
        (vec!["CONNECT".to_owned(), target], line)
    } else {
        let method = one(rng, &METHODS);
        let path = one(rng, &PATHS);
        let url = format!("http://{host}:{port}{path}");
        let line = format!("{method} {url} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 0");
        (vec![method.to_owned(), url], line)
    };

    let lines: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let supposed = SupposedExchange {
        words,
        listener: Some(one(rng, &LISTENERS).to_owned()),
        user: None,
        claim_groups: Vec::new(),
        peer: None,
        source: Ipv4Addr::LOCALHOST.into(),
        fields,
        ask: true,
    };
    (
        supposed,
        format!("{line}\r\nConnection: close\r\n{lines}\r\n"),
    )
}

/// A node on a file of its own.
struct Whole {
    proxy: Proxy,
    folder: TempDir,
    file: PathBuf,
    /// Records that were compared already.
    read: usize,
}

impl Whole {
    /// `None` where the file is not sound.
    fn start(text: &str, folder: TempDir) -> Option<Self> {
        let file = folder.path().join("edge.yaml");
        std::fs::write(&file, text).unwrap();
        let loaded = load(&file, &|_| None).unwrap();
        let plugs = Plugs::new();
        let proxy = Proxy::start(loaded, file.clone(), Box::new(Silent), Vec::new(), plugs).ok()?;
        Some(Self {
            proxy,
            folder,
            file,
            read: 0,
        })
    }

    fn address(&self, listener: &str) -> SocketAddr {
        let views = self.proxy.listeners();
        let view = views.iter().find(|view| view.name == listener).unwrap();
        view.address.parse().unwrap()
    }

    /// Sends a request and reads until the node closes, as it was asked to.
    fn send(&self, listener: &str, request: &str) {
        let mut stream = TcpStream::connect(self.address(listener)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.is_empty(), "no answer to {request}");
    }

    /// The records since the last time.
    fn records(&mut self) -> Vec<Value> {
        assert!(self.proxy.node.shared.telemetry.flush_access(WRITTEN));
        let text = std::fs::read_to_string(self.folder.path().join("access.json")).unwrap();
        let all: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let new = all[self.read..].to_vec();
        self.read = all.len();
        new
    }
}

/// What a record says of an exchange is what was forecast.
fn compare(forecast: &Account, record: &Value, node: &Proxy) {
    let shown = || format!("{forecast:#?}\n{record:#}");
    let reason = record["reason"].as_str().unwrap();
    assert_eq!(
        record["route"].as_str(),
        forecast.route.as_deref(),
        "{}",
        shown()
    );
    if forecast.route.is_some() {
        assert_eq!(
            record["user"].as_str(),
            forecast.user.as_deref(),
            "{}",
            shown()
        );
    }

    let prohibited = reason.starts_with("destination_ip_prohibited");
    let is_prohibited = forecast.route.is_some() && !forecast.allowed;
    assert_eq!(prohibited, is_prohibited, "{}", shown());
    if let Some(status) = forecast.status {
        assert_eq!(record["status"], status, "{}", shown());
    }

    // What was refused by a rule is remembered with the step that was forecast last.
    let Some(name) = record["refusal"].as_str() else {
        assert_eq!(forecast.refused, None, "{}", shown());
        return;
    };
    let account: Account = serde_json::from_value(node.why(name).unwrap()).unwrap();
    let last = account.steps.last().unwrap();
    assert!(last.place.is_some(), "{account:#?}");

    let forecast_last = forecast.steps.last();
    if let Some(step) =
        forecast_last.filter(|_| forecast.refused.is_some() && last.phase == "policy")
    {
        assert_eq!(
            (&step.path, &step.place),
            (&last.path, &last.place),
            "{}",
            shown()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_forecast_is_what_the_node_does() {
    let asked = std::env::var("HERMES_FORECASTS").ok();
    let wanted = asked.map_or(EXCHANGES, |asked| asked.parse().unwrap());
    let far = nothing_here();
    let mut rng = Rng::with_seed(0x9e37_79b9);
    let mut node: Option<Whole> = None;
    let mut compared = 0;
    let mut unsound = 0;
    let mut kinds = [0; 4];

    while compared < wanted {
        let folder = tempfile::tempdir().unwrap();
        let home = node.as_ref().map_or(&folder, |node| &node.folder);
        let text = configuration(&mut rng, home, far);
        let whole = match &mut node {
            None => match Whole::start(&text, folder) {
                Some(whole) => node.insert(whole),
                None => continue,
            },
            Some(whole) => {
                std::fs::write(&whole.file, &text).unwrap();
                if whole.proxy.reload().is_err() {
                    unsound += 1;
                    continue;
                }
                whole
            }
        };

        let mut forecasts = Vec::new();
        for _ in 0..BATCH {
            let (supposed, request) = exchange(&mut rng);
            let forecast = whole.proxy.suppose(&supposed).unwrap();
            whole.send(supposed.listener.as_deref().unwrap(), &request);
            forecasts.push(forecast);
        }

        let records = whole.records();
        assert_eq!(records.len(), forecasts.len());
        for (forecast, record) in forecasts.iter().zip(&records) {
            compare(forecast, record, &whole.proxy);
            let kind = match (&forecast.refused, &forecast.egress) {
                (Some(_), _) => 0,
                (None, Some(_)) if !forecast.allowed => 1,
                (None, _) if forecast.status.is_some() => 2,
                _ => 3,
            };
            kinds[kind] += 1;
        }
        compared += forecasts.len();
    }

    // Refused by rules, by egress, answered here, and sent on.
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
    assert!(unsound * BATCH < compared, "{unsound} were not sound");
    println!("{compared} exchanges: {kinds:?}, {unsound} configurations were not sound");
}
