//! Traces: one identifier over all hops, believed from peers only, told to no one else, and sent to a collector.

use std::net::{SocketAddr, TcpListener};

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::origins::{self, Origin, Request};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, curl, program, udp};
use serde_json::Value;

/// What clients send: the specification's example.
const CONTEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The trace of [`CONTEXT`].
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Four proxies in a row, and what is behind them.
struct Chain {
    /// From the client to the origins.
    nodes: Vec<Node>,
    video: Origin<Request>,
    _db: Origin<Vec<u8>>,
    _echo: Origin<(SocketAddr, Vec<u8>)>,
}

impl Chain {
    fn start() -> Self {
        let (video, db, echo) = (
            origins::http(),
            origins::tcp_echo(),
            origins::udp_echo(origins::V4),
        );
        let trusting =
            "listeners: { overlay: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] } }";
        let edge = format!(
            r#"
{trusting}
routes:
  - {{ match: {{ target: VIDEO }}, terminate: video }}
  - {{ match: {{ target: "DB:5432" }}, terminate: db }}
  - {{ match: {{ target: "ECHO:7000" }}, terminate: echo }}
upstreams:
  video: {{ endpoints: ["{}"] }}
  db: {{ endpoints: ["{}"] }}
  echo: {{ endpoints: ["{}"] }}
"#,
            video.address(),
            db.address(),
            echo.address()
        );
        let next = |node: &Node, http: u8| {
            let address = node.address("overlay");
            format!(
                "routes: [ {{ to: next }} ]\nupstreams: {{ next: {{ endpoints: [\"{address}\"], http: {http} }} }}\n"
            )
        };
        let edge = Node::start("edge", &edge);
        let core = Node::start("core", &format!("{trusting}\n{}", next(&edge, 2)));
        let ingress = Node::start("ingress", &format!("{trusting}\n{}", next(&core, 1)));
        let alice = r#"
listeners:
  web: { http: 127.0.0.1:0 }
  db: { tcp: 127.0.0.1:0, target: "DB:5432" }
  echo: { udp: 127.0.0.1:0, target: "ECHO:7000" }
"#;
        let alice = Node::start("alice", &format!("{alice}{}", next(&ingress, 2)));
        Self {
            nodes: vec![alice, ingress, core, edge],
            video,
            _db: db,
            _echo: echo,
        }
    }

    /// Traces of the records of this kind, node by node.
    fn traces(&self, kind: &str) -> Vec<String> {
        let text = |record: Value| record["trace"].as_str().unwrap().to_owned();
        self.nodes
            .iter()
            .map(|node| text(node.record(|record| record["kind"] == kind)))
            .collect()
    }
}

/// One trace, on every node.
fn is_one(traces: &[String]) {
    assert!(
        traces.len() == 4
            && traces[0].len() == 32
            && traces.iter().all(|trace| *trace == traces[0]),
        "{traces:?}"
    );
}

#[test]
fn one_trace_goes_through_all_hops_whatever_is_carried() {
    let chain = Chain::start();
    let proxy = chain.nodes[0].url("web");
    assert_eq!(curl(&["-x", &proxy, "http://VIDEO/"]).status, 200);
    let http = chain.traces("http");
    is_one(&http);
    let edge = chain.nodes[3].record(|record| record["kind"] == "http");
    let told = chain.video.last().field("traceparent").unwrap();
    let (prefix, flags) = told.rsplit_once('-').unwrap();
    assert_eq!(
        prefix,
        format!("00-{}-{}", http[0], edge["span"].as_str().unwrap())
    );
    assert!(["02", "03"].contains(&flags), "{told}");

    let mut raw = Raw::connect(chain.nodes[0].address("db"));
    raw.send("x");
    raw.exactly(1);
    let live: Vec<String> = chain
        .nodes
        .iter()
        .map(|node| node.exchanges()[0]["trace"].as_str().unwrap().to_owned())
        .collect();
    is_one(&live);
    raw.finish();
    raw.rest();
    is_one(&chain.traces("connect"));
    assert_ne!(live[0], http[0]);

    let client = udp::Client::connect(chain.nodes[0].address("echo"));
    client.send("x");
    client.receive();
    let live: Vec<String> = chain
        .nodes
        .iter()
        .map(|node| {
            eventually("a session", || {
                node.exchanges()[0]["trace"].as_str().map(str::to_owned)
            })
        })
        .collect();
    is_one(&live);
}

