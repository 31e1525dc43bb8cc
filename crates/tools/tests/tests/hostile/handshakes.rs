//! Handshakes that are refused leave a line with the reason, not too many lines, and a count. Certificates that end are spoken of.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, SystemTime};

use hermes_tests::eventually::{PATIENCE, eventually, eventually_true};
use hermes_tests::pki::Issued;
use hermes_tests::{Node, Pki, Secured, curl, program};
use rustls::version::TLS13;
use serde_json::Value;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Handshakes that are refused in a row: more than a node remembers.
const FLOOD: usize = 600;

/// A node that asks for certificates, and logs as nodes do whose operator said nothing about it.
fn asking(pki: &Pki, server: &Issued, level: &str) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, auth: mtls, tls: {{ {}, client_ca_file: {} }} }} }}\n\
         routes: [ {{ match: {{ target: site }}, respond: {{ status: 200 }} }} ]\nlog: {{ level: {level}, access: {{ file: access.json }} }}\n",
        server.yaml(),
        pki.ca().display()
    );
    Node::start("edge", &yaml)
}

/// What the node says of the refusal whose name stands in a line of its log.
fn explained(node: &Node, line: &str) -> Value {
    let (_, name) = line.split_once("refusal=").expect(line);
    let name = name.split_whitespace().next().unwrap();
    let (status, answer) = node.ask("GET", &format!("/why/{name}"), "");
    assert_eq!(status, 200, "{line}: {answer}");
    serde_json::from_str(&answer).unwrap()
}

/// Waits for a refused handshake of this kind: in the log and in the metrics. By its name the node tells of it.
fn told(node: &Node, over: &str, reason: &str) {
    let series = format!("hermes_handshakes_refused_total{{listener=\"web\",reason=\"{reason}\"}}");
    let line = eventually(&format!("a line about {reason} over {over}"), || {
        let log = node.log();
        let line = |line: &&str| {
            line.contains("handshake refused: ") && line.contains(&format!("reason=\"{reason}\""))
        };
        let line = log
            .lines()
            .find(|text| line(text) && text.contains(&format!("over=\"{over}\"")))
            .map(str::to_owned);
        line.filter(|line| {
            line.contains("INFO")
                && line.contains("listener=\"web\"")
                && line.contains("peer=127.0.0.1:")
        })
    });

    let account = explained(node, &line);
    let question = if over == "quic" {
        "a QUIC handshake"
    } else {
        "a TLS handshake"
    };
    assert_eq!(account["question"], question, "{account}");
    let step = &account["steps"][0];
    assert!(step["place"].is_string(), "{account}");
    assert!(
        step["said"].as_str().unwrap().starts_with(reason),
        "{account}"
    );
    let source = account["happened"]["source"].as_str().unwrap();
    assert!(
        line.contains(&format!("peer={source}")),
        "{line}: {account}"
    );
    assert!(node.metrics().contains(&series), "{}", node.metrics());
}

