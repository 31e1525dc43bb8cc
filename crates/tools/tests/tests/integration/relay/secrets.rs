//! The URI of a channel that no one can guess is a secret: it stands in nothing that a node writes or tells its operator.

use std::fs;
use std::path::Path;

use hermes_tests::collector::Collector;
use hermes_tests::curl::{Output, curl};
use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, program};

use super::subscriber::Subscriber;

const SECRET: &str = "GIeVB5GHcaV1QdM0oDZ9pg";

/// A node with this in its routes, which writes all that nodes can write.
fn talkative(name: &str, collector: &Collector, routes: &str) -> Node {
    let node = Node::start(
        name,
        &format!(
            r#"
            log: {{ level: trace, access: {{ file: access.json }}, decisions: {{ file: decisions.json }} }}
            trace: {{ sample: 100%, otlp: "http://{}" }}
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            policy:
              default: allow
              rules: [ {{ name: no-delete, match: {{ path: /c/*, fields: {{ x-deny: true }} }}, deny: {{ status: 451 }} }} ]
            {routes}
            "#,
            collector.address(),
        ),
    );
    let (status, answer) = node.ask("PUT", "/log", "trace");
    assert_eq!(status, 204, "{answer}");
    node
}

/// All that an operator can read of a node.
fn told(node: &Node) -> Vec<(String, String)> {
    let mut told = Vec::new();
    for path in ["/status", "/exchanges", "/refusals", "/metrics", "/usage"] {
        told.push((path.to_owned(), node.ask("GET", path, "").1));
    }
    told.push(("log".to_owned(), node.log()));
    files(node.folder(), &mut told);
    told
}

fn files(folder: &Path, told: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, told);
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            told.push((path.display().to_string(), text));
        }
    }
}

fn at(node: &Node, path: &str, arguments: &[&str]) -> Output {
    let url = format!("http://{}{path}", node.address("web"));
    let referer = format!("Referer: http://hub.test/c/{SECRET}");
    let host = ["-H", "Host: hub.test", "-H", &referer, "--path-as-is"];
    curl(&[&host[..], arguments, &[&url]].concat())
}

/// Whatever can happen to a request for the channel; gives the name of the subscription, and those of refusals.
fn everything(node: &Node) -> (Subscriber, Vec<String>) {
    let path = format!("/c/{SECRET}");
    let url = format!("http://{}{path}", node.address("web"));
    let host = ["-H", "Host: hub.test"];
    let subscriber = Subscriber::begin(
        &url,
        &[&host[..], &["-H", "Accept: application/x-ndjson"]].concat(),
    );
    assert_eq!(at(node, &path, &["-d", "hi"]).status, 200);
    subscriber.sees("\"hi\"");
    let refused = [
        at(node, &path, &["-X", "PATCH"]),
        at(node, &path, &["-H", "Hermes-Subscribe: timeout=x"]),
        at(node, &path, &["-H", "X-Deny: yes"]),
        at(node, &format!("{path}/../x"), &["-X", "PATCH"]),
        at(node, &format!("{path}%2f..%2fx"), &[]),
        at(node, &format!("{path}?s=unknown"), &["-X", "DELETE"]),
        at(node, &format!("/c/%47{}", &SECRET[1..]), &["-X", "PATCH"]),
    ];
    let names = refused.iter().filter_map(|answer| {
        assert!(answer.status >= 400, "{answer:?}");
        let status = answer.field("proxy-status")?;
        let (_, name) = status.split_once("refusal=")?;
        let end = name.find(|byte: char| !byte.is_ascii_alphanumeric());
        Some(name[..end.unwrap_or(name.len())].to_owned())
    });
    let names = names.collect();
    (subscriber, names)
}

#[test]
fn the_uri_of_a_channel_stands_in_nothing_that_nodes_write() {
    let collector = Collector::start();
    let hub = talkative(
        "hub",
        &collector,
        "routes: [ { match: { path: /c/* }, handle: relay } ]",
    );
    let to_hub = format!(
        "upstreams: {{ hub: {{ endpoints: [\"{}\"] }} }}",
        hub.address("web")
    );
    let way = talkative(
        "way",
        &collector,
        &format!(
            "routes: [ {{ match: {{ path: /c/* }}, hide_path: true, to: hub }} ]\n            {to_hub}"
        ),
    );
    let join = talkative(
        "join",
        &collector,
        &format!(
            "functions: {{ join: {{ aggregate: {{}} }} }}\n            \
             routes: [ {{ match: {{ path: /c/* }}, through: [join], to: hub }} ]\n            {to_hub}"
        ),
    );

    for node in [&hub, &way, &join] {
        let (subscriber, refusals) = everything(node);
        let location = subscriber.location();
        let id = location.split_once("?s=").expect("it has a name").1;
        assert!(refusals.len() >= 3, "{refusals:?}");
        let mut told = told(node);
        for refusal in &refusals {
            let socket = node.socket();
            let said = program::run(&["why", refusal, "--admin", socket.to_str().unwrap()]);
            assert!(
                said.stdout.contains("/c/"),
                "{}{}",
                said.stdout,
                said.stderr
            );
            told.push((format!("why {refusal}"), said.stdout + &said.stderr));
        }
        let live = node.exchanges();
        let shown = |exchange: &serde_json::Value| {
            let target = exchange["target"].as_str().unwrap_or_default();
            target.contains("/c/~")
        };
        assert!(live.iter().any(shown), "{live:?}");
        drop(subscriber);
        // A node on the way hears that its subscriber is gone with the next sign of life: its record is not awaited.
        eventually_true("all is recorded", || node.access().len() > refusals.len());
        told.extend(self::told(node));
        told.push(("node".to_owned(), format!("{:?}", node.exchanges())));
        for (place, text) in &told {
            assert!(!text.contains(&SECRET[1..]), "{place}: {text}");
            assert!(!text.contains(id), "the subscription in {place}: {text}");
        }
    }
    eventually_true("the traces arrive", || !collector.said().is_empty());
    let traced = format!("{:?}", collector.said());
    assert!(!traced.contains(&SECRET[1..]), "{traced}");
}
