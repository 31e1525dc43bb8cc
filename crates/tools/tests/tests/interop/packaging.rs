//! The files of `packaging/`: systemd's own judgement of the units, Prometheus' own of its rules, and a Prometheus that scrapes
//! nodes and is asked all that the dashboard and the rules ask.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use hermes_tests::eventually::eventually_true;
use hermes_tests::udp::Client;
use hermes_tests::{Echo, Node, Pki, curl, eventually, free, program};
use serde_json::Value;
use tempfile::TempDir;

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../packaging")
        .canonicalize()
        .unwrap()
}

/// The program that a variable names, else that of the path.
fn tool(variable: &str, name: &str) -> Command {
    Command::new(std::env::var_os(variable).unwrap_or_else(|| name.into()))
}

fn run(command: &mut Command) -> (bool, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; run `./test install`"));
    (
        status.success(),
        format!(
            "{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        ),
    )
}

#[test]
fn systemd_takes_the_units_and_finds_the_service_little_exposed() {
    let unit = packaging().join("systemd/hermes@.service");
    let analyze = || tool("HERMES_SYSTEMD_ANALYZE", "systemd-analyze");
    // The threshold is ten times what the last line says: below 3.
    let (fine, said) = run(analyze()
        .args(["security", "--offline=true", "--threshold=29"])
        .arg(&unit));
    assert!(fine, "{said}");

    // Each line is understood; the program is where the test has it.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("hermes@sap.service");
    let text = fs::read_to_string(&unit)
        .unwrap()
        .replace("/usr/bin/hermes", program::path().to_str().unwrap());
    fs::write(&copy, text).unwrap();
    // A socket unit is verified with the service that it starts, which stands beside it.
    let socket = folder.path().join("hermes@sap.socket");
    fs::copy(packaging().join("systemd/hermes@.socket"), &socket).unwrap();
    let (fine, said) = run(analyze()
        .arg("verify")
        .arg("--man=no")
        .args([&copy, &socket]));
    let ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("hermes@"))
        .collect();
    assert!(fine && ours.is_empty(), "{said}");
}

#[test]
fn promtool_takes_the_rules_their_tests_and_the_configuration() {
    let folder = packaging().join("prometheus");
    for (words, file) in [
        (["check", "rules"], "hermes.rules.yml"),
        (["test", "rules"], "hermes.rules.test.yml"),
        (["check", "config"], "prometheus.yml"),
    ] {
        let (fine, said) = run(tool("HERMES_PROMTOOL", "promtool")
            .current_dir(&folder)
            .args(words)
            .arg(file));
        assert!(fine, "{file}: {said}");
    }
}

/// A Prometheus with our configuration, but for what is scraped and how often.
struct Prometheus {
    _folder: TempDir,
    process: Child,
    address: SocketAddr,
}

impl Prometheus {
    fn start(metrics: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (at, ours) = (folder.path(), packaging().join("prometheus"));
        let text = fs::read_to_string(ours.join("prometheus.yml")).unwrap();
        let text = text
            .replace("interval: 15s", "interval: 1s")
            .replace("127.0.0.1:9464", &metrics.to_string());
        fs::write(at.join("prometheus.yml"), text).unwrap();
        fs::copy(ours.join("hermes.rules.yml"), at.join("hermes.rules.yml")).unwrap();
        let address = free::tcp();
        let mut command = tool("HERMES_PROMETHEUS", "prometheus");
        command
            .arg(format!(
                "--config.file={}",
                at.join("prometheus.yml").display()
            ))
            .arg(format!("--storage.tsdb.path={}", at.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(at.join("log")).unwrap());
        let process = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}; run `./test install`"));
        let prometheus = Self {
            _folder: folder,
            process,
            address,
        };
        eventually_true("Prometheus is ready", || {
            curl(&[&format!("http://{address}/-/ready")]).status == 200
        });
        prometheus
    }

