//! The smuggling corpus, byte for byte: Hermes alone, before nginx, haproxy and Apache, and behind nginx and haproxy.

use std::net::SocketAddr;

use hermes_tests::corpus::{Case, Verdict, smuggling};
use hermes_tests::frames::{self, DATA, END_STREAM, GOAWAY, HEADERS, RST_STREAM};
use hermes_tests::peers::Peer;
use hermes_tests::raw::Raw;
use hermes_tests::{Nginx, Node, eventually, origins};

/// A gateway for `video`, on one worker, so that all cases share the connections behind it.
fn gateway(behind: SocketAddr) -> Node {
    Node::start(
        "edge",
        &format!(
            r#"
            workers: 1
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes: [ {{ match: {{ target: video, method: CONNECT }}, respond: {{ status: 403 }} }}, {{ match: {{ target: video }}, terminate: video }} ]
            upstreams: {{ video: {{ endpoints: ["{behind}"], http: 1 }} }}
            "#
        ),
    )
}

/// Sends a case to its end; everything that comes back.
fn replay(address: SocketAddr, case: &Case) -> Vec<u8> {
    let mut raw = Raw::connect(address);
    raw.send_if_open(&case.bytes);
    // A client of HTTP/2 that ends its direction takes back what it asked for.
    let mut answer = if case.h2 {
        raw.until(is_answered)
    } else {
        Vec::new()
    };
    raw.finish();
    answer.extend(raw.rest().0);
    answer
}

/// Whether stream 1, or the connection, has ended.
fn is_answered(answer: &[u8]) -> bool {
    frames::parse(answer)
        .iter()
        .any(|(kind, flags, stream, _)| match *kind {
            GOAWAY | RST_STREAM => true,
            DATA | HEADERS => *stream == 1 && flags & END_STREAM != 0,
            _ => false,
        })
}

/// The statuses of the answers; those of HTTP/2 have their fields packed, and are only told from errors.
fn check_answer(case: &Case, answer: &[u8]) {
    let name = &case.name;
    if case.h2 {
        let frames = frames::parse(answer);
        let heads = frames
            .iter()
            .filter(|(kind, _, stream, _)| *kind == HEADERS && *stream == 1)
            .count();
        let errors = frames
            .iter()
            .any(|(kind, ..)| matches!(*kind, RST_STREAM | GOAWAY));
        assert!(heads <= 1, "{name}: {frames:?}");
        assert!(
            case.verdict != Verdict::Refused || heads + usize::from(errors) > 0,
            "{name}: {frames:?}"
        );
        return;
    }
    let text = String::from_utf8_lossy(answer);
    let statuses: Vec<u16> = text
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|head| head[..3].parse().unwrap())
        .collect();
    let finals: Vec<u16> = statuses
        .into_iter()
        .filter(|status| *status >= 200)
        .collect();
    let error = |statuses: &[u16]| statuses.iter().all(|status| *status >= 400);
    let fine = match case.verdict {
        Verdict::Refused => finals.len() == 1 && error(&finals),
        // An end without an answer is one, too: the answer of those behind may have come first.
        Verdict::Cut => finals.len() <= 1,
        Verdict::Passed(count) => finals.len() == count,
    };
    assert!(fine, "{name}: {finals:?}\n{text}");
}

/// Asks for `/end/NUMBER`, and waits until it was seen.
fn sentinel(ask: SocketAddr, number: usize, seen: &dyn Fn() -> Vec<String>) {
    let path = format!("/end/{number}");
    let mut raw = Raw::connect(ask);
    raw.send(format!(
        "GET {path} HTTP/1.1\r\nHost: video\r\nConnection: close\r\n\r\n"
    ));
    let status = raw.head().status();
    assert!(
        matches!(status, 200 | 404),
        "case {number}: what followed it was answered with {status}"
    );
    eventually(&format!("GET {path} is seen"), || {
        seen().contains(&format!("GET {path}")).then_some(())
    });
}

/// Replays the corpus through Hermes, and compares what those behind saw with the verdicts.
fn behind(address: SocketAddr, seen: &dyn Fn() -> Vec<String>) {
    let node = gateway(address);
    let web = node.address("web");
    let mut log = Log::default();

    for (number, case) in smuggling().iter().enumerate() {
        let answer = replay(web, case);
        check_answer(case, &answer);
        sentinel(web, number, seen);
        log.check(case, seen);
    }

    // What the last case brought too late is seen with one more request.
    sentinel(web, smuggling().len(), seen);
    let surplus = log.of_cases(&seen());
    assert!(surplus.is_empty(), "seen behind: {surplus:?}");
}

/// What those behind logged, and how much of it is accounted for.
///
/// A server may log the requests of two connections in another order than it answered them in, so a case waits for its own.
#[derive(Default)]
struct Log {
    /// Requests of cases that were accounted for, in the order of the log.
    known: Vec<String>,
    /// Requests that were broken off, and may still be logged.
    cut: usize,
}

