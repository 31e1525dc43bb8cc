//! What access records and the log say: who refused and why, clients that went away, files that are moved away.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::raw::Raw;
use hermes_tests::udp;
use hermes_tests::{Node, curl, origins, program};
use rustix::process::Signal;
use serde_json::Value;

/// A node for clients of every kind, whose next hop speaks this version.
fn before(next: &Node, http: u8) -> Node {
    let address = next.address("overlay");
    let yaml = format!(
        "listeners:\n  web: {{ http: 127.0.0.1:0 }}\n  db: {{ tcp: 127.0.0.1:0, target: \"DB:5432\" }}\n  \
         voice: {{ udp: 127.0.0.1:0, target: \"VOICE:7\" }}\nroutes: [ {{ to: sap }} ]\n\
         upstreams: {{ sap: {{ endpoints: [\"{address}\"], http: {http} }} }}\n"
    );
    Node::start("dp", &yaml)
}

fn sap(routes: &str) -> Node {
    Node::start(
        "sap",
        &format!("listeners: {{ overlay: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {routes} ]\n"),
    )
}

#[test]
fn the_record_of_a_node_says_which_later_one_refused_and_why() {
    let sap = sap("{ match: { target: VIDEO }, respond: { status: 200 } }");
    for http in [1, 2] {
        let dp = before(&sap, http);
        assert_eq!(curl(&["-x", &dp.url("web"), "http://NOWHERE/"]).status, 404);
        assert_eq!(
            Raw::tunnel(dp.address("web"), "NOWHERE:443", "")
                .unwrap_err()
                .status(),
            404
        );
        drop(Raw::connect(dp.address("db")).rest());
        udp::Client::connect(dp.address("voice")).send("hello");
        for (listener, kind, target) in [
            ("web", "http", "NOWHERE:80"),
            ("web", "connect", "NOWHERE:443"),
            ("db", "connect", "DB:5432"),
            ("voice", "connect-udp", "VOICE:7"),
        ] {
            let record =
                dp.record(|record| record["listener"] == listener && record["kind"] == kind);
            let reason =
                format!("destination_not_found: sap: no route for {target} from listener overlay");
            assert_eq!(
                (&record["reason"], &record["refused_by"]),
                (&reason.into(), &"sap".into()),
                "{http}: {record}"
            );
            assert_eq!(record["status"], 404, "{http}: {record}");
        }
    }
}

