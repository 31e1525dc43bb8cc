//! The relay behind the proxies of others, and for the clients of others: each message comes while the stream is open.

use std::process::{Child, Command, Stdio};

use hermes_tests::envoy::bootstrap;
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Envoy, Nginx, Node, chromium, curl};
use tempfile::NamedTempFile;

/// The forms whose messages are made of text, which proxies like to collect and to compress.
const FORMS: [&str; 4] = [
    "text/event-stream",
    "application/x-ndjson",
    "text/plain",
    "application/hermes-adu",
];

/// A page whose scripts are those of any program for browsers.
const PAGE: &str = r#"<!doctype html><title>waits</title><p id=said></p><script>
const said = [];
const events = new EventSource("/c/x");
events.onopen = () => fetch("/c/x", { method: "POST", body: "by a browser" });
events.onmessage = event => {
  said.push(event.data);
  document.getElementById("said").textContent = said.join("|");
  if (said.length === 1) fetch("/c/x", { method: "POST", body: "and again" });
  else events.close();
};
</script>"#;

fn relay() -> Node {
    let page = serde_json::to_string(PAGE).unwrap();
    Node::start(
        "relay",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes:
              - {{ match: {{ path: /c/* }}, handle: relay }}
              - {{ respond: {{ status: 200, body: {page} }}, answer: {{ set: {{ content-type: text/html }} }} }}
            "#
        ),
    )
}

/// A program that runs until it is dropped, and its output.
struct Reader {
    child: Child,
    output: NamedTempFile,
}

impl Reader {
    fn begin(mut command: Command) -> Self {
        let output = NamedTempFile::new().unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(output.reopen().unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, output }
    }

    fn curl(url: &str, arguments: &[&str]) -> Self {
        let program = std::env::var_os("HERMES_CURL").unwrap_or_else(|| "curl".into());
        let mut command = Command::new(program);
        command
            .args(["-q", "-sSN", "--max-time", "60"])
            .args(arguments)
            .arg(url);
        Self::begin(command)
    }

    fn sees(&self, wanted: &str) {
        eventually_true(wanted, || {
            let read = std::fs::read(self.output.path()).unwrap();
            String::from_utf8_lossy(&read).contains(wanted)
        });
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Publishes until so many hear it, at first; the next messages come one by one, each while the stream is open.
fn comes_at_once(relay: &Node, url: &str) {
    let direct = format!("http://{}/c/x", relay.address("web"));
    for form in FORMS {
        for coding in [&[][..], &["--compressed"]] {
            let accept = format!("Accept: {form}");
            let reader = Reader::curl(
                url,
                &[&["-H", &accept, "-H", "Host: relay"], coding].concat(),
            );
            eventually("the reader subscribes", || {
                let answer = curl(&["-H", "Host: relay", "-d", "begin", &direct]);
                (answer.text() == "receivers: 1\n").then_some(())
            });
            for number in 0..3 {
                let text = format!("message {number} as {form}.");
                let answer = curl(&["-H", "Host: relay", "-d", &text, url]);
                assert_eq!(answer.text(), "receivers: 1\n", "{answer:?}");
                reader.sees(&text);
            }
            drop(reader);
            eventually_true("it has left", || {
                let answer = curl(&["-X", "POST", "-H", "Host: relay", "-d", "end", &direct]);
                answer.text() != "receivers: 1\n" || subscriptions(relay) == 0
            });
            eventually_true("its grace is over", || subscriptions(relay) == 0);
        }
    }
}

fn subscriptions(node: &Node) -> u64 {
    let status = node.status();
    let count = &status["plugs"]["relay"]["subscriptions"];
    count.as_u64().unwrap_or_default()
}

/// Subscriptions that end with their stream, so that the next one is alone.
fn brief() -> Node {
    Node::start(
        "relay",
        r"
        listeners: { web: { http: 127.0.0.1:0, gateway: true } }
        routes: [ { handle: { relay: { grace: 1s } } } ]
        ",
    )
}

#[test]
fn nginx_passes_each_message_on_at_once_though_it_buffers_and_compresses() {
    let relay = brief();
    let server = format!(
        "gzip on; gzip_proxied any; gzip_types *; gzip_min_length 1; proxy_buffering on;
         location / {{ proxy_pass http://{}; proxy_http_version 1.1; proxy_set_header Host relay; }}",
        relay.address("web")
    );
    let nginx = Nginx::start(&server, |_| {});
    comes_at_once(&relay, &format!("http://{}/c/x", nginx.address()));
}

#[test]
fn envoy_passes_each_message_on_at_once() {
    let relay = brief();
    let envoy = Envoy::start(
        "between",
        vec![bootstrap::http("web", &bootstrap::forward("relay"))],
        vec![bootstrap::origin("relay", relay.address("web"))],
    );
    comes_at_once(&relay, &format!("{}/c/x", envoy.url("web")));
}

#[test]
fn the_event_source_of_chromium_gets_messages_and_publishes() {
    let relay = relay();
    let url = format!("http://{}/", relay.address("web"));
    let document = chromium::load_by(Command::new(chromium::path()), &url);
    assert!(document.contains("by a browser|and again"), "{document}");
}

#[test]
fn a_program_in_python_subscribes_and_publishes_by_its_standard_library() {
    let relay = relay();
    let url = format!("http://{}/c/x", relay.address("web"));
    let script = r#"
import json, sys, urllib.request
url = sys.argv[1]
asking = urllib.request.Request(url, headers={"Accept": "application/x-ndjson"})
with urllib.request.urlopen(asking, timeout=20) as lines:
    for text in ("one", "two", "three"):
        with urllib.request.urlopen(url, data=text.encode(), timeout=20) as answer:
            assert answer.read() == b"receivers: 1\n"
        assert json.loads(lines.readline())["data"] == text
print("all came", flush=True)
"#;
    let python = std::env::var_os("HERMES_PYTHON").unwrap_or_else(|| "python3".into());
    let output = Command::new(python)
        .args(["-c", script, &url])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(output.stdout, b"all came\n");
}