impl Log {
    /// Accounts for what a case was to bring, and finds nothing else.
    fn check(&mut self, case: &Case, seen: &dyn Fn() -> Vec<String>) {
        let expected = if let Verdict::Passed(count) = case.verdict {
            count
        } else {
            0
        };
        let name = &case.name;
        let got = eventually(&format!("{name}: {expected} requests are seen"), || {
            let new = self.of_cases(&seen());
            (whole(&new).len() >= expected).then_some(new)
        });

        let whole = whole(&got);
        let meant = whole
            .iter()
            .all(|request| request.contains(" /case") && !request.ends_with("smuggled"));
        assert!(
            whole.len() == expected && meant,
            "{name}: seen behind: {whole:?}"
        );

        self.cut += usize::from(case.verdict == Verdict::Cut);
        let late = got.len() - whole.len();
        assert!(late <= self.cut, "{name}: seen behind: {got:?}");
        self.cut -= late;
        self.known.extend(got);
    }

    /// The requests of cases that are not accounted for.
    fn of_cases(&self, all: &[String]) -> Vec<String> {
        let mut known = self.known.clone();
        all.iter()
            .filter(|request| !request.starts_with("GET /end/"))
            .filter(|request| !take(&mut known, request))
            .cloned()
            .collect()
    }
}

/// Without what was broken off: that may be logged late, and has a path of its own.
fn whole(requests: &[String]) -> Vec<&String> {
    requests
        .iter()
        .filter(|request| *request != "POST /case/cut")
        .collect()
}

#[test]
fn no_one_behind_hermes_sees_what_was_not_meant() {
    let origin = origins::http();
    behind(origin.address(), &|| {
        origin
            .seen()
            .iter()
            .map(|request| format!("{} {}", request.method, request.path))
            .collect()
    });
}

#[test]
fn nginx_behind_hermes_sees_what_was_meant() {
    let nginx = Nginx::start("location / { return 200 ok; }", |_| {});
    behind(nginx.address(), &|| {
        nginx
            .access()
            .iter()
            .map(|request| format!("{} {}", request.method, request.uri))
            .collect()
    });
}

#[test]
fn haproxy_behind_hermes_sees_what_was_meant() {
    let haproxy = Peer::haproxy();
    behind(haproxy.address(), &|| haproxy.requests());
}

#[test]
fn apache_behind_hermes_sees_what_was_meant() {
    let apache = Peer::apache();
    behind(apache.address(), &|| apache.requests());
}

/// Replays the corpus through another proxy before Hermes: whatever that one makes of a case, Hermes reads the requests that it
/// logged and no others.
fn before(node: &Node, front: SocketAddr, log: &dyn Fn() -> Vec<String>) {
    let hermes = || {
        let records = node.access();
        let path = |target: &str| {
            target
                .find('/')
                .map_or(target.to_owned(), |at| target[at..].to_owned())
        };
        let line = |record: &serde_json::Value| {
            let target = record["target"].as_str()?;
            let path = match (record["kind"].as_str()?, target.split_once(':')) {
                ("connect-udp", Some((host, port))) => {
                    format!("/.well-known/masque/udp/{host}/{port}/")
                }
                _ => path(target),
            };
            Some(format!("{} {path}", record["method"].as_str()?))
        };
        records.iter().filter_map(line).collect::<Vec<_>>()
    };
    for (number, case) in smuggling().iter().enumerate().filter(|(_, case)| !case.h2) {
        replay(front, case);
        sentinel(front, number, &hermes);
        // The proxy may log later than Hermes. What it did not mean it will never log.
        eventually(
            &format!(
                "{}: Hermes read what the proxy before it meant, and nothing else",
                case.name
            ),
            || {
                let mut meant = log();
                hermes()
                    .iter()
                    .all(|request| take(&mut meant, request))
                    .then_some(())
            },
        );
    }
}

fn take(from: &mut Vec<String>, request: &String) -> bool {
    let at = from.iter().position(|logged| logged == request);
    at.map(|at| from.swap_remove(at)).is_some()
}

#[test]
fn hermes_behind_nginx_reads_what_nginx_meant() {
    let origin = origins::http();
    let node = gateway(origin.address());
    let pass = format!(
        "location / {{ proxy_pass http://{}; proxy_http_version 1.1; proxy_set_header Connection \"\"; \
         proxy_set_header Host video; }}",
        node.address("web")
    );
    let nginx = Nginx::start(&pass, |_| {});
    before(&node, nginx.address(), &|| {
        nginx
            .access()
            .iter()
            .map(|request| format!("{} {}", request.method, request.uri))
            .collect()
    });
}

#[test]
fn hermes_behind_haproxy_reads_what_haproxy_meant() {
    let origin = origins::http();
    let node = gateway(origin.address());
    let haproxy = Peer::haproxy_before(node.address("web"));
    before(&node, haproxy.address(), &|| haproxy.requests());
}
