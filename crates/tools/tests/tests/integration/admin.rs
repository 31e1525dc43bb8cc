//! What the administrator sees and changes while traffic flows.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use hermes_tests::eventually::eventually_true;
use hermes_tests::program::{self, run};
use hermes_tests::raw::{End, Raw};
use hermes_tests::udp::Client;
use hermes_tests::{Node, Pki, curl, origins};
use rustix::process::Signal;

const FIRST: &str = r#"
    listeners: { web: { http: 127.0.0.1:0 } }
    routes: [ { match: { path: /version }, respond: { status: 200, body: one } }, { terminate: true } ]
    egress: { allow: [127.0.0.0/8] }
"#;

fn version(node: &Node, listener: &str) -> String {
    curl(&["-x", &node.url(listener), "http://a/version"]).text()
}

#[test]
fn status_says_what_the_node_is() {
    let node = Node::start(
        "alice",
        r#"
        listeners: { web: { http: 127.0.0.1:0 }, db: { tcp: 127.0.0.1:0, target: "db:5432" }, rtp: { udp: "[::1]:0", target: "v:1" } }
        routes: [ { to: next } ]
        upstreams: { next: { endpoints: ["127.0.0.1:1"] } }
        "#,
    );
    let status = node.status();
    assert_eq!(
        (&status["node"], &status["config"]["revision"]),
        (&"alice".into(), &1.into())
    );
    assert_eq!(status["pid"], node.pid());
    let kinds: Vec<_> = status["listeners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|listener| &listener["kind"])
        .collect();
    assert_eq!(kinds, ["http", "tcp", "udp"]);
    assert!(node.address("rtp").is_ipv6() && node.address("rtp").port() != 0);
    assert_eq!(status["upstreams"][0]["name"], "next");
    let socket = node.socket();
    let said = run(&["status", "--json", "--admin", socket.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&said.stdout).unwrap()["node"],
        "alice"
    );
    let said = run(&["status", "--admin", socket.to_str().unwrap()]);
    assert!(
        said.stdout.contains("alice") && said.stdout.contains("rtp"),
        "{said:?}"
    );
    let said = run(&["status", "--admin", "/nonexistent.sock"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert_eq!(
        fs::metadata(socket).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn live_exchanges_are_shown_and_ended_ones_are_not() {
    let (node, origin) = (Node::start("alice", FIRST), origins::tcp_echo());
    let mut raw = Raw::tunnel(node.address("web"), &origin.address().to_string(), "").unwrap();
    raw.send("12345");
    assert_eq!(raw.exactly(5), b"12345");
    let live = node.exchanges();
    assert_eq!(live.len(), 1);
    let expected = [
        ("kind", "connect"),
        ("protocol", "h1"),
        ("listener", "web"),
        ("method", "CONNECT"),
        ("route", "routes[1]"),
    ];
    for (name, value) in expected {
        assert_eq!(live[0][name], value, "{live:?}");
    }
    assert_eq!(live[0]["target"], origin.address().to_string());
    assert_eq!(live[0]["source"], raw.local().to_string());
    eventually_true("five bytes either way are counted", || {
        let live = &node.exchanges()[0];
        live["client_to_target"] == 5 && live["target_to_client"] == 5
    });
    raw.finish();
    raw.rest();
    node.idle();
}

#[test]
fn an_access_record_tells_the_whole_story() {
    let (node, origin) = (Node::start("alice", FIRST), origins::http());
    curl(&[
        "-x",
        &node.url("web"),
        "-d",
        "12345",
        &format!("http://{}/post?secret=1", origin.address()),
    ]);
    let record = node.record(|_| true);
    for (name, value) in [
        ("kind", "http"),
        ("event", "end"),
        ("node", "alice"),
        ("listener", "web"),
        ("protocol", "h1"),
        ("method", "POST"),
        ("route", "routes[1]"),
        ("upstream", "(target)"),
        ("reason", "done"),
    ] {
        assert_eq!(record[name], value, "{name} in {record}");
    }
    assert_eq!(record["target"], format!("{}/post", origin.address()));
    assert_eq!(record["endpoint"], origin.address().to_string());
    assert_eq!(
        (&record["status"], &record["user"]),
        (&200.into(), &serde_json::Value::Null)
    );
    assert_eq!(record["bytes"]["client_to_target"], 5);
    assert!(record["bytes"]["target_to_client"].as_u64().unwrap() > 0);
    assert!(record["duration_ms"].is_u64() && record["id"].is_string());
    assert!(record["time"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn every_end_has_its_reason() {
    let node = Node::start("alice", FIRST);
    let unserved = origins::Unserved::new();
    let gone = unserved.address();
    curl(&["-x", &node.url("web"), &format!("http://{gone}/refused")]);
    curl(&["-x", &node.url("web"), "http://10.0.0.1/prohibited"]);
    curl(&["-x", &node.url("web"), "http://a/version"]);
    for (path, reason) in [
        ("/refused", "connection_refused"),
        ("/prohibited", "destination_ip_prohibited"),
        ("/version", "responded"),
    ] {
        let record = node.record(|record| record["target"].as_str().unwrap().ends_with(path));
        assert!(
            record["reason"].as_str().unwrap().starts_with(reason),
            "{record}"
        );
    }
}

#[test]
fn metrics_count_and_are_well_formed() {
    let node = Node::start("alice", FIRST);
    (0..3).for_each(|_| drop(version(&node, "web")));
    let metrics = node.metrics();
    assert!(metrics.ends_with("# EOF\n"), "OpenMetrics has an end");
    let counted = metrics
        .lines()
        .any(|line| line.starts_with("hermes_") && line.contains("web") && line.ends_with(" 3"));
    assert!(counted, "{metrics}");
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        assert!(
            line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(),
            "{line}"
        );
    }
}

#[test]
fn metrics_over_tcp_are_metrics_only() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    drop(holder);
    let yaml = format!(
        "{}\n    admin: {{ socket: admin.sock, metrics: \"{address}\" }}\n",
        FIRST.trim_end()
    );
    let node = Node::start("alice", &yaml);
    assert_eq!(curl(&[&format!("http://{address}/metrics")]).status, 200);
    for path in ["/status", "/exchanges", "/healthz"] {
        assert_eq!(
            curl(&[&format!("http://{address}{path}")]).status,
            404,
            "{path}"
        );
    }
    assert!(curl(&["-X", "POST", &format!("http://{address}/reload")]).status >= 400);
    let rebound = curl(&[
        "-H",
        "Host: evil.test",
        &format!("http://{address}/metrics"),
    ]);
    assert!(
        rebound.status >= 400,
        "a page elsewhere cannot read them: {rebound:?}"
    );
    let chosen = curl(&["-x", &node.url("web"), &format!("http://{address}/metrics")]);
    assert_eq!(chosen.status, 502, "no request chooses them: {chosen:?}");
}

#[test]
fn the_log_filter_changes_at_run_time() {
    let node = Node::start(
        "alice",
        &format!(
            "{}\n    log: {{ level: error, access: {{ file: access.json }} }}\n",
            FIRST.trim_end()
        ),
    );
    let broken = || {
        let mut raw = Raw::connect(node.address("web"));
        raw.send("nonsense\r\n\r\n");
        raw.rest();
    };
    broken();
    assert!(!node.log().contains("malformed"), "{}", node.log());
    assert_eq!(node.ask("PUT", "/log", "hermes_proxy=debug").0, 204);
    broken();
    eventually_true("a line about the request", || {
        node.log().contains("malformed")
    });
    let (status, answer) = node.ask("PUT", "/log", "hermes_proxy=loud");
    assert_eq!(status, 422, "{answer}");
    let socket = node.socket();
    let log =
        |words: &[&str]| run(&[&["log", "--admin", socket.to_str().unwrap()], words].concat());
    assert_eq!(log(&[]).stdout, "hermes_proxy=debug\n");
    assert_eq!(log(&["warn"]).code, 0);
    for nonsense in ["loud", "hermes_proxi=debug", ""] {
        assert_eq!(
            (log(&[nonsense]).code, node.ask("PUT", "/log", nonsense).0),
            (2, 422),
            "{nonsense}"
        );
    }
    assert_eq!(
        (log(&[]).stdout.as_str(), &node.status()["log"]),
        ("warn\n", &"warn".into())
    );
}

#[test]
fn a_reload_changes_routes_and_listeners() {
    let node = Node::start("alice", FIRST);
    assert_eq!(version(&node, "web"), "one");
    let web = node.address("web");
    let second = FIRST
        .replace("body: one", "body: two")
        .replace("listeners: {", "listeners: { side: { http: 127.0.0.1:0 },");
    let (status, report) = node.reload(&second);
    assert_eq!(status, 200, "{report}");
    assert_eq!(report["revision"], 2);
    assert_eq!(
        (
            version(&node, "web").as_str(),
            version(&node, "side").as_str()
        ),
        ("two", "two")
    );
    assert_eq!(
        node.address("web"),
        web,
        "a listener that did not change keeps its socket"
    );
    let side = node.address("side");
    let (status, _) = node.reload(FIRST);
    assert_eq!(status, 200);
    eventually_true("the removed listener is closed", || {
        std::net::TcpStream::connect(side).is_err()
    });
    assert_eq!(version(&node, "web"), "one");
}

#[test]
fn a_hang_up_signal_reloads_too() {
    let node = Node::start("alice", FIRST);
    let text = fs::read_to_string(node.file()).unwrap();
    fs::write(node.file(), text.replace("body: one", "body: two")).unwrap();
    node.signal(Signal::HUP);
    eventually_true("the new route answers", || version(&node, "web") == "two");
    let said = "reloaded: revision 2; listeners: kept web; routes: 2";
    eventually_true("the log says what changed, in words", || {
        node.log().contains(said)
    });
}

#[test]
fn a_program_that_cannot_be_run_has_the_code_of_a_shell() {
    let exec = |program: &str| run(&["exec", "--proxy", "http://127.0.0.1:1", "--", program]);
    for (program, code) in [
        ("/no/such/program", 127),
        ("/etc/passwd", 126),
        ("/", 126),
        ("false", 1),
    ] {
        assert_eq!(exec(program).code, code, "{program}");
    }
}

#[test]
fn a_bad_file_changes_nothing() {
    let node = Node::start("alice", FIRST);
    for bad in [
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { to: nowhere } ]\n",
        "listeners: [",
        "version: 2\n",
    ] {
        let (status, answer) = node.reload(bad);
        assert_eq!(status, 422, "{answer}");
        let problem = &answer["problems"][0];
        assert!(
            problem["reason"].is_string() && problem["place"]["line"].is_u64(),
            "{answer}"
        );
        assert_eq!(version(&node, "web"), "one");
    }
    assert_eq!(node.status()["config"]["revision"], 1);
    let said = run(&["reload", "--admin", node.socket().to_str().unwrap()]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(
        said.stderr.contains("node.yaml:") || said.stdout.contains("node.yaml:"),
        "{said:?}"
    );
}

#[test]
fn a_listener_whose_port_is_taken_changes_nothing() {
    let node = Node::start("alice", FIRST);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let second = FIRST.replace("body: one", "body: two").replace(
        "listeners: {",
        &format!(
            "listeners: {{ side: {{ http: \"{}\" }},",
            taken.local_addr().unwrap()
        ),
    );
    let (status, answer) = node.reload(&second);
    assert_eq!(status, 409, "the file is valid: {answer}");
    assert!(answer.to_string().contains("listeners.side"), "{answer}");
    assert_eq!(version(&node, "web"), "one");
    let said = run(&["reload", "--admin", node.socket().to_str().unwrap()]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(
        said.stderr.contains("the file is valid, but") && said.stdout.contains("listeners.side"),
        "{said:?}"
    );
    drop(taken);
    assert_eq!(
        node.reload(&second).0,
        200,
        "the same file is taken a moment later"
    );
}

#[test]
fn tunnels_transfers_and_sessions_survive_a_reload() {
    let first = format!("{}\n", FIRST.trim_end());
    let (tcp, http, udp) = (
        origins::tcp_echo(),
        origins::http(),
        origins::udp_echo(origins::V4),
    );
    let first = first.replace(
        "listeners: {",
        &format!(
            "listeners: {{ rtp: {{ udp: 127.0.0.1:0, target: \"{}\" }},",
            udp.address()
        ),
    );
    let node = Node::start("alice", &first);
    let mut tunnel = Raw::tunnel(node.address("web"), &tcp.address().to_string(), "").unwrap();
    let mut transfer = Raw::connect(node.address("web"));
    let authority = http.address();
    transfer.send(format!(
        "GET http://{authority}/slow HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    assert_eq!(transfer.head().status(), 200);
    assert_eq!(transfer.exactly(11), b"6\r\nfirst\n\r\n");
    let session = Client::connect(node.address("rtp"));
    assert_eq!(session.ask("one"), b"one");
    let ids = |node: &Node| {
        let mut ids: Vec<_> = node
            .exchanges()
            .into_iter()
            .map(|exchange| exchange["id"].to_string())
            .collect();
        ids.sort();
        ids
    };
    let before = ids(&node);
    assert_eq!(before.len(), 3);

    assert_eq!(node.reload("routes: [").0, 422);
    assert_eq!(node.reload(&first.replace("body: one", "body: two")).0, 200);

    assert_eq!(version(&node, "web"), "two");
    tunnel.send("still here");
    assert_eq!(tunnel.exactly(10), b"still here");
    session.send("two");
    assert_eq!(session.receive(), b"two");
    // The request that asked for the version may be listed a moment longer.
    eventually_true("the three are left", || ids(&node) == before);
    http.release();
    assert_eq!(transfer.exactly(15), b"5\r\nlast\n\r\n0\r\n\r\n");
    tunnel.finish();
    assert_eq!(tunnel.rest(), (Vec::new(), End::Closed));
    assert_eq!(
        udp.seen()
            .iter()
            .map(|(source, _)| source)
            .collect::<std::collections::HashSet<_>>()
            .len(),
        1
    );
}

#[test]
fn a_stopping_node_lets_exchanges_end_and_takes_no_new_ones() {
    let (mut node, origin) = (Node::start("alice", FIRST), origins::http());
    let (authority, web) = (origin.address(), node.address("web"));
    let mut transfer = Raw::connect(web);
    transfer.send(format!(
        "GET http://{authority}/slow HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    assert_eq!(transfer.head().status(), 200);
    assert_eq!(transfer.exactly(11), b"6\r\nfirst\n\r\n");
    node.signal(Signal::TERM);
    eventually_true("nothing new is accepted", || {
        std::net::TcpStream::connect(web).is_err()
    });
    assert_eq!(node.status()["draining"], true);
    origin.release();
    assert_eq!(transfer.exactly(15), b"5\r\nlast\n\r\n0\r\n\r\n");
    let ended = node.wait();
    assert!(ended.success(), "{ended}: {}", node.log());
    assert!(!node.socket().exists(), "its admin socket is removed");
    assert!(
        node.access()
            .iter()
            .any(|record| record["reason"] == "done")
    );
}

#[test]
fn an_idle_node_stops_at_once() {
    let mut node = Node::start("alice", FIRST);
    let idle = Raw::connect(node.address("web"));
    assert!(node.stop().success());
    drop(idle);
}

#[test]
fn no_request_fails_while_the_file_changes() {
    let (node, origin) = (Node::start("alice", FIRST), origins::http());
    let (web, authority) = (node.address("web"), origin.address());
    let ended = std::sync::atomic::AtomicBool::new(false);
    let served = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let ended = &ended;
                scope.spawn(move || {
                    let mut kept = Raw::connect(web);
                    let mut served = 0;
                    while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                        let mut fresh = Raw::connect(web);
                        for raw in [&mut kept, &mut fresh] {
                            raw.send(format!("GET http://{authority}/{client} HTTP/1.1\r\nHost: {authority}\r\n\r\n"));
                            assert_eq!(raw.response().0.status(), 200);
                            served += 1;
                        }
                    }
                    served
                })
            })
            .collect();
        for round in 0..20 {
            let side = if round % 2 == 0 {
                "listeners: { side: { http: 127.0.0.1:0 },"
            } else {
                "listeners: {"
            };
            let (status, answer) = node.reload(&FIRST.replace("listeners: {", side));
            assert_eq!(status, 200, "{answer}");
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum::<usize>()
    });
    assert_eq!(origin.seen().len(), served);
    assert_eq!(node.status()["config"]["revision"], 21);
}

#[test]
fn a_kept_connection_follows_the_new_routes() {
    let node = Node::start("alice", FIRST);
    let mut raw = Raw::connect(node.address("web"));
    let mut ask = || {
        raw.send("GET http://a/version HTTP/1.1\r\nHost: a\r\n\r\n");
        String::from_utf8(raw.response().1).unwrap()
    };
    assert_eq!(ask(), "one");
    assert_eq!(node.reload(&FIRST.replace("body: one", "body: two")).0, 200);
    assert_eq!(ask(), "two");
}

#[test]
fn a_listener_that_asks_for_more_after_a_reload_asks_on_kept_connections_too() {
    let node = Node::start("alice", FIRST);
    let mut raw = Raw::connect(node.address("web"));
    let mut ask = || {
        raw.send("GET http://a/version HTTP/1.1\r\nHost: a\r\n\r\n");
        raw.response().0.status()
    };
    assert_eq!(ask(), 200);
    fs::write(
        node.folder().join("users"),
        "alice:$2b$04$abcdefghijklmnopqrstuuJ9VnqyNcIn1T9mTHh2wLCgYIm7Bmn1W\n",
    )
    .unwrap();
    let (status, answer) = node.reload(&FIRST.replace(
        "127.0.0.1:0 }",
        "127.0.0.1:0, auth: { basic: { file: users } } }",
    ));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(ask(), 407);
}

/// A command of the program that may not make devices.
fn without_rights() -> Command {
    if !rustix::process::geteuid().is_root() {
        return program::command();
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"])
        .arg(program::path());
    command
}

#[test]
fn a_node_without_its_device_serves_and_is_not_ready() {
    let yaml = "listeners: { web: { http: 127.0.0.1:0 }, vpn: { tun: { name: hermes0, routes: [10.7.0.0/24] } } }\n\
                routes: [ { match: { listener: web }, respond: { status: 204 } }, { to: next } ]\n\
                upstreams: { next: { endpoints: [\"127.0.0.1:1\"], http: 2 } }\n";
    let node = Node::start_by(without_rights(), "edge", yaml);
    assert_eq!(curl(&["-x", &node.url("web"), "http://a/"]).status, 204);
    eventually_true("the device is missing", || {
        let (status, said) = node.ask("GET", "/readyz", "");
        status == 503 && said.contains("hermes0") && said.contains("\"ready\":false")
    });
    assert_eq!(node.ask("GET", "/healthz", "").0, 200);
    eventually_true("the log says so", || {
        node.log().contains("node edge serves but is not ready")
    });
    assert!(!node.log().contains("node edge is ready"), "{}", node.log());

    let (status, said) = Node::forward_proxy().ask("GET", "/readyz", "");
    assert_eq!((status, said.trim()), (200, "{\"ready\":true}"));
}

#[test]
fn refusals_say_who_was_refused_and_why() {
    let node = Node::start(
        "edge",
        r#"
        listeners: { alices: { http: 127.0.0.1:0, user: alice }, bobs: { http: 127.0.0.1:0, user: bob } }
        policy: { default: deny, rules: [ { match: { target: open.example }, allow: true } ] }
        routes: [ { match: { target: open.example }, respond: { status: 204 } } ]
        "#,
    );
    let ask = |listener: &str, host: &str| {
        curl(&["-x", &node.url(listener), &format!("http://{host}/")]).status
    };
    assert_eq!(ask("alices", "open.example"), 204);
    assert_eq!(ask("alices", "one.example"), 403);
    assert_eq!(ask("bobs", "two.example"), 403);

    let socket = node.socket().display().to_string();
    let said = run(&["refusals", "--admin", &socket, "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let list: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let list = list["refusals"].as_array().unwrap();
    let users: Vec<_> = list
        .iter()
        .map(|one| one["user"].as_str().unwrap())
        .collect();
    assert_eq!(users, ["bob", "alice"], "the latest first: {list:?}");
    assert!(
        list[0]["target"].as_str().unwrap().contains("two.example"),
        "{list:?}"
    );
    assert_eq!(list[0]["status"], 403);

    // Its name leads to what was compared.
    let name = list[0]["refusal"].as_str().unwrap();
    let why = run(&["why", name, "--admin", &socket]);
    assert!(why.stdout.contains("two.example"), "{why:?}");

    let bobs = run(&["refusals", "--admin", &socket, "--user", "bob"]);
    assert!(
        bobs.stdout.contains("two.example") && !bobs.stdout.contains("one.example"),
        "{bobs:?}"
    );
    let none = run(&["refusals", "--admin", &socket, "--user", "eve"]);
    assert_eq!(none.stdout.trim(), "no refusal is remembered");
}

#[test]
fn records_say_no_round_trip_where_the_target_itself_was_dialled() {
    let origin = origins::http();
    let node = Node::forward_proxy();
    let url = format!("http://{}/", origin.address());
    assert_eq!(curl(&["-x", &node.url("web"), &url]).status, 200);
    let record = node.record(|record| record["status"] == 200);
    assert_eq!(record.get("round_trip_ms"), None, "{record}");
}

#[test]
fn status_and_records_say_the_round_trip_to_each_endpoint_over_each_version() {
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let next = Node::start(
        "next",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true, tls: {{ {tls} }} }} }}\nroutes: [ {{ respond: {{ status: 204 }} }} ]\n"
        ),
    );
    for version in [1, 2, 3] {
        let yaml = format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ terminate: next }} ]\n\
             upstreams: {{ next: {{ endpoints: [\"{}\"], http: {version}, tls: {{ ca_file: {} }} }} }}\n",
            next.address("web"),
            pki.ca().display()
        );
        let node = Node::start("edge", &yaml);
        let round_trip = || node.status()["upstreams"][0]["endpoints"][0]["round_trip_ms"].as_f64();
        assert_eq!(round_trip(), None, "HTTP/{version}: nothing was connected");
        assert_eq!(curl(&["-x", &node.url("web"), "http://a/"]).status, 204);
        let record = node.record(|record| record["status"] == 204);
        for measured in [round_trip(), record["round_trip_ms"].as_f64()] {
            assert!(
                measured.is_some_and(|time| time > 0.0 && time < 10_000.0),
                "HTTP/{version}: {measured:?} ms"
            );
        }
    }
}
