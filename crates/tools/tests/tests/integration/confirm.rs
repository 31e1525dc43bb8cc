//! The document in force: shown, compared, confirmed, returned from.

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::node::dedent;
use hermes_tests::origins::tcp_echo;
use hermes_tests::program::{self, Said, run};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, free};
use rustix::process::Signal;
use serde_json::Value;

/// A node that answers with a word, and tunnels to whatever is on this machine.
fn says(word: &str) -> String {
    format!(
        r#"
    listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
    routes:
      - match: {{ path: "/word" }}
        respond: {{ status: 200, body: {word} }}
      - {{ name: tunnels, terminate: true }}
    egress: {{ allow: [127.0.0.0/8] }}
"#
    )
}

fn ask(node: &Node, arguments: &[&str]) -> Said {
    let socket = node.socket();
    let admin = ["--admin", socket.to_str().unwrap()];
    run(&[arguments, &admin].concat())
}

fn word(node: &Node) -> String {
    curl(&[&format!("{}/word", node.url("web"))]).text()
}

fn unconfirmed(node: &Node) -> Option<Value> {
    node.status().get("unconfirmed").cloned()
}

/// Puts another word in the file and reloads it under the condition.
fn reload(node: &Node, word: &str, time: &str) -> Said {
    node.write(&says(word));
    ask(node, &["reload", "--confirm", time])
}

fn returned(node: &Node) -> bool {
    node.metrics()
        .contains("hermes_reloads_total{outcome=\"returned\"} 1")
}

fn state(node: &Node) -> PathBuf {
    node.folder().join("state/edge.confirmed.yaml")
}

#[test]
fn a_configuration_that_is_not_confirmed_in_time_is_returned_from() {
    let node = Node::start("edge", &says("old"));
    let echo = tcp_echo();
    let authority = echo.address().to_string();
    let mut tunnel = Raw::tunnel(node.address("web"), &authority, "").unwrap();

    let said = reload(&node, "new", "1h");
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.stdout
            .contains("\nunconfirmed: 3600 s left, then back to revision 1"),
        "{said:?}"
    );
    assert_eq!(word(&node), "new");
    let status = ask(&node, &["status"]).stdout;
    assert!(
        status.contains("unconfirmed ") && status.contains("then back to revision 1"),
        "{status}"
    );

    // Another one while it waits: under a condition of its own, and what was confirmed last is what it returns to.
    let said = reload(&node, "newer", "1s");
    assert!(said.stdout.contains("then back to revision 1"), "{said:?}");
    eventually_true("the node has returned", || returned(&node));
    assert_eq!(word(&node), "old");
    assert_eq!(unconfirmed(&node), None);
    assert_eq!(node.status()["config"]["revision"], 4);
    let log = node.log();
    assert!(
        log.contains("revision 3 was not confirmed within 1 s"),
        "{log}"
    );
    assert!(
        log.contains("back from revision 3 to the document of revision 1, as revision 4"),
        "{log}"
    );
    assert_eq!(tunnel.exchange(b"still open").unwrap(), b"still open");

    assert_eq!(node.status()["given_up"]["revision"], 3);
    let status = ask(&node, &["status"]).stdout;
    assert!(
        status.contains("\ngiven up          revision 3; "),
        "{status}"
    );
    let late = ask(&node, &["confirm"]);
    assert_eq!(late.code, 1, "{late:?}");
    assert!(
        late.stderr.contains("too late: revision 3 was given up"),
        "{late:?}"
    );

    // Moving logs away was not meant to put it in force again; the administrator does.
    node.signal(Signal::HUP);
    eventually_true("the signal is answered", || {
        node.log()
            .contains("the file still has the configuration that was given up with revision 3")
    });
    assert_eq!(word(&node), "old");
    assert_eq!(ask(&node, &["reload"]).code, 0);
    assert_eq!(word(&node), "newer");
    assert_eq!(unconfirmed(&node), None);
}

#[test]
fn a_confirmed_configuration_stays() {
    let node = Node::start("edge", &says("old"));
    reload(&node, "new", "60s");
    assert!(state(&node).is_file());
    let said = ask(&node, &["confirm"]);
    assert_eq!(
        (said.code, said.stdout.as_str()),
        (0, "revision 2 is confirmed\n")
    );
    let again = ask(&node, &["confirm"]);
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (0, "nothing to confirm: revision 2 stays\n")
    );
    assert_eq!(word(&node), "new");
    assert!(
        !state(&node).exists(),
        "nothing is kept that no start needs"
    );
    let metrics = node.metrics();
    assert!(
        metrics.contains("hermes_reloads_total{outcome=\"confirmed\"} 1"),
        "{metrics}"
    );
}