#[test]
fn an_answer_of_an_origin_is_not_a_refusal() {
    let answer =
        "HTTP/1.1 404 X\r\nproxy-status: mine; error=dns_error\r\nContent-Length: 0\r\n\r\n";
    let origin = origins::scripted(answer);
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ terminate: server }} ]\n\
         upstreams: {{ server: {{ endpoints: [\"{}\"] }} }}\n",
        origin.address()
    );
    let edge = Node::start("edge", &yaml);
    assert_eq!(curl(&["-x", &edge.url("web"), "http://VIDEO/"]).status, 404);
    let record = edge.record(|_| true);
    assert_eq!(
        (&record["reason"], &record["refused_by"]),
        (&"done".into(), &Value::Null),
        "{record}"
    );
}

/// Whatever the version and whatever it was doing: 499, and not a mistake of its own.
#[test]
fn a_client_that_went_away_is_recorded_as_such() {
    let origin = origins::http();
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }}, site: {{ http: 127.0.0.1:0, gateway: true }} }}\n\
         routes: [ {{ terminate: server }} ]\nupstreams: {{ server: {{ endpoints: [\"{}\"] }} }}\n",
        origin.address()
    );
    let edge = Node::start("edge", &yaml);
    let gone = |path: &str| {
        let record = edge.record(|record| record["target"].as_str().unwrap().ends_with(path));
        let reason = record["reason"].as_str().unwrap();
        assert!(
            record["status"] == 499 && reason.starts_with("client_closed: "),
            "{record}"
        );
    };
    let mut waits = Raw::connect(edge.address("web"));
    waits.send("GET http://VIDEO/hang?1 HTTP/1.1\r\nHost: VIDEO\r\n\r\n");
    eventually_true("it is there", || !origin.seen().is_empty());
    waits.reset();
    gone("/hang");
    for (close, path) in [("close", "/hang/head"), ("keep-alive", "/hang/content")] {
        let mut closes = Raw::connect(edge.address("web"));
        let content = if path.ends_with("content") {
            "Content-Length: 5\r\n\r\nfive!"
        } else {
            "\r\n"
        };
        closes.send(format!(
            "POST http://VIDEO{path} HTTP/1.1\r\nHost: VIDEO\r\nConnection: {close}\r\n{content}"
        ));
        eventually_true("it is there", || {
            origin.seen().iter().any(|request| request.path == path)
        });
        drop(closes);
        gone(path);
    }
    for reset in [false, true] {
        let path = format!("/post/{reset}");
        let mut sends = Raw::connect(edge.address("web"));
        sends.send(format!(
            "POST http://VIDEO{path} HTTP/1.1\r\nHost: VIDEO\r\nContent-Length: 100\r\n\r\nfive!"
        ));
        eventually_true("it is there", || {
            origin.seen().iter().any(|request| request.path == path)
        });
        if reset {
            sends.reset()
        } else {
            drop(sends)
        }
        gone(&path);
    }
    let curl = std::env::var("HERMES_CURL").unwrap_or_else(|_| "curl".to_owned());
    let mut command = Command::new(curl);
    let url = format!("http://{}/hang/h2", edge.address("site"));
    let mut client = command
        .args([
            "-q",
            "-s",
            "--http2-prior-knowledge",
            "--max-time",
            "30",
            &url,
        ])
        .spawn()
        .unwrap();
    eventually_true("it is live", || {
        edge.exchanges()
            .iter()
            .any(|exchange| exchange["protocol"] == "h2")
    });
    client.kill().unwrap();
    client.wait().unwrap();
    gone("/hang/h2");
    assert!(
        edge.metrics()
            .contains("hermes_user_failures_total{user=\"\"} 0"),
        "{}",
        edge.metrics()
    );
}

#[test]
fn a_client_that_ends_its_side_is_answered_where_the_listener_says_so() {
    let (asked, hears) = std::sync::mpsc::channel();
    let (says, answer) = std::sync::mpsc::channel();
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = origin.local_addr().unwrap();
    let origin = std::thread::spawn(move || {
        let mut far = origin.accept().unwrap().0;
        assert_ne!(far.read(&mut [0; 4096]).unwrap(), 0);
        asked.send(()).unwrap();
        answer.recv().unwrap();
        far.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate")
            .unwrap();
    });
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, half_close: true }} }}\nroutes: [ {{ terminate: server }} ]\n\
         upstreams: {{ server: {{ endpoints: [\"{address}\"] }} }}\n"
    );
    let edge = Node::start("edge", &yaml);
    let mut waits = Raw::connect(edge.address("web"));
    waits.send("GET http://VIDEO/ HTTP/1.1\r\nHost: VIDEO\r\n\r\n");
    waits.finish();
    hears.recv().unwrap();
    says.send(()).unwrap();
    assert_eq!(waits.response().1, b"late");
    origin.join().unwrap();
}

/// A node that logs to a file, too.
fn logging() -> Node {
    let yaml = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { respond: { status: 204 } } ]\n\
                log: { level: info, file: hermes.log, access: { file: access.json } }\n";
    Node::start("edge", yaml)
}

/// Records of the file by this name, as `path` of each.
fn paths(node: &Node, name: &str) -> Vec<String> {
    let text = fs::read_to_string(node.folder().join(name)).unwrap_or_default();
    let target = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap()["target"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    text.lines()
        .map(|line| target(line).rsplit_once('/').unwrap().1.to_owned())
        .collect()
}

fn get(node: &Node, path: &str) {
    assert_eq!(
        curl(&["-x", &node.url("web"), &format!("http://VIDEO/{path}")]).status,
        204
    );
}

fn moved(node: &Node, name: &str) {
    let path = node.folder().join(name);
    assert!(
        Command::new("mv")
            .arg(&path)
            .arg(path.with_extension("1"))
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn records_and_log_go_on_in_new_files_after_a_reload_or_a_signal() {
    let node = logging();
    get(&node, "one");
    eventually("a record", || {
        (paths(&node, "access.json").len() == 1).then_some(())
    });
    for name in ["access.json", "hermes.log"] {
        // The log has no line yet, but its file.
        moved(&node, name);
    }
    node.signal(Signal::HUP);
    let reloaded = |name: &str| {
        fs::read_to_string(node.folder().join(name))
            .unwrap_or_default()
            .contains("reloaded")
    };
    eventually_true("both are there again", || {
        node.folder().join("access.json").is_file() && reloaded("hermes.log")
    });
    get(&node, "two");
    eventually("a record", || {
        (paths(&node, "access.json") == ["two"]).then_some(())
    });
    assert_eq!(paths(&node, "access.1"), ["one"]);
    // A file that is not valid does not keep the logs where they are.
    moved(&node, "access.json");
    let (status, _) = node.reload("listeners: 1\n");
    assert_eq!(status, 422);
    eventually_true("it is there again", || {
        node.folder().join("access.json").is_file()
    });
    get(&node, "three");
    eventually("a record", || {
        (paths(&node, "access.json") == ["three"]).then_some(())
    });
    assert_eq!(paths(&node, "access.1"), ["two"]);
}

#[test]
fn a_file_that_was_moved_away_is_noticed_without_a_word() {
    let node = logging();
    get(&node, "old");
    eventually("a record", || {
        (paths(&node, "access.json").len() == 1).then_some(())
    });
    moved(&node, "access.json");
    let mut sent = 0;
    eventually("records in a new file", || {
        sent += 1;
        get(&node, &sent.to_string());
        node.folder().join("access.json").is_file().then_some(())
    });
    // None is lost, none twice, and no line is cut.
    let all = || [paths(&node, "access.1"), paths(&node, "access.json")].concat();
    eventually("all records", || (all().len() == sent + 1).then_some(()));
    let expected: Vec<_> = std::iter::once("old".to_owned())
        .chain((1..=sent).map(|number| number.to_string()))
        .collect();
    assert_eq!(all(), expected);
}

/// With the file that the documentation shows.
#[test]
fn logrotate_rotates_as_the_documentation_says() {
    let Some(logrotate) = std::env::var_os("HERMES_LOGROTATE") else {
        panic!("HERMES_LOGROTATE names logrotate: ./test integration sets it");
    };
    let node = logging();
    get(&node, "one");
    eventually("a record", || {
        (paths(&node, "access.json").len() == 1).then_some(())
    });
    let page = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../docs/operating.md"
    ))
    .unwrap();
    let (_, rest) = page.split_once("```logrotate\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    let folder = node.folder().to_str().unwrap();
    let hermes = format!(
        "{} reload --admin {}",
        program::path().display(),
        node.socket().display()
    );
    let file = shown
        .replace("/var/log/hermes", folder)
        .replace(
            "/usr/bin/hermes reload --admin /run/hermes/sap/hermes/sap.sock",
            &hermes,
        )
        .replace("hermes hermes", "root root");
    assert!(file.contains(folder) && file.contains(&hermes), "{file}");
    let (rules, state) = (node.folder().join("rules"), node.folder().join("state"));
    fs::write(&rules, format!("su root root\n{file}")).unwrap();
    let mut command = Command::new(logrotate);
    let ran = command
        .args(["--force", "--state"])
        .arg(state)
        .arg(&rules)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    get(&node, "two");
    eventually("a record in the new file", || {
        (paths(&node, "access.json") == ["two"]).then_some(())
    });
    assert_eq!(paths(&node, "access.json.1"), ["one"]);
}

#[test]
fn debug_tells_the_steps_of_an_exchange_and_no_frames() {
    let sap = sap("{ match: { target: VIDEO }, respond: { status: 200 } }");
    let dp = before(&sap, 2);
    let (status, _) = dp.ask("PUT", "/log", "debug");
    assert_eq!(status, 204);
    assert_eq!(
        curl(&["-x", &dp.url("web"), "http://VIDEO/%1b"]).status,
        200
    );
    let id = dp.record(|_| true)["id"].as_str().unwrap().to_owned();
    let log = dp.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains(&id)).collect();
    let steps = [
        "arrives",
        "is for",
        "takes the route",
        "goes to",
        "is answered",
        "ended",
    ];
    assert_eq!(lines.len(), steps.len(), "{log}");
    assert!(
        lines
            .iter()
            .zip(steps)
            .all(|(line, step)| line.contains(step)),
        "{log}"
    );
    assert!(
        !log.contains("h2::") && !log.to_lowercase().contains("frame"),
        "{log}"
    );
}
