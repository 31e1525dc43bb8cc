//! h2spec against an `http` listener: every case that it knows of RFC 9113 and RFC 7541, in clear and under TLS.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use hermes_tests::{Node, Pki, origins};

/// Cases that h2spec 2.2.1 has; fewer would mean that it stopped early.
const CASES: usize = 145;

/// Cases that fail for a reason: number, where it applies, the reason. docs/interop.md has them too.
const EXCEPTIONS: [(&str, bool, &str); 1] = [(
    "http2/3.5/2",
    false,
    "RFC 9113, 3.4 is for connections that speak HTTP/2. On a clear port HTTP/1.1 is spoken too, and bytes that are not the \
     preface are a malformed request of that: they are answered with 400, and the connection closes",
)];

/// Runs h2spec; the numbers of the cases that failed, as `http2/3.5/2`.
fn run(address: SocketAddr, tls: bool) -> BTreeSet<String> {
    let program = std::env::var_os("HERMES_H2SPEC").unwrap_or_else(|| "h2spec".into());
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.xml");
    let mut command = Command::new(&program);
    command.args([
        "-h",
        &address.ip().to_string(),
        "-p",
        &address.port().to_string(),
        "-P",
        "/",
        "-o",
        "2",
    ]);
    command
        .args(if tls { &["-t", "-k"][..] } else { &[] })
        .arg("-j")
        .arg(&report);
    let output = command.output().unwrap_or_else(|error| {
        panic!(
            "{}: {error}; run `./test install`, or set HERMES_H2SPEC",
            program.display()
        )
    });
    let xml = fs::read_to_string(&report).unwrap_or_default();
    let failed = failures(&xml);
    assert_eq!(
        failed.0,
        CASES,
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    if !failed.1.is_empty() {
        eprintln!("{}", String::from_utf8_lossy(&output.stdout));
    }
    failed.1
}

/// How many cases the report has, and which failed. It has one element a line; its cases are in order within a section.
fn failures(xml: &str) -> (usize, BTreeSet<String>) {
    let (mut count, mut failed, mut section, mut number) = (0, BTreeSet::new(), String::new(), 0);
    for element in xml.split('<') {
        if element.starts_with("testcase ") {
            let package = attribute(element, "package");
            number = if package == section { number + 1 } else { 1 };
            section = package;
            count += 1;
        } else if element.starts_with("failure")
            || element.starts_with("error")
            || element.starts_with("skipped")
        {
            failed.insert(format!("{section}/{number}"));
        }
    }
    (count, failed)
}

fn attribute(element: &str, name: &str) -> String {
    let start = format!(" {name}=\"");
    let rest = element.split_once(&start).map_or("", |(_, rest)| rest);
    rest.split('"').next().unwrap_or_default().to_owned()
}

fn expected(tls: bool) -> BTreeSet<String> {
    EXCEPTIONS
        .iter()
        .filter(|(_, at_tls, _)| *at_tls == tls)
        .map(|(number, ..)| (*number).to_owned())
        .collect()
}

/// A node whose origin answers when it has the whole request: an answer that overtakes the request's mistake would hide it.
fn check(tls: &str, is_tls: bool) {
    let origin = origins::http();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true {tls} }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    assert_eq!(run(node.address("web"), is_tls), expected(is_tls));
}

#[test]
fn clear_http_2_is_as_rfc_9113_says() {
    check("", false);
}

#[test]
fn http_2_under_tls_is_as_rfc_9113_says() {
    let pki = Pki::new();
    let issued = pki.issue(&["127.0.0.1"]);
    let (cert, key) = (issued.cert.display(), issued.key.display());
    check(
        &format!(", tls: {{ cert_file: {cert}, key_file: {key} }}"),
        true,
    );
}
