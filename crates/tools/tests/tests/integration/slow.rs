//! Slow clients: content that trickles, and responses that are hardly read.

use hermes_tests::eventually::eventually_true;
use hermes_tests::h2c::Client;
use hermes_tests::origins::{self, Origin};
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, curl};

/// A node where clients may fall 300 ms behind a megabyte a second.
fn node() -> Node {
    with("limits: { min_rate: 1MiB, rate_window: 300ms }")
}

fn with(keys: &str) -> Node {
    Node::start(
        "edge",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, {keys} }} }}\nroutes: [ {{ terminate: true }} ]\n\
             egress: {{ allow: [127.0.0.0/8] }}\n"
        ),
    )
}

fn post(authority: &str, path: &str, length: usize) -> String {
    format!(
        "POST http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Waits until a client that sends nothing of its content was found to be slow: others that may be slow would be found by now.
fn the_window_passes(node: &Node, origin: &Origin<origins::Request>) {
    let mut slow = Raw::connect(node.address("web"));
    slow.send(post(&origin.address().to_string(), "/post", 10));
    assert_eq!(slow.head().status(), 408);
}

#[test]
fn slow_content_is_answered_with_408_over_http_1() {
    let (node, origin) = (node(), origins::http());
    let mut slow = Raw::connect(node.address("web"));
    slow.send(post(&origin.address().to_string(), "/post", 1_000) + "some");
    let (head, content) = slow.response();
    assert_eq!(head.status(), 408, "{head:?}");
    let status = head.field("proxy-status").unwrap();
    assert!(
        status.contains("error=http_request_error") && status.contains("limits.min_rate"),
        "{status}"
    );
    assert!(
        String::from_utf8_lossy(&content).contains("limits.min_rate"),
        "{content:?}"
    );
    assert_eq!(head.field("connection").as_deref(), Some("close"));
    assert_eq!(slow.rest(), (Vec::new(), End::Closed));
    let record = node.record(|record| record["status"] == 408);
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .contains("slow: the client was slower than limits.min_rate"),
        "{record}"
    );
}

#[test]
fn slow_content_is_answered_with_408_over_http_2_and_the_connection_goes_on() {
    let (node, origin) = (node(), origins::http());
    let client = Client::connect(node.address("web"));
    let uri = |path: &str| format!("http://{}{path}", origin.address());
    let mut slow = client.upload(&uri("/post"));
    slow.send("some");
    let answer = slow.answer().unwrap();
    assert_eq!(answer.status, 408, "{answer:?}");
    let mut good = client.upload(&uri("/post"));
    good.send(vec![7; 50_000]);
    good.finish();
    assert_eq!(good.answer().unwrap().status, 200);
}

#[test]
fn a_slow_reader_is_reset_over_http_1() {
    let (node, origin) = (node(), origins::http());
    let authority = origin.address();
    let mut slow = Raw::connect(node.address("web"));
    slow.send(format!(
        "GET http://{authority}/bytes/100000000 HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    let record = node.record(|record| record["method"] == "GET");
    assert!(
        record["reason"].as_str().unwrap().starts_with("slow: "),
        "{record}"
    );
    assert_eq!(slow.rest().1, End::Reset);
}

#[test]
fn a_slow_reader_is_reset_over_http_2_and_the_connection_goes_on() {
    let (node, origin) = (node(), origins::http());
    let client = Client::with_windows(node.address("web"), 65_535, 1 << 24);
    let slow = client.begin(&format!("http://{}/bytes/100000000", origin.address()));
    let record = node.record(|record| record["target"].as_str().unwrap().contains("/bytes/"));
    assert!(
        record["reason"].as_str().unwrap().starts_with("slow: "),
        "{record}"
    );
    let request = http::Request::get(format!("http://{}/a", origin.address()))
        .body(())
        .unwrap();
    assert_eq!(client.send(request, b"").unwrap().status, 200);
    drop(slow);
}

#[test]
fn who_waits_for_a_slow_origin_is_not_slow() {
    let (node, origin) = (node(), origins::http());
    let authority = origin.address();
    let mut waiting = Raw::connect(node.address("web"));
    waiting.send(post(&authority.to_string(), "/hang", 4) + "here");
    let mut reading = Raw::connect(node.address("web"));
    reading.send(format!(
        "GET http://{authority}/slow HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    assert_eq!(reading.head().status(), 200);
    eventually_true("both have come", || origin.seen().len() == 2);
    the_window_passes(&node, &origin);
    // One release for each of them.
    origin.release();
    origin.release();
    assert_eq!(waiting.head().status(), 200);
    reading.until(|content| content.windows(5).any(|piece| piece == b"last\n"));
}

#[test]
fn content_may_wait_for_its_invitation_and_for_a_response_that_has_begun() {
    let (node, origin) = (node(), origins::http());
    let authority = origin.address().to_string();
    let mut invited = Raw::connect(node.address("web"));
    invited
        .send(post(&authority, "/post", 4).replace("\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n"));
    let client = Client::connect(node.address("web"));
    let mut conversation = client.upload(&format!("http://{authority}/echo"));
    conversation.send("first, ");
    eventually_true("the response has begun", || {
        node.exchanges().iter().any(|live| live["status"] == 200)
    });
    the_window_passes(&node, &origin);
    conversation.send("second");
    conversation.finish();
    assert_eq!(conversation.answer().unwrap().body, b"first, second");
    assert_eq!(invited.head().status(), 100);
    invited.send("here");
    assert_eq!(invited.head().status(), 200);
}

#[test]
fn tunnels_may_be_as_quiet_as_they_like() {
    let (node, origin, echo) = (node(), origins::http(), origins::tcp_echo());
    let authority = echo.address().to_string();
    let client = Client::connect(node.address("web"));
    let mut over_h1 = Raw::tunnel(node.address("web"), &authority, "").unwrap();
    let mut over_h2 = client.tunnel(&authority, &[]).unwrap();
    the_window_passes(&node, &origin);
    over_h1.send("still here");
    assert_eq!(over_h1.exactly(10), b"still here");
    over_h2.send("still here");
    assert_eq!(over_h2.exactly(10), b"still here");
}

#[test]
fn a_gateway_on_this_machine_holds_no_one_to_a_rate() {
    let (strict, easy, origin) = (node(), with("gateway: true"), origins::http());
    let mut slow = Raw::connect(easy.address("web"));
    slow.send(post(&origin.address().to_string(), "/post", 8) + "some");
    eventually_true("it has come", || !easy.exchanges().is_empty());
    the_window_passes(&strict, &origin);
    slow.send("more");
    assert_eq!(slow.head().status(), 200);
    assert_eq!(
        curl(&[
            "-x",
            &easy.url("web"),
            &format!("http://{}/a", origin.address())
        ])
        .status,
        200
    );
}