/// A node with three listeners that believe differently, before an origin of its own and any other.
fn front(origin: &Origin<Request>, expose: &str) -> Node {
    let yaml = format!(
        r#"
listeners:
  web: {{ http: 127.0.0.1:0 }}
  goes_on: {{ http: 127.0.0.1:0, trace: continue }}
  accepts: {{ http: 127.0.0.1:0, accepts: [traceparent] }}
routes:
  - {{ match: {{ target: OWN }}, terminate: own }}
  - {{ terminate: true, expose: [{expose}] }}
upstreams: {{ own: {{ endpoints: ["{}"] }} }}
egress: {{ allow: [127.0.0.0/8] }}
"#,
        origin.address()
    );
    Node::start("front", &yaml)
}

#[test]
fn a_client_is_believed_only_where_its_listener_says_so() {
    let origin = origins::http();
    let node = front(&origin, "");
    let asked = |listener: &str, context: &str| {
        let (proxy, parent) = (node.url(listener), format!("traceparent: {context}"));
        let output = curl(&[
            "-x",
            &proxy,
            "-H",
            &parent,
            "-H",
            "tracestate: a=1,b=2",
            "http://OWN/",
        ]);
        assert_eq!(output.status, 200, "{}", output.stderr);
        (
            origin.last().field("traceparent").unwrap(),
            origin.last().field("tracestate"),
        )
    };
    let (forged, state) = asked("web", CONTEXT);
    assert!(
        !forged.contains(TRACE) && forged.len() == CONTEXT.len() && state.is_none(),
        "{forged} {state:?}"
    );
    let (goes_on, state) = asked("goes_on", CONTEXT);
    assert!(
        goes_on.starts_with(&format!("00-{TRACE}-")) && goes_on.ends_with("-01"),
        "{goes_on}"
    );
    assert!(
        !goes_on.contains("00f067aa0ba902b7"),
        "the parent is this hop's span: {goes_on}"
    );
    assert_eq!(state.as_deref(), Some("a=1,b=2"));
    let (accepted, state) = asked("accepts", CONTEXT);
    assert!(
        accepted.contains(TRACE) && state.is_none(),
        "{accepted} {state:?}"
    );
    for invalid in [
        &CONTEXT.to_uppercase(),
        &CONTEXT.replace("00-", "ff-"),
        &format!("{CONTEXT}-"),
        "x",
    ] {
        let (made, state) = asked("goes_on", invalid);
        assert!(
            made.len() == CONTEXT.len() && !made.contains(TRACE),
            "{invalid}: {made}"
        );
        assert_eq!(state, None, "a state without its context means nothing");
    }
}

#[test]
fn third_parties_learn_nothing_unless_the_route_says_so() {
    let origin = origins::http();
    let url = format!("http://{}/", origin.address());
    for (expose, told) in [("", false), ("traceparent", true)] {
        let node = front(&origin, expose);
        let (proxy, parent) = (node.url("goes_on"), format!("traceparent: {CONTEXT}"));
        let output = curl(&["-x", &proxy, "-H", &parent, "-H", "tracestate: a=1", &url]);
        assert_eq!(output.status, 200, "{}", output.stderr);
        let seen = origin.last();
        assert_eq!(
            (
                seen.field("traceparent").is_some(),
                seen.field("tracestate")
            ),
            (told, None)
        );
        assert_eq!(node.record(|_| true)["trace"], TRACE);
    }
}

#[test]
fn a_dead_collector_costs_nothing_and_gets_its_spans_when_it_is_back() {
    let origin = origins::http();
    let place = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = place.local_addr().unwrap();
    drop(place);
    let own = origin.address();
    let node = Node::start(
        "front",
        &format!(
            r#"
trace: {{ sample: 100%, otlp: "http://{address}" }}
listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
routes: [ {{ terminate: own }} ]
upstreams: {{ own: {{ endpoints: ["{own}"] }} }}
"#
        ),
    );
    let get = || assert_eq!(curl(&["-x", &node.url("web"), "http://OWN/"]).status, 200);
    get();
    eventually_true("the node says that nothing arrives", || {
        node.log().contains("do not arrive")
    });
    get();
    let collector = origins::http_on(address);
    eventually_true("both spans arrive", || {
        node.metrics()
            .contains("hermes_spans_total{outcome=\"exported\"} 2\n")
    });
    assert!(
        collector
            .seen()
            .iter()
            .all(|request| (&*request.method, &*request.path) == ("POST", "/v1/traces"))
    );
    assert!(
        node.metrics()
            .contains("hermes_spans_total{outcome=\"failed\"} 0\n")
    );
    eventually_true("the node says that they arrive again", || {
        node.log().contains("arrive again")
    });
}

