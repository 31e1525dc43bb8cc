//! A machine with public addresses of its own, on which something listens that is not for strangers, and with few local ports.

use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use hermes_lab::topology::Topology;
use hermes_net::LinkChanges;
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, program};
use socket2::{Domain, Socket, Type};

use super::{Running, command, within};

const EDGE: &str = "
    listeners: { web: { http: 127.0.0.1:8080 } }
    routes: [ { terminate: true } ]
";

/// The status of a request for this address, asked where the node is.
fn asked(topology: &Topology, address: &str) -> String {
    let url = format!("http://{address}:6379/");
    let words = [
        "curl",
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "-x",
        "http://127.0.0.1:8080",
        &url,
    ];
    topology.namespace("edge").unwrap().run(&words).unwrap()
}

/// Whether the node says that this address is one of its machine.
fn is_local(topology: &Topology, address: &str) -> bool {
    let url = format!("http://{address}:6379/");
    let words = ["curl", "-si", "-x", "http://127.0.0.1:8080", &url];
    topology
        .namespace("edge")
        .unwrap()
        .run(&words)
        .unwrap()
        .contains("is an address of this machine")
}

#[test]
fn own_public_addresses_are_no_targets_from_the_moment_that_they_are_there() {
    let mut topology = Topology::new();
    topology.add("edge").unwrap();
    let ip = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        topology.namespace("edge").unwrap().run(&words).unwrap()
    };
    ip("ip addr add 11.22.33.44/32 dev lo");
    let server = command(&topology, "edge", &std::env::var("HERMES_PYTHON").unwrap())
        .args(["-m", "http.server", "6379", "--bind", "0.0.0.0"])
        .current_dir("/proc/self")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Running(server.unwrap());
    let hermes = program::path();
    let _edge = Node::start_by(
        command(&topology, "edge", hermes.to_str().unwrap()),
        "edge",
        EDGE,
    );

    assert_eq!(asked(&topology, "11.22.33.44"), "502");
    // What is not this machine is asked for: here there is no route to it.
    ip("ip route add 11.22.33.0/24 dev lo");
    ip("ip addr add 11.22.33.55/32 dev lo");
    eventually_true("a new address is no target any more", || {
        asked(&topology, "11.22.33.55") == "502"
    });
    ip("ip addr del 11.22.33.55/32 dev lo");
}

#[test]
fn what_routes_deliver_to_this_machine_is_no_target_either() {
    let mut topology = Topology::new();
    topology.add("edge").unwrap();
    let ip = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        topology.namespace("edge").unwrap().run(&words).unwrap()
    };
    // AnyIP: no interface has these addresses, and what is bound to all addresses answers there.
    ip("ip route add local 11.9.0.0/16 dev lo");
    let server = command(&topology, "edge", &std::env::var("HERMES_PYTHON").unwrap())
        .args(["-m", "http.server", "6379", "--bind", "::"])
        .current_dir("/proc/self")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Running(server.unwrap());
    let directly = ["curl", "-s", "-o", "/dev/null", "http://11.9.1.1:6379/"];
    eventually_true("something answers", || {
        topology.namespace("edge").unwrap().run(&directly).is_ok()
    });
    let hermes = program::path();
    let _edge = Node::start_by(
        command(&topology, "edge", hermes.to_str().unwrap()),
        "edge",
        EDGE,
    );
    assert!(is_local(&topology, "11.9.1.1"));

    ip("ip route add local 11.10.0.0/16 dev lo");
    eventually_true("a new route is noticed", || {
        is_local(&topology, "11.10.1.1")
    });
    ip("ip -6 route add local 2a00:9::/32 dev lo");
    eventually_true("one of IPv6, too", || is_local(&topology, "[2a00:9::1]"));
    ip("ip route add local 11.11.0.0/16 dev lo table 100");
    ip("ip rule add to 11.0.0.0/8 lookup 100");
    eventually_true("and one of a table that a rule leads to", || {
        is_local(&topology, "11.11.1.1")
    });

    // What a transparent proxy needs for packets with its mark says nothing about what this machine sends itself.
    ip("ip route add local 0.0.0.0/0 dev lo table 200");
    ip("ip rule add fwmark 1 lookup 200");
    ip("ip addr add 11.22.33.44/32 dev lo");
    eventually_true("all that came before is known", || {
        is_local(&topology, "11.22.33.44")
    });
    assert!(!is_local(&topology, "11.12.1.1"));
    ip("ip route del local 11.9.0.0/16 dev lo");
    eventually_true("a route that is gone makes nothing local", || {
        !is_local(&topology, "11.9.1.1")
    });
}

