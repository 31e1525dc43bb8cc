//! A node that was told to stop (SIGTERM): what its clients hear, and what becomes of those who do not end.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::eventually::eventually_true;
use hermes_tests::frames::{
    END_HEADERS, END_STREAM, GOAWAY, HEADERS, HELLO, frame, parse, request,
};
use hermes_tests::h2c::Client;
use hermes_tests::origins::{self, Origin};
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, udp};
use rustix::process::Signal;

fn node(drain: &str) -> Node {
    Node::start(
        "edge",
        &format!(
            "drain: {drain}\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ terminate: true }} ]\n\
             egress: {{ allow: [127.0.0.0/8] }}\n"
        ),
    )
}

fn begin_to_stop(node: &Node) {
    node.signal(Signal::TERM);
    eventually_true("the node drains", || node.status()["draining"] == true);
}

fn hang(node: &Node, origin: &Origin<origins::Request>) -> Raw {
    let (mut raw, authority) = (Raw::connect(node.address("web")), origin.address());
    raw.send(format!(
        "GET http://{authority}/hang HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    eventually_true("the origin has it", || !origin.seen().is_empty());
    raw
}

#[test]
fn a_response_says_that_its_connection_closes() {
    let (mut node, origin) = (node("1h"), origins::http());
    let mut busy = hang(&node, &origin);
    let (mut idle, authority) = (Raw::connect(node.address("web")), origin.address());
    idle.send(format!(
        "GET http://{authority}/a HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    let (head, _) = idle.response();
    assert_eq!((head.status(), head.field("connection")), (200, None));
    begin_to_stop(&node);
    assert_eq!(
        idle.rest(),
        (Vec::new(), End::Closed),
        "nothing is open on it"
    );
    origin.release();
    let (head, _) = busy.response();
    assert_eq!(
        (head.status(), head.field("connection").as_deref()),
        (200, Some("close")),
        "{head:?}"
    );
    assert_eq!(busy.rest(), (Vec::new(), End::Closed));
    let ended = node.wait();
    assert!(ended.success(), "{ended}");
    assert!(!node.log().contains("tasks were ended"), "{}", node.log());
}

#[test]
fn a_link_hears_goaway_and_its_streams_end_as_they_should() {
    let (mut node, origin) = (node("1h"), origins::http());
    let mut raw = Raw::connect(node.address("web"));
    raw.send(HELLO);
    let fields = request("GET", &origin.address().to_string(), "/hang");
    raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields));
    eventually_true("the origin has it", || !origin.seen().is_empty());
    begin_to_stop(&node);
    let goodbyes = |heard: &[u8]| {
        parse(heard)
            .into_iter()
            .filter(|(kind, ..)| *kind == GOAWAY)
            .collect::<Vec<_>>()
    };
    let heard = raw.until(|heard| !goodbyes(heard).is_empty());
    // RFC 9113, 6.8: the first one promises nothing yet, so that what is on its way is not lost.
    assert_eq!(goodbyes(&heard)[0].3, [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    assert!(!parse(&heard).iter().any(|(kind, ..)| *kind == HEADERS));
    // Its PING is answered, and with that the second one follows.
    raw.send(pong(&heard));
    origin.release();
    let (rest, end) = raw.rest();
    assert_eq!(end, End::Closed);
    assert!(
        parse(&rest)
            .iter()
            .any(|(kind, _, stream, fields)| (*kind, *stream) == (HEADERS, 1) && fields[0] == 0x88)
    );
    assert_eq!(
        goodbyes(&rest).last().unwrap().3[..8],
        [0, 0, 0, 1, 0, 0, 0, 0],
        "stream 1 was served, without an error"
    );
    let ended = node.wait();
    assert!(ended.success(), "{ended}");
}

/// Answers to the PING frames that were heard.
fn pong(heard: &[u8]) -> Vec<u8> {
    const PING: u8 = 0x6;
    parse(heard)
        .iter()
        .filter(|(kind, ..)| *kind == PING)
        .flat_map(|(.., payload)| frame(PING, 1, 0, payload))
        .collect()
}

#[test]
fn what_has_not_ended_at_the_deadline_is_cut_off() {
    let (http, tcp, voice) = (
        origins::http(),
        origins::tcp_echo(),
        origins::udp_echo(origins::V4),
    );
    let mut node = node("300ms");
    let authority = tcp.address().to_string();
    let client = Client::connect(node.address("web"));
    let mut tunnel = Raw::tunnel(node.address("web"), &authority, "").unwrap();
    let mut stream = client.tunnel(&authority, &[]).unwrap();
    let mut session =
        UdpTunnel::h2(&client, node.address("web"), "127.0.0.1", voice.port(), &[]).unwrap();
    session.send("open");
    assert_eq!(session.receive(), b"open");
    for _ in 0..2 {
        tunnel.send("open");
        assert_eq!(tunnel.exactly(4), b"open");
        stream.send("open");
        assert_eq!(stream.exactly(4), b"open");
    }
    let mut request = hang(&node, &http);
    let ended = node.stop();
    assert!(ended.success(), "{ended}");
    assert!(
        node.log()
            .contains("tasks were ended before they were done"),
        "{}",
        node.log()
    );
    assert_eq!(tunnel.rest().1, End::Reset);
    assert!(stream.rest().is_err());
    assert_eq!(session.rest(), None);
    request.rest();
    let reasons: Vec<String> = node
        .access()
        .iter()
        .map(|record| record["reason"].to_string())
        .collect();
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    // Those that were on one link hear of it as its end.
    assert!(
        reasons
            .iter()
            .all(|reason| reason.contains("abandoned") || reason.contains("client_reset")),
        "{reasons:?}"
    );
}

#[test]
fn a_udp_client_does_not_hold_a_node_beyond_the_deadline() {
    let voice = origins::udp_echo(origins::V4);
    let mut node = Node::start(
        "edge",
        &format!(
            "drain: 300ms\nlisteners: {{ voice: {{ udp: 127.0.0.1:0, target: \"{}\" }} }}\n\
             routes: [ {{ terminate: true }} ]\negress: {{ allow: [127.0.0.0/8] }}\n",
            voice.address()
        ),
    );
    let address = node.address("voice");
    assert_eq!(udp::Client::connect(address).ask("open"), b"open");
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"open", address).unwrap();
    begin_to_stop(&node);
    // The node is asked in between, so that this does not fill its socket; it does not answer any more when it has ended.
    while std::os::unix::net::UnixStream::connect(node.socket()).is_ok() {
        client.send_to(b"never silent", address).unwrap();
    }
    let ended = node.wait();
    assert!(ended.success(), "{ended}");
}