#[test]
fn a_collector_is_reached_over_tls_if_its_certificate_is_believed() {
    let (pki, other) = (Pki::new(), Pki::new());
    let collector = origins::https(&pki, &["127.0.0.1"]);
    let node = |ca: &Pki| {
        let yaml = format!(
            "trace: {{ sample: 100%, otlp: \"https://{}\", tls: {{ ca_file: {} }} }}\n\
             listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ respond: {{ status: 200 }} }} ]\n",
            collector.address(),
            ca.ca().display()
        );
        let node = Node::start("front", &yaml);
        assert_eq!(curl(&["-x", &node.url("web"), "http://VIDEO/"]).status, 200);
        node
    };
    let stranger = node(&other);
    eventually_true("the log says why nothing arrives", || {
        stranger.log().contains("certificate refused")
    });
    assert!(collector.seen().is_empty());
    let _node = node(&pki);
    eventually_true("a message", || {
        collector
            .seen()
            .iter()
            .any(|request| request.path == "/v1/traces")
    });
}

#[test]
fn users_beyond_the_bound_are_counted_together() {
    let origin = origins::http();
    let own = origin.address();
    let node = Node::start(
        "front",
        &format!(
            r#"
# What came first is known within a worker alone.
workers: 1
metrics: {{ users: 2 }}
listeners: {{ web: {{ http: 127.0.0.1:0, accepts: [user] }} }}
routes: [ {{ terminate: own }} ]
upstreams: {{ own: {{ endpoints: ["{own}"] }} }}
"#
        ),
    );
    for user in ["alice", "bob", "carol", "dave", "alice"] {
        let (proxy, user) = (node.url("web"), format!("user: {user}"));
        assert_eq!(
            curl(&["-x", &proxy, "-H", &user, "http://OWN/bytes/100"]).status,
            200
        );
    }
    node.idle();
    let metrics = node.metrics();
    for (user, exchanges) in [("alice", 2), ("bob", 1), ("(other)", 2)] {
        let line = format!("hermes_user_exchanges_total{{user=\"{user}\"}} {exchanges}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    assert!(
        metrics.contains(
            "hermes_user_bytes_total{user=\"alice\",direction=\"target_to_client\"} 200\n"
        )
    );
    assert!(
        metrics
            .contains("hermes_upstream_duration_seconds_count{upstream=\"own\",kind=\"http\"} 5\n"),
        "{metrics}"
    );
}

#[test]
fn top_shows_several_nodes_for_scripts_and_a_tunnel_once() {
    let chain = Chain::start();
    assert_eq!(
        curl(&["-x", &chain.nodes[0].url("web"), "http://VIDEO/bytes/100"]).status,
        200
    );
    let mut raw = Raw::connect(chain.nodes[0].address("db"));
    raw.send("x");
    raw.exactly(1);
    chain.traces("http");
    let sockets: Vec<String> = chain
        .nodes
        .iter()
        .map(|node| node.socket().display().to_string())
        .collect();
    let mut arguments = vec!["top", "--json"];
    arguments.extend(sockets.iter().map(String::as_str));
    let said = program::run(&arguments);
    assert_eq!(said.code, 0, "{}", said.stderr);
    let rates: Value = serde_json::from_str(&said.stdout).unwrap();
    let names: Vec<_> = rates["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| &node["node"])
        .collect();
    assert_eq!(names, ["alice", "ingress", "core", "edge"]);
    for node in rates["nodes"].as_array().unwrap() {
        assert_eq!(
            (&node["live"], &node["exchanges"], &node["error"]),
            (&1.into(), &1.into(), &Value::Null),
            "{node}"
        );
        assert!(
            node["bytes"].as_u64().unwrap() >= 100 && node["exchanges_per_second"].is_f64(),
            "{node}"
        );
    }
    assert_eq!(rates["longest"].as_array().unwrap().len(), 1, "{rates:#}");
    assert_eq!(rates["longest"][0]["nodes"].as_array().unwrap().len(), 4);
    let video = rates["upstreams"]
        .as_array()
        .unwrap()
        .iter()
        .find(|upstream| upstream["name"] == "video")
        .unwrap();
    assert_eq!(video["endpoints"], serde_json::json!([1, 1]));

    arguments[1] = "--once";
    let said = program::run(&arguments);
    assert!(
        said.stdout.contains(" open longest\n")
            && said.stdout.contains("alice, ingress, core, edge"),
        "{}",
        said.stdout
    );
    assert_eq!(program::run(&["top", "--once", "/nowhere.sock"]).code, 3);
}