#[test]
fn a_plain_reload_leaves_the_condition_as_it_is_and_the_old_file_ends_it() {
    let node = Node::start("edge", &says("old"));
    reload(&node, "new", "60s");
    let (status, report) = node.reload(&says("newer"));
    assert_eq!(status, 200);
    assert_eq!(report["unconfirmed"]["returns_to"], 1, "{report}");
    let said = reload(&node, "old", "60s");
    assert!(
        said.stdout
            .ends_with("nothing to confirm: the file has the confirmed configuration\n"),
        "{said:?}"
    );
    assert_eq!(unconfirmed(&node), None);
    assert!(!state(&node).exists());
}

#[test]
fn a_refused_file_changes_nothing_of_the_condition() {
    let node = Node::start("edge", &says("old"));
    reload(&node, "new", "60s");
    let (status, _) = node.reload("routes: [{ to: nowhere }]");
    assert_eq!(status, 422);
    assert_eq!(unconfirmed(&node).unwrap()["returns_to"], 1);
    assert_eq!(word(&node), "new");
}

#[test]
fn rollback_returns_at_once_and_only_once() {
    let node = Node::start("edge", &says("old"));
    let none = ask(&node, &["rollback"]);
    assert_eq!(none.code, 1, "{none:?}");
    assert_eq!(none.stderr, "hermes: there is no earlier configuration\n");

    let listener = node.address("web");
    node.reload(&says("new"));
    let said = ask(&node, &["rollback"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.stdout.starts_with("rolled back\n  revision: 3\n"),
        "{said:?}"
    );
    assert!(
        said.stdout
            .ends_with("mend it before the next reload or restart\n"),
        "{said:?}"
    );
    assert_eq!(word(&node), "old");
    assert_eq!(node.address("web"), listener, "the sockets stay");
    assert_eq!(ask(&node, &["rollback"]).code, 1);

    reload(&node, "newer", "60s");
    assert_eq!(ask(&node, &["rollback"]).code, 0);
    assert_eq!(word(&node), "old");
    assert_eq!(unconfirmed(&node), None);
}

#[test]
fn a_restart_in_between_does_not_confirm() {
    let mut node = Node::start("edge", &says("old"));
    reload(&node, "new", "60s");
    node.kill();
    node.restart();
    assert_eq!(word(&node), "new");
    assert_eq!(unconfirmed(&node).unwrap()["returns_to"], 1);
    assert_eq!(ask(&node, &["rollback"]).code, 0);
    assert_eq!(word(&node), "old");

    // The file was not mended: it is tried again.
    node.kill();
    node.restart();
    assert_eq!(word(&node), "new");
    assert_eq!(ask(&node, &["confirm"]).code, 0);
    node.kill();
    node.restart();
    assert_eq!(unconfirmed(&node), None);
}

#[test]
fn a_start_under_a_condition_stops_where_there_is_nothing_to_return_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edge.yaml");
    let rest = "version: 1\nadmin: { socket: admin.sock }\n";
    std::fs::write(&file, format!("{rest}{}", dedent(&says("first")))).unwrap();
    let ended = program::command()
        .args(["run", file.to_str().unwrap(), "--confirm", "1s"])
        .env("STATE_DIRECTORY", folder.path().join("state"))
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{log}");
    assert!(log.contains("node edge is ready"), "{log}");
    assert!(
        log.contains("was not confirmed in time, and there is no earlier one to return to"),
        "{log}"
    );
}

#[test]
fn a_start_under_a_condition_returns_to_what_was_confirmed_before() {
    let mut node = Node::start_with("edge", &says("first"), &["--confirm", "60s"]);
    assert_eq!(unconfirmed(&node).unwrap()["returns_to"], Value::Null);
    assert_eq!(ask(&node, &["confirm"]).code, 0);
    node.stop();

    node.restart_with(&["--confirm", "60s"]);
    assert_eq!(unconfirmed(&node), None, "this file was confirmed");
    node.stop();

    node.write(&says("second"));
    node.restart_with(&["--confirm", "1s"]);
    eventually_true("the node has returned", || returned(&node));
    assert_eq!(word(&node), "first");
    node.reload(&says("third"));
    node.stop();

    node.restart_with(&["--confirm", "60s"]);
    assert_eq!(word(&node), "third");
    assert_eq!(
        unconfirmed(&node),
        None,
        "a plain reload confirms what it reads"
    );
}

#[test]
fn a_return_that_fails_is_tried_until_it_works() {
    let port = free::tcp();
    let on = |word: &str, address: &str| says(word).replace("127.0.0.1:0", address);
    let node = Node::start("edge", &on("old", &port.to_string()));
    node.write(&on("new", "127.0.0.1:0"));
    assert_eq!(ask(&node, &["reload", "--confirm", "60s"]).code, 0);
    let taken = eventually("the port is free", || TcpListener::bind(port).ok());
    assert_eq!(reload(&node, "newer", "1s").code, 0);

    let warning = eventually("the return fails", || {
        let warning = unconfirmed(&node)?["warning"].as_str()?.to_owned();
        Some(warning).filter(|warning| warning.contains("the node cannot return"))
    });
    assert!(
        warning.contains("listeners.web: cannot be bound"),
        "{warning}"
    );
    assert_eq!(word(&node), "newer");
    drop(taken);
    eventually_true("the node has returned", || returned(&node));
    assert_eq!(node.address("web"), port);
    assert_eq!(word(&node), "old");
}