#[test]
fn refused_handshakes_say_who_and_why() {
    let (pki, other) = (Pki::new(), Pki::new());
    let node = asking(&pki, &pki.issue(&["127.0.0.1"]), "info");
    let now = SystemTime::now();
    let expired = pki.issue_for(&["late.overlay"], now - 2 * DAY, now - DAY);
    let early = pki.issue_for(&["early.overlay"], now + DAY, now + 2 * DAY);
    let foreign = other.issue(&["foreign.overlay"]);
    let cases = [
        (None, "no_certificate"),
        (Some(&expired), "expired"),
        (Some(&early), "not_yet_valid"),
        (Some(&foreign), "unknown_authority"),
    ];
    for (own, reason) in cases {
        let refused = Secured::connect(node.address("web"), &pki.client(own, &[&TLS13]))
            .ask("GET http://site/", "");
        assert!(refused.is_err(), "{reason}");
        told(&node, "tcp", reason);
    }
    // Clear text.
    let mut clear = TcpStream::connect(node.address("web")).unwrap();
    clear.set_read_timeout(Some(PATIENCE)).unwrap();
    clear
        .write_all(b"GET / HTTP/1.1\r\nhost: site\r\n\r\n")
        .unwrap();
    drop(clear.read(&mut [0; 64]));
    told(&node, "tcp", "not_tls");
    // A client that does not believe the node.
    let stranger = other.client(Some(&pki.issue(&["alice.overlay"])), &[&TLS13]);
    assert!(
        Secured::connect(node.address("web"), &stranger)
            .ask("GET http://site/", "")
            .is_err()
    );
    told(&node, "tcp", "refused_by_peer");
    // The same over QUIC, from another node.
    for (own, reason) in [
        (None, "no_certificate"),
        (Some(&expired), "expired"),
        (Some(&foreign), "unknown_authority"),
    ] {
        let own = own.map_or_else(String::new, |own: &Issued| format!(", {}", own.yaml()));
        let yaml = format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: edge }} ]\nupstreams: {{ edge: {{ \
             endpoints: [\"{}\"], http: 3, tls: {{ ca_file: {}{own} }} }} }}\n",
            node.address("web"),
            pki.ca().display()
        );
        let dependent = Node::start("dp", &yaml);
        assert_eq!(
            curl(&["-x", &dependent.url("web"), "http://site/"]).status,
            502,
            "{reason}"
        );
        told(&node, "quic", reason);
    }
}

#[test]
fn a_flood_of_them_is_a_few_lines_and_counted() {
    let pki = Pki::new();
    let node = asking(&pki, &pki.issue(&["127.0.0.1"]), "info");
    let config = pki.client(None, &[&TLS13]);

    // Someone whom the node knows asks for what it does not have.
    let alice = pki.client(Some(&pki.issue(&["alice.overlay"])), &[&TLS13]);
    let answer = Secured::connect(node.address("web"), &alice)
        .ask("GET http://elsewhere/", "")
        .unwrap();
    assert_eq!(answer.status(), 404);
    let refused = node.record(|record| record["status"] == 404);

    for _ in 0..FLOOD {
        assert!(
            Secured::connect(node.address("web"), &config)
                .ask("GET http://site/", "")
                .is_err()
        );
    }
    let series = format!(
        "hermes_handshakes_refused_total{{listener=\"web\",reason=\"no_certificate\"}} {FLOOD}\n"
    );
    eventually_true("all are counted", || node.metrics().contains(&series));
    let lines = node
        .log()
        .lines()
        .filter(|line| line.contains("handshake refused"))
        .count();
    // Ten in ten seconds.
    assert!((1..=FLOOD / 4).contains(&lines), "{lines}");

    // None of them has pushed out what befell someone else.
    let name = refused["refusal"].as_str().unwrap();
    assert_eq!(node.ask("GET", &format!("/why/{name}"), "").0, 200);
}

/// What `hermes check` says of a listener with this certificate.
fn checked(pki: &Pki, own: &Issued, more: &str) -> (bool, String) {
    let file = pki.folder().join("checked.yaml");
    let yaml = format!(
        "version: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {}{more} }} }} }}\n\
         routes: [ {{ respond: {{ status: 200 }} }} ]\n",
        own.yaml()
    );
    std::fs::write(&file, yaml).unwrap();
    let output = Command::new(program::path())
        .arg("check")
        .arg(&file)
        .output()
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.success(), text)
}

#[test]
fn certificates_that_end_are_spoken_of_by_check_run_status_and_metrics() {
    let (pki, now) = (Pki::new(), SystemTime::now());
    let good = pki.issue_for(&["good.overlay"], now - DAY, now + 90 * DAY);
    let soon = pki.issue_for(&["soon.overlay"], now - 80 * DAY, now + 10 * DAY + DAY / 2);
    let expired = pki.issue_for(&["late.overlay"], now - 2 * DAY, now - DAY);
    let early = pki.issue_for(&["early.overlay"], now + DAY, now + 60 * DAY);
    let cases = [
        (&soon, "ends on ", "ends in 10 days"),
        (&expired, "has expired on ", "expired"),
        (&early, "is not valid before ", "not yet valid"),
    ];
    assert_eq!(checked(&pki, &good, "").1.matches("warning").count(), 0);
    for (own, words, state) in cases {
        let (valid, text) = checked(&pki, own, "");
        assert!(
            valid && text.contains("warning: ") && text.contains(words),
            "{text}"
        );
        assert!(
            text.contains("listeners.web.tls.cert_file") && text.contains(", 1 warning"),
            "{text}"
        );
        let node = asking(&pki, own, "info");
        assert!(node.log().contains(words), "{}", node.log());
        let status = node.status();
        let certificates = status["certificates"].as_array().unwrap();
        let of_listener = certificates
            .iter()
            .find(|one| one["key"] == "listeners.web.tls.cert_file")
            .unwrap();
        assert_eq!(of_listener["state"], state, "{status:#}");
        let metrics = node.metrics();
        let series =
            "hermes_certificate_seconds_left{key=\"listeners.web.tls.cert_file\",number=\"0\"} ";
        let left = metrics
            .lines()
            .find_map(|line| line.strip_prefix(series)?.parse::<i64>().ok())
            .unwrap();
        assert_eq!(left < 0, words.contains("expired"), "{left}");
    }
    // A list that was not renewed in time.
    let list = pki.revoke(&[], now - DAY);
    let more = format!(
        ", client_ca_file: {}, crl_file: {}",
        pki.ca().display(),
        list.display()
    );
    let (valid, text) = checked(&pki, &good, &more);
    assert!(
        valid && text.contains("tls.crl_file") && text.contains("was to be renewed by"),
        "{text}"
    );
}

#[test]
fn a_certificate_of_version_1_is_named_in_words() {
    let pki = Pki::new();
    let issued = pki.issue(&["old.overlay"]);
    // openssl makes version 1 where it is given no extensions.
    let folder = pki.folder().to_owned();
    let run = |arguments: &[&str]| {
        let done = Command::new("openssl")
            .args(arguments)
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    std::fs::write(
        folder.join("empty.cnf"),
        "[req]\ndistinguished_name = dn\n[dn]\n",
    )
    .unwrap();
    let key = issued.key.to_str().unwrap();
    run(&[
        "req",
        "-new",
        "-key",
        key,
        "-subj",
        "/CN=old",
        "-config",
        "empty.cnf",
        "-out",
        "old.csr",
    ]);
    run(&[
        "x509",
        "-req",
        "-in",
        "old.csr",
        "-signkey",
        key,
        "-days",
        "30",
        "-out",
        issued.cert.to_str().unwrap(),
    ]);
    let (valid, text) = checked(&pki, &issued, "");
    assert!(
        !valid && text.contains("certificate 1 is X.509 version 1"),
        "{text}"
    );
}