/// A connection to the node that takes none of the ports which the system gives out.
fn connect() -> Raw {
    // Each is used once: it is kept for a minute when its connection has ended (TIME-WAIT).
    static PORT: AtomicU16 = AtomicU16::new(50_000);
    let port = PORT.fetch_add(1, Ordering::Relaxed);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket
        .bind(&SocketAddr::from(([127, 0, 0, 2], port)).into())
        .unwrap();
    socket
        .connect(&SocketAddr::from(([127, 0, 0, 1], 8080)).into())
        .unwrap();
    Raw::from(TcpStream::from(socket))
}

/// Tunnels that a client opens, in the namespace; the status of the first that is refused.
fn refused(topology: &Topology, most: usize) -> Option<(u16, String)> {
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| {
            topology.namespace("edge").unwrap().enter().unwrap();
            let mut held = Vec::new();
            for _ in 0..most {
                let mut tunnel = connect();
                tunnel.send("CONNECT 127.0.0.1:6379 HTTP/1.1\r\nHost: a\r\n\r\n");
                let head = tunnel.head();
                if head.status() != 200 {
                    return Some((
                        head.status(),
                        head.field("proxy-status").unwrap_or_default(),
                    ));
                }
                held.push(tunnel);
            }
            None
        });
        opening.join().unwrap()
    })
}

#[test]
fn local_ports_that_run_out_are_named_and_come_back() {
    let mut topology = Topology::new();
    topology.add("edge").unwrap();
    let edge = topology.namespace("edge").unwrap();
    edge.run(&[
        "sh",
        "-c",
        "echo 40000 40015 > /proc/sys/net/ipv4/ip_local_port_range",
    ])
    .unwrap();
    let server = command(&topology, "edge", &std::env::var("HERMES_PYTHON").unwrap())
        .args(["-m", "http.server", "6379", "--bind", "127.0.0.1"])
        .current_dir("/proc/self")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _server = Running(server.unwrap());
    let yaml = format!("{EDGE}    egress: {{ allow: [127.0.0.0/8] }}\n");
    let node = Node::start_by(
        command(&topology, "edge", program::path().to_str().unwrap()),
        "edge",
        &yaml,
    );
    eventually_true("the server is there", || {
        asked(&topology, "127.0.0.1") != "502"
    });

    let (status, why) = refused(&topology, 40).expect("no more ports than there are");
    assert_eq!(status, 503, "{why}");
    assert!(
        why.contains("connection_limit_reached") && why.contains("no local port"),
        "{why}"
    );
    eventually_true("the log says what to do", || {
        node.log().contains("ip_local_port_range")
    });
    eventually_true("there are ports again", || refused(&topology, 1).is_none());
}

#[test]
fn links_that_come_up_are_heard_and_those_that_go_down_are_not() {
    let mut topology = Topology::new();
    topology.add("edge").unwrap();
    let ip = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        topology.namespace("edge").unwrap().run(&words).unwrap()
    };
    ip("ip link add uplink type veth peer name far");
    // Nothing else is announced: no addresses that the kernel makes and tries.
    for link in ["uplink", "far"] {
        ip(&format!("ip link set {link} addrgenmode none"));
    }
    ip("ip link set far up");

    within(&topology, "edge", || {
        let mut here = tokio::runtime::Builder::new_current_thread();
        let here = here.enable_all().build().unwrap();
        here.block_on(async {
            let mut links = LinkChanges::hear().unwrap();
            ip("ip link set uplink up");
            links.next().await.unwrap();
            ip("ip addr add 192.0.2.7/24 dev uplink");
            links.next().await.unwrap();

            // What came with these is heard, too.
            let quiet = Duration::from_millis(500);
            while tokio::time::timeout(quiet, links.next()).await.is_ok() {}
            ip("ip link set uplink down");
            let heard = tokio::time::timeout(quiet, links.next()).await;
            assert!(heard.is_err(), "a link that went down");
        });
    });
}