#[test]
fn a_time_without_a_unit_or_sense_is_refused() {
    for time in ["60", "0s", "2d"] {
        let said = run(&["reload", "--confirm", time]);
        assert_eq!(said.code, 2, "{said:?}");
    }
}

#[test]
fn the_document_in_force_is_shown_without_its_secrets() {
    let yaml = r#"
    listeners:
      web: { http: 127.0.0.1:0, set: { authorization: "Bearer hunter2", x-region: "${REGION}" } }
    routes: [{ terminate: true }]
"#;
    let node = Node::start_in(
        tempfile::tempdir().unwrap(),
        "edge",
        yaml,
        &[("REGION", "north")],
    );
    let said = ask(&node, &["config"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.stdout.starts_with("# node edge, revision 1, of "),
        "{said:?}"
    );
    assert!(said.stdout.contains("x-region: \"${REGION}\""), "{said:?}");
    let json = ask(&node, &["config", "--json"]).stdout;
    assert_eq!(
        serde_json::from_str::<Value>(&json).unwrap()["node"],
        "edge"
    );
    for text in [&said.stdout, &json] {
        assert!(
            !text.contains("hunter2") && !text.contains("north"),
            "{text}"
        );
    }

    // What is shown is a file, but for the secret.
    let shown = node.folder().join("shown.yaml");
    std::fs::write(&shown, &said.stdout).unwrap();
    let checked = program::command()
        .args(["check", shown.to_str().unwrap()])
        .env("REGION", "north")
        .output()
        .unwrap();
    let said = [checked.stdout, checked.stderr].concat();
    let problems = String::from_utf8_lossy(&said);
    assert!(
        problems.contains("here was a secret, which is not shown"),
        "{problems}"
    );
    assert!(problems.contains("1 problem"), "{problems}");
}

#[test]
fn a_file_is_compared_with_the_document_in_force() {
    let node = Node::start("edge", &says("old"));
    let same = ask(&node, &["diff"]);
    assert_eq!(
        (same.code, same.stdout.as_str()),
        (0, "no difference\n"),
        "{same:?}"
    );

    let file = node.file();
    let file = file.to_str().unwrap();
    let new = says("new").replace(
        "    routes:\n",
        "    routes:\n      - { match: { target: a }, terminate: true }\n",
    );
    let new = new.replace(
        "web: {",
        "db: { tcp: 127.0.0.1:0, target: \"db:1\" }, web: {",
    );
    node.write(&new);
    let said = ask(&node, &["diff", file]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(
        said.stdout,
        "+ listeners.db: { tcp: 127.0.0.1:0, target: db:1 }\n\
         + routes[0]: { match: { target: a }, terminate: true }\n\
         ~ routes[1].respond.body: old -> new\n\
         a reload would open db\n"
    );
    let json = ask(&node, &["diff", file, "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["same"], false);
    assert_eq!(json["changes"][2]["old"], "old");
    assert_eq!(
        json["reload"]["listeners"]["kept"],
        serde_json::json!(["web"])
    );
    assert_eq!(word(&node), "old", "nothing has changed");

    let socket = node.socket();
    let mut piped = program::command()
        .args(["diff", "-", "--admin", socket.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let shown = ask(&node, &["config"]).stdout;
    piped
        .stdin
        .take()
        .unwrap()
        .write_all(shown.as_bytes())
        .unwrap();
    let said = piped.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "no difference\n");

    node.write("routes: [{ to: nowhere }]");
    let said = ask(&node, &["diff"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(
        said.stderr.contains("node.yaml:1:16: routes[0].to: "),
        "{said:?}"
    );
    let absent = ask(&node, &["diff", "/absent.yaml"]);
    assert_eq!(absent.code, 2, "{absent:?}");
    let absent = run(&["diff", file, "--admin", "/absent.sock"]);
    assert_eq!(absent.code, 3, "{absent:?}");
}

#[test]
fn a_node_that_watches_its_file_does_not_take_up_what_it_gave_up() {
    let watching = |word: &str| format!("{}    watch: true\n", says(word));
    let node = Node::start("edge", &watching("old"));
    node.write(&watching("new"));
    let report = eventually("the file is read again", || {
        (word(&node) == "new").then(|| ask(&node, &["reload", "--confirm", "1s"]))
    });
    assert_eq!(report.code, 0, "{report:?}");
    assert_eq!(unconfirmed(&node), None, "the watch had confirmed it");
    assert_eq!(ask(&node, &["rollback"]).code, 0);
    node.signal(Signal::HUP);
    eventually_true("the signal is answered", || {
        node.log()
            .contains("the file still has the configuration that was given up")
    });
    assert_eq!(word(&node), "old");
}
