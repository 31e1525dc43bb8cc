//! Sockets: kept by address, whatever they are called and serve; closed only when nothing waits there.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::free::tcp as free;
use hermes_tests::raw::{End, Raw};
use hermes_tests::udp::Client;
use hermes_tests::{Node, origins};
use rustix::process::Signal;

fn node(listeners: &str) -> String {
    format!(
        "listeners: {{ {listeners} }}\nroutes: [ {{ respond: {{ status: 200, body: \"{{}}\" }} }} ]\n"
    )
}

#[test]
fn an_exchange_on_a_kept_connection_follows_the_new_rules() {
    let yaml = |status: u16| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ respond: {{ status: {status} }} }} ]\n"
        )
    };
    let node = Node::start("alice", &yaml(201));
    let mut raw = Raw::connect(node.address("web"));
    for status in [201, 202, 203] {
        assert_eq!(node.reload(&yaml(status)).0, 200);
        raw.send("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(raw.response().0.status(), status);
    }
}

#[test]
fn a_listener_that_is_renamed_keeps_its_socket_and_its_connections() {
    let (one, two) = (free(), free());
    let (names, swapped) = (
        format!(
            "a: {{ http: \"{one}\", set: {{ from: a }} }}, b: {{ http: \"{two}\", user: bob }}"
        ),
        format!("b: {{ http: \"{one}\" }}, a: {{ http: \"{two}\" }}"),
    );
    let routes = "routes: [ { match: { listener: a }, respond: { status: 201 } }, { respond: { status: 202 } } ]\n";
    let yaml = |listeners: &str| format!("listeners: {{ {listeners} }}\n{routes}");
    let node = Node::start("alice", &yaml(&names));
    let mut kept = Raw::connect(one);
    let ask = |raw: &mut Raw| {
        raw.send("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
        raw.response().0.status()
    };
    assert_eq!(ask(&mut kept), 201);
    let (status, report) = node.reload(&yaml(&swapped));
    assert_eq!(
        (status, &report["listeners"]["opened"]),
        (200, &serde_json::json!([])),
        "{report:#}"
    );
    assert_eq!(
        report["listeners"]["renamed"].as_array().unwrap().len(),
        2,
        "{report:#}"
    );
    assert_eq!(ask(&mut kept), 202, "what was a is b now");
    assert_eq!(ask(&mut Raw::connect(one)), 202);
    assert_eq!(ask(&mut Raw::connect(two)), 201);
}

#[test]
fn a_port_that_serves_something_else_now_keeps_its_socket() {
    let (address, origin) = (free(), origins::tcp_echo());
    let yaml = |listener: &str| {
        format!(
            "listeners: {{ port: {{ {listener} }} }}\nroutes: [ {{ match: {{ target: DB }}, terminate: db }}, {{ respond: {{ status: 201 }} }} ]\n\
             upstreams: {{ db: {{ endpoints: [\"{}\"] }} }}\n",
            origin.address()
        )
    };
    let node = Node::start("alice", &yaml(&format!("http: \"{address}\"")));
    let mut http = Raw::connect(address);
    let ask = |raw: &mut Raw| {
        raw.send("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n");
        raw.response().0.status()
    };
    assert_eq!(ask(&mut http), 201);
    let (_, report) = node.reload(&yaml(&format!("tcp: \"{address}\", target: \"DB:1\"")));
    assert_eq!(
        report["listeners"]["kept"],
        serde_json::json!(["port"]),
        "{report:#}"
    );
    let mut tcp = Raw::connect(address);
    tcp.send("ping");
    assert_eq!(tcp.exactly(4), b"ping");
    assert_eq!(ask(&mut http), 201, "the connection goes on as what it was");
}

#[test]
fn connections_that_wait_to_be_accepted_are_served_before_a_listener_closes() {
    let address = free();
    let there = node(&format!(
        "gone: {{ http: \"{address}\" }}, stays: {{ http: 127.0.0.1:0 }}"
    ));
    let node_ = Node::start("alice", &there);
    for _ in 0..5 {
        assert_eq!(node_.reload(&there).0, 200);
        // The kernel accepts these; the process cannot, and hears of them and of the reload in any order.
        node_.signal(Signal::STOP);
        let waiting: Vec<TcpStream> = (0..20).map(|_| connected(address)).collect();
        std::fs::write(
            node_.file(),
            file_of(&node_, &node("stays: { http: 127.0.0.1:0 }")),
        )
        .unwrap();
        node_.signal(Signal::HUP);
        node_.signal(Signal::CONT);
        for stream in waiting {
            assert!(answer(stream).starts_with("HTTP/1.1 200"));
        }
        eventually_true("the listener is closed", || {
            TcpStream::connect(address).is_err()
        });
    }
}

/// A request that is the last of its connection.
const ASK: &[u8] = b"GET http://a/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

fn connected(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(ASK).unwrap();
    stream
}

/// What is answered to a request of its own; none where the connection breaks.
fn asked(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(ASK).ok()?;

    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

fn answer(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The node's file with other listeners and routes; the rest is what the harness added.
fn file_of(node: &Node, yaml: &str) -> String {
    let text = std::fs::read_to_string(node.file()).unwrap();
    let rest = text
        .lines()
        .filter(|line| !line.starts_with("listeners") && !line.starts_with("routes"));
    format!("{yaml}{}\n", rest.collect::<Vec<_>>().join("\n"))
}

#[test]
fn a_connection_of_a_listener_that_is_gone_finishes() {
    let address = free();
    let node_ = Node::start("alice", &node(&format!("gone: {{ http: \"{address}\" }}")));
    let mut raw = Raw::connect(address);
    raw.send("GET http://a/ HTTP/1.1\r\nHost: a\r\n");
    // The head has begun: the connection is no idle one.
    eventually_true("it is accepted", || {
        node_
            .metrics()
            .contains("hermes_connections_active{listener=\"gone\"} 1")
    });
    assert_eq!(node_.reload(&node("stays: { http: 127.0.0.1:0 }")).0, 200);
    raw.send("\r\n");
    let (head, _) = raw.response();
    assert_eq!(head.status(), 200);
    assert_eq!(raw.rest().1, End::Closed);
}

#[test]
fn a_move_to_an_address_that_holds_the_old_one_is_no_conflict() {
    let address = free();
    let node_ = Node::start("alice", &node(&format!("web: {{ http: \"{address}\" }}")));
    let wide = format!(
        "web: {{ http: \"0.0.0.0:{}\", public: true }}",
        address.port()
    );
    let (status, report) = node_.reload(&node(&wide));
    assert_eq!(status, 200, "{report:#}");
    // A connection that the kernel gave to the old socket in the moment of its end is reset.
    eventually("an answer", || {
        asked(address).filter(|answer| answer.starts_with("HTTP/1.1 200"))
    });
}

#[test]
fn a_udp_port_that_goes_and_comes_back_at_once_loses_no_client() {
    let (address, origin) = (free(), origins::udp_echo(origins::V4));
    let yaml = |listener: &str| {
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }}{listener} }}\nroutes: [ {{ terminate: echo }} ]\n\
             upstreams: {{ echo: {{ endpoints: [\"{}\"] }} }}\nworkers: 4\n",
            origin.address()
        )
    };
    let with = |name: &str| {
        yaml(&format!(
            ", {name}: {{ udp: \"{address}\", target: \"VOICE:1\" }}"
        ))
    };
    let node = Node::start("alice", &with("voice"));
    // Sessions of every worker, so that each old socket is there still.
    let before: Vec<Client> = (0..16).map(|_| Client::connect(address)).collect();
    before
        .iter()
        .for_each(|client| assert_eq!(client.ask("x"), b"x"));
    assert_eq!(
        node.reload(&yaml("")).1["listeners"]["closed"],
        serde_json::json!(["voice"])
    );
    let (status, report) = node.reload(&with("again"));
    assert_eq!(
        (status, &report["listeners"]["opened"]),
        (200, &serde_json::json!(["again"])),
        "{report:#}"
    );
    let after: Vec<Client> = (0..64).map(|_| Client::connect(address)).collect();
    // Each sends once: a datagram that is lost is waited for in vain.
    after.iter().for_each(|client| client.send("new"));
    after
        .iter()
        .for_each(|client| assert_eq!(client.receive(), b"new"));
    before.iter().for_each(|client| client.send("old"));
    before
        .iter()
        .for_each(|client| assert_eq!(client.receive(), b"old"));
    let listeners: Vec<_> = node
        .exchanges()
        .iter()
        .map(|exchange| exchange["listener"].clone())
        .collect();
    assert!(
        listeners.iter().filter(|name| *name == "again").count() >= 64,
        "{listeners:?}"
    );
}

#[test]
fn metrics_move_at_a_reload() {
    let (one, two) = (free(), free());
    let yaml = |metrics: &str| {
        let web = node("web: { http: 127.0.0.1:0 }");
        format!("{web}admin: {{ socket: admin.sock{metrics} }}\n")
    };
    let node_ = Node::start("alice", &yaml(&format!(", metrics: \"{one}\"")));
    let served = |address: SocketAddr| {
        let mut stream = TcpStream::connect(address).ok()?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text.contains("hermes_build"))
    };
    assert_eq!(served(one), Some(true));
    let (status, report) = node_.reload(&yaml(&format!(", metrics: \"{two}\"")));
    assert_eq!(
        (status, &report["needs_restart"]),
        (200, &serde_json::json!([]))
    );
    assert_eq!(served(two), Some(true));
    eventually_true("the old one is closed", || served(one).is_none());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (status, report) = node_.reload(&yaml(&format!(
        ", metrics: \"{}\"",
        taken.local_addr().unwrap()
    )));
    assert_eq!(status, 409, "{report:#}");
    assert_eq!(served(two), Some(true), "nothing changed");
    assert_eq!(node_.reload(&yaml("")).0, 200);
    eventually_true("there is none", || served(two).is_none());
}