    /// What it answers a query with.
    fn query(&self, query: &str) -> Vec<Value> {
        let url = format!("http://{}/api/v1/query", self.address);
        let answer = curl(&["-G", "--data-urlencode", &format!("query={query}"), &url]).json();
        assert_eq!(answer["status"], "success", "{query}: {answer:#}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    /// Every rule that was evaluated, and what was wrong with it.
    fn rules(&self) -> Vec<(String, String)> {
        let answer = curl(&[&format!("http://{}/api/v1/rules", self.address)]).json();
        let groups = answer["data"]["groups"].as_array().unwrap().clone();
        let rules = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap().clone())
            .collect::<Vec<_>>();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        rules
            .iter()
            .map(|rule| {
                (
                    text(&rule["health"]),
                    format!("{}: {}", rule["name"], text(&rule["lastError"])),
                )
            })
            .collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A node with a bit of everything that is counted: users, failures of all kinds, a reload that is refused.
fn busy(echo: &Echo, pki: &Pki) -> (Node, SocketAddr) {
    let (metrics, folder) = (free::tcp(), tempfile::tempdir().unwrap());
    let users = "alice:$2b$04$abcdefghijklmnopqrstuuJ9VnqyNcIn1T9mTHh2wLCgYIm7Bmn1W\n";
    fs::write(folder.path().join("users"), users).unwrap();
    let yaml = format!(
        r#"
        admin: {{ socket: admin.sock, metrics: "{metrics}" }}
        metrics: {{ users: 10 }}
        listeners:
          web: {{ http: 127.0.0.1:0, user: alice }}
          asks: {{ http: 127.0.0.1:0, auth: {{ basic: {{ file: users }} }} }}
          voice: {{ udp: 127.0.0.1:0, target: "VOICE:1" }}
          sealed: {{ http: 127.0.0.1:0, tls: {{ {} }} }}
        routes:
          - {{ match: {{ target: VIDEO }}, terminate: {} }}
          - {{ match: {{ target: DEAD }}, terminate: dead }}
          - {{ match: {{ target: VOICE }}, terminate: {} }}
        upstreams:
          dead: {{ endpoints: ["{}"] }}
        "#,
        pki.issue(&["sap.test"]).yaml(),
        echo.http,
        echo.udp,
        free::tcp(),
    );
    (Node::start_in(folder, "sap", &yaml, &[]), metrics)
}

fn exercise(node: &Node) {
    let (web, asks) = (node.url("web"), node.url("asks"));
    assert_eq!(
        curl(&["-x", &web, "-d", "some", "http://VIDEO/"]).status,
        200
    );
    assert_eq!(curl(&["-x", &web, "http://DEAD/"]).status, 502);
    assert_eq!(
        curl(&["-x", &asks, "-U", "alice:wrong", "http://VIDEO/"]).status,
        407
    );
    let client = Client::connect(node.address("voice"));
    client.send("hello");
    assert_eq!(client.receive(), b"hello");
}

/// As `curl -s http://NODE/metrics | promtool check metrics`, with a bit of everything that is counted.
#[test]
fn promtool_takes_the_metrics() {
    let (echo, pki) = (Echo::start(), Pki::new());
    let (node, metrics) = busy(&echo, &pki);
    exercise(&node);
    let got = curl(&[&format!("http://{metrics}/metrics")]);
    assert!(
        got.field("content-type").unwrap().starts_with("text/plain"),
        "{got:?}"
    );

    let mut promtool = tool("HERMES_PROMTOOL", "promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(got.text().as_bytes())
        .unwrap();
    let said = promtool.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && words.is_empty(), "{words}");
}

/// Every expression of the dashboard, as Grafana sends it.
fn dashboard() -> Vec<String> {
    let text = fs::read_to_string(packaging().join("grafana/hermes.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let grafana = |text: &str| {
        text.replace("$__rate_interval", "30s")
            .replace("$instance", ".*")
    };
    targets
        .map(|target| grafana(target["expr"].as_str().unwrap()))
        .collect()
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words
        .filter(|word| word.starts_with("hermes_") || word.starts_with("process_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn prometheus_answers_all_that_the_dashboard_and_the_rules_ask() {
    let (echo, pki) = (Echo::start(), Pki::new());
    let (node, metrics) = busy(&echo, &pki);
    exercise(&node);
    let file = fs::read_to_string(node.file()).unwrap();
    fs::write(node.file(), format!("{file}nonsense: 1\n")).unwrap();
    assert_eq!(node.ask("POST", "/reload", "").0, 422);

    // What is named is what a node has.
    let has = names(&node.metrics());
    let rules = fs::read_to_string(packaging().join("prometheus/hermes.rules.yml")).unwrap();
    let expressions = rules
        .lines()
        .filter(|line| !line.contains("summary:") && !line.contains("action:"));
    let mut asked = names(&expressions.collect::<Vec<_>>().join("\n"));
    asked.extend(names(&dashboard().join("\n")));
    let missing: Vec<_> = asked.difference(&has).collect();
    assert!(
        missing.is_empty() && asked.len() > 15,
        "{missing:?} of {asked:?}"
    );

    // And Prometheus finds it, once it has seen the node twice with something between.
    let prometheus = Prometheus::start(metrics);
    eventually_true("the node was scraped", || {
        !prometheus.query("hermes_exchanges_total").is_empty()
    });
    for query in dashboard() {
        eventually(&query, || {
            exercise(&node);
            (!prometheus.query(&query).is_empty()).then_some(())
        });
    }
    let all_evaluated = || {
        let rules = prometheus.rules();
        assert!(rules.iter().all(|(health, _)| health != "err"), "{rules:?}");
        rules.len() == 11 && rules.iter().all(|(health, _)| health == "ok")
    };
    eventually_true("every rule is evaluated", all_evaluated);
}
