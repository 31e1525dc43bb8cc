//! nginx and HAProxy as upstreams that fail, fall ill, and are reloaded.

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Haproxy, Nginx, Node, curl, origins};
use serde_json::Value;

/// Reloads under load.
const RELOADS: usize = 5;

/// Answers that come between two reloads.
const ANSWERS: usize = 30;

/// What HAProxy needs to be told in any case.
const DEFAULTS: &str = "defaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n  timeout http-keep-alive 30s\n";

/// A proxy before these endpoints, tried in turn.
fn before(endpoints: &[SocketAddr], keys: &str) -> Node {
    let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    Node::start(
        "edge",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ terminate: group }} ]\n\
             upstreams: {{ group: {{ endpoints: {endpoints:?}, {keys} }} }}\n"
        ),
    )
}

/// A frontend of HAProxy's that does this, in this version of HTTP.
fn haproxy(version: u8, rule: &str) -> Haproxy {
    let proto = if version == 2 { "proto h2" } else { "" };
    Haproxy::start(&format!(
        "{DEFAULTS}frontend all\n  bind ADDRESS {proto}\n  {rule}\n"
    ))
}

/// Status and content of the answer.
fn send(node: &Node, method: &str) -> (u16, String) {
    let got = curl(&[
        "-x",
        &node.url("web"),
        "-X",
        method,
        "--data",
        "content",
        "http://GROUP/a",
    ]);
    assert_eq!(got.exit, 0, "{got:?}");
    (got.status, got.text())
}

/// Both endpoints get their turn: what may be repeated goes on to the one that works, what may not fails there and then.
fn what_may_be_repeated_is(node: &Node, failing: u16) {
    for _ in 0..6 {
        assert_eq!(send(node, "PUT"), (200, "well".to_owned()));
    }
    // One that broke off is asked last for a second.
    eventually("a POST comes to the one that fails", || {
        let status = send(node, "POST").0;
        assert!([200, failing].contains(&status), "{status}");
        (status == failing).then_some(())
    });
}

/// As [`what_may_be_repeated_is`], of an endpoint that breaks off as soon as it has accepted: what had not left by then may be
/// repeated, too, so a POST fails or does not.
fn what_may_be_repeated_is_wherever_it_broke(node: &Node) {
    for _ in 0..6 {
        assert_eq!(send(node, "PUT"), (200, "well".to_owned()));
    }
    eventually("a POST comes to the one that fails", || {
        let before = failures(node);
        let status = send(node, "POST").0;
        assert!([200, 502].contains(&status), "{status}");
        (failures(node) > before).then_some(())
    });
}

/// Failures of the first endpoint so far.
fn failures(node: &Node) -> u64 {
    let status = node.status();
    let endpoint = &status["upstreams"][0]["endpoints"][0];
    endpoint["failures"].as_u64().unwrap()
}

const RETRY: &str = "retry: { on: 5xx, budget: { min: 100 per second } }";

#[test]
fn what_nginx_refuses_or_breaks_off_is_sent_to_the_next() {
    let well = Nginx::start("location / { return 200 well; }", |_| {});
    // 444 closes the connection without an answer.
    for (act, status) in [("503", 503), ("444", 502)] {
        let ill = Nginx::start(&format!("location / {{ return {act}; }}"), |_| {});
        let node = before(&[ill.address(), well.address()], RETRY);
        what_may_be_repeated_is(&node, status);
        assert!(
            ill.access().iter().any(|access| access.method == "PUT"),
            "it was asked"
        );
    }
}

#[test]
fn what_haproxy_refuses_or_breaks_off_is_sent_to_the_next() {
    for version in [1, 2] {
        let well = haproxy(
            version,
            "http-request return status 200 content-type text/plain string well",
        );
        let before = |rule| {
            let ill = haproxy(version, rule);
            let endpoints = [ill.address(), well.address()];
            (
                ill,
                before(&endpoints, &format!("http: {version}, {RETRY}")),
            )
        };
        for (rule, status) in [
            ("http-request deny deny_status 503", 503),
            ("http-request reject", 502),
        ] {
            let (_ill, node) = before(rule);
            what_may_be_repeated_is(&node, status);
        }

        let (_ill, node) = before("tcp-request connection reject");
        what_may_be_repeated_is_wherever_it_broke(&node);
    }
}

