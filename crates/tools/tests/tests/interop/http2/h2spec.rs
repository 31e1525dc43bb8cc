//! h2spec against an `http` listener: every case that it knows of RFC 9113 and RFC 7541, in clear and under TLS.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use hermes_tests::{Node, Pki, origins};

/// Cases that h2spec 2.2.1 has; fewer would mean that it stopped early.
const CASES: usize = 145;

/// Where a case fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Applies {
    /// In the clear.
    Clear,
    /// Where clients are no proxies: these have no table of HPACK.
    Strangers,
}

/// Cases that fail for a reason: number, where it applies, the reason. docs/interop.md has them too.
const EXCEPTIONS: [(&str, Applies, &str); 4] = [
    (
        "http2/3.5/2",
        Applies::Clear,
        "RFC 9113, 3.4 is for connections that speak HTTP/2. On a clear port HTTP/1.1 is spoken too, and bytes that are not the \
         preface are a malformed request of that: they are answered with 400, and the connection closes",
    ),
    ("generic/5/14", Applies::Strangers, TABLE),
    ("generic/5/15", Applies::Strangers, TABLE),
    ("http2/6.10/1", Applies::Strangers, TABLE),
];

/// h2spec acknowledges the node's SETTINGS, and then uses a table all the same.
const TABLE: &str = "Strangers have a table of 0 bytes (SETTINGS_HEADER_TABLE_SIZE): RFC 7541, 6.3 asks for an error where an update or \
     a reference goes beyond that";

/// Runs h2spec; the numbers of the cases that failed, as `http2/3.5/2`.
fn run(address: SocketAddr, keys: &str) -> BTreeSet<String> {
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
        "5",
    ]);
    if keys.contains("tls:") {
        command.args(["-t", "-k"]);
    }
    if keys == LINK {
        command.args(["--max-header-length", LONG]);
    }
    command.arg("-j").arg(&report);
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

fn expected(keys: &str) -> BTreeSet<String> {
    let applies = |case: Applies| match case {
        Applies::Clear => !keys.contains("tls:"),
        Applies::Strangers => keys != LINK,
    };
    EXCEPTIONS
        .iter()
        .filter(|(_, case, _)| applies(*case))
        .map(|(number, ..)| (*number).to_owned())
        .collect()
}

/// Who answers what h2spec asks for.
#[derive(Clone, Copy)]
enum Answer {
    /// An origin behind the node, when it has the whole request: an answer that overtakes the request's mistake would hide it.
    Origin,
    /// The node itself, which answers before the request has ended.
    Local,
}

/// Runs h2spec against a gateway with these keys.
fn check(answer: Answer, keys: &str) {
    let origin = origins::http();
    let action = match answer {
        Answer::Origin => "terminate: origin",
        Answer::Local => "respond: { status: 200, body: answer }",
    };
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true {keys} }} }}
            routes: [ {{ {action} }} ]
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    assert_eq!(run(node.address("web"), keys), expected(keys), "{keys}");
}

/// Keys of a listener under TLS.
fn tls(pki: &Pki) -> String {
    let issued = pki.issue(&["127.0.0.1"]);
    format!(
        ", tls: {{ cert_file: {}, key_file: {} }}",
        issued.cert.display(),
        issued.key.display()
    )
}

/// Keys of a listener whose clients are proxies, so that their connections have the bounds of links.
const LINK: &str = ", insecure_trust: [ 127.0.0.0/8 ]";

/// Length of h2spec's long fields for links, on which five of the usual length fit into a frame.
const LONG: &str = "40000";

#[test]
fn clear_http_2_is_as_rfc_9113_says() {
    check(Answer::Origin, "");
}

#[test]
fn http_2_under_tls_is_as_rfc_9113_says() {
    check(Answer::Origin, &tls(&Pki::new()));
}

#[test]
fn a_link_is_as_rfc_9113_says() {
    check(Answer::Origin, LINK);
}

#[test]
fn what_the_node_answers_itself_is_as_rfc_9113_says() {
    check(Answer::Local, "");
}

#[test]
fn what_the_node_answers_itself_under_tls_is_as_rfc_9113_says() {
    check(Answer::Local, &tls(&Pki::new()));
}

#[test]
fn what_the_node_answers_itself_on_a_link_is_as_rfc_9113_says() {
    check(Answer::Local, LINK);
}
