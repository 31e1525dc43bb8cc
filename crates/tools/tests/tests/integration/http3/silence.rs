//! UDP that becomes blocked while HTTP/3 carries something.

use std::process::{Command, Stdio};
use std::thread;

use hermes_tests::raw::{End, Raw};
use hermes_tests::{Gate, Node, Pki, curl, eventually, origins};
use rustix::process::Signal;

use crate::http3::overlay::{end, upstream};

/// An end, the way to it, and an entry that has reached it over HTTP/3.
struct Row {
    end: Node,
    gate: Gate,
    entry: Node,
}

impl Row {
    fn start(http: &str) -> Self {
        let pki = Pki::new();
        let end = Node::start("end", &end(&pki.issue(&["127.0.0.1"]).yaml()));
        let (gate, origin) = (Gate::to(end.address("web")), origins::http());
        let yaml = format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ to: next }} ]
            upstreams: {{ next: {} }}
            workers: 1
            "#,
            upstream(&pki, gate.address(), http)
        );
        // On a machine that is busy with other things, the handshake may take longer than its head start.
        let entry = eventually("a node that speaks HTTP/3", || {
            let entry = Node::start("entry", &yaml);
            let got = curl(&[
                "-x",
                &entry.url("web"),
                &format!("http://{}/", origin.address()),
            ]);
            assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
            (http3(&entry) == "works").then_some(entry)
        });
        Self { end, gate, entry }
    }

    /// Asks for a URL through the entry, beside the test.
    fn ask(&self, url: String) -> thread::JoinHandle<curl::Output> {
        let proxy = self.entry.url("web");
        thread::spawn(move || curl(&["-x", &proxy, &url]))
    }
}

/// What the entry says of HTTP/3 to its upstream.
fn http3(node: &Node) -> String {
    node.status()["upstreams"][0]["endpoints"][0]["http3"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn udp_that_becomes_blocked_is_noticed_and_what_it_carried_goes_on_or_says_why_not() {
    let row = Row::start("[3, 2, 1]");
    let (web, echo) = (origins::http(), origins::tcp_echo());
    let mut tunnel =
        Raw::tunnel(row.entry.address("web"), &echo.address().to_string(), "").unwrap();
    tunnel.send("before");
    assert_eq!(tunnel.exactly(6), b"before");
    let asked = row.ask(format!("http://{}/hang", web.address()));
    eventually("the origin has the request", || {
        (web.seen().len() == 1).then_some(())
    });

    row.gate.let_udp(false);
    let began = row.entry.access().len();
    // It was safe, and is asked again over TCP.
    eventually("the origin has it again", || {
        (web.seen().len() == 2).then_some(())
    });
    web.forget();
    let got = asked.join().unwrap();
    assert_eq!(
        (got.exit, got.status, got.text()),
        (0, 200, "released\n".to_owned())
    );
    assert_eq!(tunnel.rest().1, End::Reset);
    let record = row.entry.record(|record| record["kind"] == "connect");
    let reason = record["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("target_reset: ") && reason.contains("UDP became blocked"),
        "{reason}"
    );
    assert!(
        http3(&row.entry).contains("UDP became silent"),
        "{}",
        http3(&row.entry)
    );
    assert!(
        row.entry.log().contains("HTTP/3 is left out"),
        "{}",
        row.entry.log()
    );
    assert!(row.entry.access().len() > began);

    let got = curl(&[
        "-x",
        &row.entry.url("web"),
        &format!("http://{}/after", web.address()),
    ]);
    assert_eq!(got.status, 200);
    let after = row.end.record(|record| {
        record["target"]
            .as_str()
            .is_some_and(|target| target.ends_with("/after"))
    });
    assert_eq!(after["protocol"], "h2");
}

#[test]
fn udp_that_is_let_through_again_is_used_again_and_what_is_open_stays() {
    let row = Row::start("[3, 2]");
    let (web, echo) = (origins::http(), origins::tcp_echo());
    let asked = row.ask(format!("http://{}/hang", web.address()));
    eventually("the origin has the request", || {
        (web.seen().len() == 1).then_some(())
    });
    row.gate.let_udp(false);
    eventually("the origin has it again", || {
        (web.seen().len() == 2).then_some(())
    });
    row.gate.let_udp(true);
    let mut tunnel =
        Raw::tunnel(row.entry.address("web"), &echo.address().to_string(), "").unwrap();
    eventually("HTTP/3 is used again", || {
        row.entry
            .log()
            .contains("HTTP/3 is used again")
            .then_some(())
    });
    assert_eq!(http3(&row.entry), "works");
    let got = curl(&[
        "-x",
        &row.entry.url("web"),
        &format!("http://{}/after", web.address()),
    ]);
    assert_eq!(got.status, 200);
    let after = row.end.record(|record| {
        record["target"]
            .as_str()
            .is_some_and(|target| target.ends_with("/after"))
    });
    assert_eq!(after["protocol"], "h3");
    tunnel.send("still here");
    assert_eq!(tunnel.exactly(10), b"still here");
    web.forget();
    assert_eq!(asked.join().unwrap().status, 200);
}

#[test]
fn what_is_not_idempotent_is_not_asked_again() {
    let row = Row::start("[3, 2]");
    let web = origins::http();
    let (proxy, url) = (
        row.entry.url("web"),
        format!("http://{}/hang", web.address()),
    );
    let asked = thread::spawn(move || curl(&["-x", &proxy, "-d", "once", &url]));
    eventually("the origin has the request", || {
        (web.seen().len() == 1).then_some(())
    });
    row.gate.let_udp(false);
    let got = asked.join().unwrap();
    assert_eq!((got.exit, got.status), (0, 502), "{got:?}");
    let why = got.field("proxy-status").unwrap();
    assert!(
        why.contains("error=connection_terminated") && why.contains("UDP became blocked"),
        "{why}"
    );
    assert_eq!(web.seen().len(), 1);
}

#[test]
fn a_peer_that_stands_still_for_a_moment_loses_nothing() {
    let row = Row::start("[3, 2]");
    let echo = origins::tcp_echo();
    let mut tunnel =
        Raw::tunnel(row.entry.address("web"), &echo.address().to_string(), "").unwrap();
    tunnel.send("before");
    assert_eq!(tunnel.exactly(6), b"before");
    row.end.signal(Signal::STOP);
    tunnel.send("during");
    // Longer than it takes to be silent. TCP reaches the machine, but no one who speaks TLS.
    Command::new("sleep")
        .arg("3")
        .stdin(Stdio::null())
        .status()
        .unwrap();
    row.end.signal(Signal::CONT);
    assert_eq!(tunnel.exactly(6), b"during");
}