/// Requests that may be repeated, without any policy, while `reload` is called; how many there were.
fn none_fails(node: &Node, reload: impl Fn()) -> usize {
    let (over, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let got = curl(&["-x", &node.url("web"), "http://GROUP/[1-10]"]);
                    assert_eq!(
                        (got.exit, got.status, got.text().contains("well")),
                        (0, 200, true),
                        "{got:?}"
                    );
                    answers.fetch_add(10, Ordering::SeqCst);
                }
            });
        }
        let over = Over(&over);
        for _ in 0..RELOADS {
            let before = answers.load(Ordering::SeqCst);
            reload();
            eventually_true("requests go on", || {
                answers.load(Ordering::SeqCst) >= before + ANSWERS
            });
        }
        drop(over);
    });
    node.idle();
    let failed: Vec<Value> = node
        .access()
        .into_iter()
        .filter(|record| record["status"] != 200)
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    answers.load(Ordering::SeqCst)
}

/// Ends the work, however the test ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn while_nginx_is_reloaded_no_request_that_may_be_repeated_fails() {
    let nginx = Nginx::start_reloadable("location / { return 200 well; }");
    let node = before(&[nginx.address()], "http: 1");
    assert!(none_fails(&node, || nginx.reload()) > 0);
}

#[test]
fn while_haproxy_is_reloaded_no_request_that_may_be_repeated_fails() {
    for version in [1, 2] {
        let proto = if version == 2 { "proto h2" } else { "" };
        let haproxy = Haproxy::start_reloadable(&format!(
            "global\n  hard-stop-after 10s\n{DEFAULTS}frontend all\n  bind ADDRESS {proto}\n  \
             http-request return status 200 content-type text/plain string well\n"
        ));
        let node = before(&[haproxy.address()], &format!("http: {version}"));
        assert!(none_fails(&node, || haproxy.reload()) > 0);
    }
}

fn health(node: &Node, index: usize) -> Value {
    node.status()["upstreams"][0]["endpoints"][index]["health"].clone()
}

const CHECK: &str =
    "health: { kind: http, path: /healthz, interval: 50ms, healthy: 1, unhealthy: 1 }";

#[test]
fn an_nginx_whose_check_fails_gets_nothing_until_it_is_well() {
    let serve = |name: &'static str| {
        Nginx::start(&format!("location = /a {{ return 200 {name}; }}"), |root| {
            fs::write(root.join("healthz"), "well").unwrap()
        })
    };
    let (one, other) = (serve("one"), serve("other"));
    let node = before(&[one.address(), other.address()], CHECK);
    fs::remove_file(one.root().join("healthz")).unwrap();
    eventually_true("its check fails", || health(&node, 0) == "unhealthy");
    for _ in 0..10 {
        assert_eq!(send(&node, "GET").1, "other");
    }
    fs::write(one.root().join("healthz"), "well").unwrap();
    eventually_true("its check succeeds", || health(&node, 0) == "healthy");
    eventually("it gets requests again", || {
        (send(&node, "GET").1 == "one").then_some(())
    });
}

/// HAProxy itself checks a server, and says on its monitoring page that it has none.
#[test]
fn a_haproxy_without_servers_gets_nothing_until_it_has_one() {
    let server = origins::http();
    let address = server.address();
    let balancer = |server: SocketAddr, name: &str| {
        Haproxy::start(&format!(
            "{DEFAULTS}frontend all\n  bind ADDRESS\n  monitor-uri /healthz\n  monitor fail if {{ nbsrv(servers) lt 1 }}\n  \
             http-response set-header x-by {name}\n  default_backend servers\n\
             backend servers\n  server one {server} check inter 100ms fall 1 rise 1\n"
        ))
    };
    let well = origins::http();
    let (one, other) = (balancer(address, "one"), balancer(well.address(), "other"));
    let node = before(&[one.address(), other.address()], CHECK);
    let by = || curl(&["-x", &node.url("web"), "http://GROUP/a"]).field("x-by");
    drop(server);
    eventually_true("its check fails", || health(&node, 0) == "unhealthy");
    for _ in 0..10 {
        assert_eq!(by().as_deref(), Some("other"));
    }
    let _server = origins::http_on(address);
    eventually("it gets requests again", || {
        (by().as_deref() == Some("one")).then_some(())
    });
}
