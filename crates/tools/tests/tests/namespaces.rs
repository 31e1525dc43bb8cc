//! An overlay across three networks: what the client asks for is on a network that it has no route to.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "namespaces/active_ftp.rs"]
mod active_ftp;
#[path = "namespaces/admin_socket.rs"]
mod admin_socket;
#[path = "namespaces/captured.rs"]
mod captured;
#[path = "namespaces/captured_programs.rs"]
mod captured_programs;
#[path = "namespaces/carriers.rs"]
mod carriers;
#[path = "namespaces/clients.rs"]
mod clients;
#[path = "namespaces/connect_ip_go.rs"]
mod connect_ip_go;
#[path = "namespaces/container.rs"]
mod container;
#[path = "namespaces/demo.rs"]
mod demo;
#[path = "namespaces/denied_flows.rs"]
mod denied_flows;
#[path = "namespaces/echoes.rs"]
mod echoes;
#[path = "namespaces/fast_open.rs"]
mod fast_open;
#[path = "namespaces/faults/mod.rs"]
mod faults;
#[path = "namespaces/firewall.rs"]
mod firewall;
#[path = "namespaces/flow_rego.rs"]
mod flow_rego;
#[path = "namespaces/flows.rs"]
mod flows;
#[path = "namespaces/full_disk.rs"]
mod full_disk;
#[path = "namespaces/handover.rs"]
mod handover;
#[path = "namespaces/hospitals.rs"]
mod hospitals;
#[path = "namespaces/hostile_packets.rs"]
mod hostile_packets;
#[path = "namespaces/identified.rs"]
mod identified;
#[path = "namespaces/intercept.rs"]
mod intercept;
#[path = "namespaces/intermittent.rs"]
mod intermittent;
#[path = "namespaces/ipv6_room.rs"]
mod ipv6_room;
#[path = "namespaces/link_local.rs"]
mod link_local;
#[path = "namespaces/local.rs"]
mod local;
#[path = "namespaces/machine_files.rs"]
mod machine_files;
#[path = "namespaces/mtu.rs"]
mod mtu;
#[path = "namespaces/multipath.rs"]
mod multipath;
#[path = "namespaces/named.rs"]
mod named;
#[path = "namespaces/nat.rs"]
mod nat;
#[path = "namespaces/nested.rs"]
mod nested;
#[path = "namespaces/netcheck.rs"]
mod netcheck;
#[path = "namespaces/overlay_disks.rs"]
mod overlay_disks;
#[path = "namespaces/overlay_partitions.rs"]
mod overlay_partitions;
#[path = "namespaces/own_traffic.rs"]
mod own_traffic;
#[path = "namespaces/packets.rs"]
mod packets;
#[path = "namespaces/queues.rs"]
mod queues;
#[path = "namespaces/rehoming.rs"]
mod rehoming;
#[path = "namespaces/scenario.rs"]
mod scenario;
#[path = "namespaces/senders.rs"]
mod senders;
#[path = "namespaces/slices.rs"]
mod slices;
#[path = "namespaces/split.rs"]
mod split;
#[path = "namespaces/stack.rs"]
mod stack;
#[path = "namespaces/still_disk.rs"]
mod still_disk;
#[path = "namespaces/still_folder.rs"]
mod still_folder;
#[path = "namespaces/successor.rs"]
mod successor;
#[path = "namespaces/super_packets.rs"]
mod super_packets;
#[path = "namespaces/surroundings.rs"]
mod surroundings;
#[path = "integration/tokens/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod tokens;
#[path = "namespaces/traffic.rs"]
mod traffic;
#[path = "namespaces/transparent/mod.rs"]
mod transparent;
#[path = "namespaces/tun.rs"]
mod tun;
#[path = "namespaces/tunnel_mtu.rs"]
mod tunnel_mtu;
#[path = "namespaces/user_space.rs"]
mod user_space;
#[path = "namespaces/why.rs"]
mod why;
#[path = "namespaces/wireguard/mod.rs"]
mod wireguard;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::eventually::eventually;
use hermes_tests::{Node, program, udp};

const CLIENT: &str = "
    identity: { user: alice }
    listeners: { web: { http: 127.0.0.1:8080 } }
    routes: [ { to: core } ]
    upstreams: { core: { endpoints: [10.0.1.2:8443], http: 2 } }
";

/// It listens to one network only and believes the proxies there.
const CORE: &str = "
    listeners: { overlay: { http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] } }
    routes: [ { match: { target: VIDEO, user: alice }, to: edge } ]
    upstreams: { edge: { endpoints: [10.0.2.2:8443], http: 2 } }
";

const EDGE: &str = "
    listeners: { overlay: { http: 10.0.2.2:8443, public: true, insecure_trust: [10.0.2.0/24] } }
    routes: [ { match: { target: VIDEO }, terminate: video } ]
    upstreams: { video: { endpoints: [127.0.0.1:8000] } }
";

/// The networks, with no route from one to the other.
fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["client", "core", "edge"] {
        topology.add(name).unwrap();
    }
    let plug = |namespace, address| Plug { namespace, address };
    topology
        .cable(plug("client", "10.0.1.1/24"), plug("core", "10.0.1.2/24"))
        .unwrap();
    topology
        .cable(plug("core", "10.0.2.1/24"), plug("edge", "10.0.2.2/24"))
        .unwrap();
    topology
}

/// A program in a namespace; dropping it ends the program.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn command(topology: &Topology, namespace: &str, program: &str) -> Command {
    topology.namespace(namespace).unwrap().command(program)
}

#[test]
fn a_client_reaches_a_service_on_a_network_that_it_has_no_route_to() {
    let topology = networks();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hello"), "hello from the other side").unwrap();
    let python = [
        "-m",
        "http.server",
        "8000",
        "--bind",
        "127.0.0.1",
        "--directory",
    ];
    let origin = command(&topology, "edge", &std::env::var("HERMES_PYTHON").unwrap())
        .args(python)
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _origin = Running(origin.unwrap());

    let hermes = program::path();
    let start = |name, yaml| {
        Node::start_by(
            command(&topology, name, hermes.to_str().unwrap()),
            name,
            yaml,
        )
    };
    let (edge, core, _client) = (
        start("edge", EDGE),
        start("core", CORE),
        start("client", CLIENT),
    );

    let client = topology.namespace("client").unwrap();
    let curl = std::env::var("HERMES_CURL").unwrap();
    let direct = client.run(&[
        curl.as_str(),
        "-s",
        "--connect-timeout",
        "1",
        "http://10.0.2.2:8443/",
    ]);
    assert!(direct.is_err(), "there must be no way but the overlay");
    for tunnel in ["--no-proxytunnel", "--proxytunnel"] {
        let ask = [
            curl.as_str(),
            "-sf",
            tunnel,
            "-x",
            "http://127.0.0.1:8080",
            "http://VIDEO/hello",
        ];
        // The origin may not listen yet.
        let said = eventually("an answer", || client.run(&ask).ok());
        assert_eq!(said, "hello from the other side", "{tunnel}");
    }
    for node in [&core, &edge] {
        let record = node.record(|record| record["kind"] == "connect");
        assert_eq!(record["user"], "alice", "{record:#}");
    }
}

/// Behind a router that lets in nothing but answers, as a NAT or a firewall does: who is there cannot be connected to.
const BEHIND: &str = "
    identity: { user: alice }
    listeners: { reach: { attach: core } }
    routes: [ { match: { listener: reach, target: \"ALICE:5004\" }, terminate: player } ]
    upstreams:
      core: { endpoints: [10.0.1.2:8443], http: 2 }
      player: { endpoints: [127.0.0.1:5004] }
";

/// What a server sends to its own port 5004 is for Alice's player.
const IN_FRONT: &str = "
    listeners:
      overlay: { http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.2.0/24] }
      video: { udp: 127.0.0.1:5004, target: \"ALICE:5004\", user: server }
    routes:
      - { match: { protocol: ptth }, attach: true }
      - { to: users }
    upstreams: { users: { attached: \"{target.host}\" } }
";

/// Alice, a router that lets only answers of port 8443 in, and the proxy on its other side.
fn behind_a_router() -> Topology {
    let mut topology = Topology::new();
    for name in ["alice", "router", "core"] {
        topology.add(name).unwrap();
    }
    let plug = |namespace, address| Plug { namespace, address };
    topology
        .cable(plug("alice", "10.0.2.2/24"), plug("router", "10.0.2.1/24"))
        .unwrap();
    topology
        .cable(plug("router", "10.0.1.1/24"), plug("core", "10.0.1.2/24"))
        .unwrap();
    topology.route("alice", "10.0.1.0/24", "10.0.2.1").unwrap();
    topology.route("core", "10.0.2.0/24", "10.0.1.1").unwrap();
    let router = topology.namespace("router").unwrap();
    let answers = "ip rule add pref 100 iif core ipproto tcp sport 8443 lookup main";
    for rule in [
        answers,
        "ip rule add pref 200 iif core to 10.0.2.0/24 prohibit",
    ] {
        router.run(&rule.split(' ').collect::<Vec<_>>()).unwrap();
    }
    topology
}

#[test]
fn udp_of_a_server_reaches_a_player_that_no_one_can_connect_to() {
    let topology = behind_a_router();
    let hermes = program::path();
    let start = |name, yaml| {
        Node::start_by(
            command(&topology, name, hermes.to_str().unwrap()),
            name,
            yaml,
        )
    };
    let (core, _alice) = (start("core", IN_FRONT), start("alice", BEHIND));
    // The way there is open for those on Alice's side of the router, and for no one else.
    let listening = within(&topology, "alice", || {
        TcpListener::bind("10.0.2.2:8000").unwrap()
    });
    let connects = || {
        TcpStream::connect_timeout(&"10.0.2.2:8000".parse().unwrap(), Duration::from_secs(1))
            .is_ok()
    };
    assert!(
        within(&topology, "router", connects),
        "the router reaches her"
    );
    assert!(
        !within(&topology, "core", connects),
        "there must be no way in"
    );
    drop(listening);

    let player = within(&topology, "alice", || {
        UdpSocket::bind("127.0.0.1:5004").unwrap()
    });
    std::thread::spawn(move || {
        let mut frame = [0; 2048];
        while let Ok((length, from)) = player.recv_from(&mut frame) {
            let _ = player.send_to(&frame[..length], from);
        }
    });
    eventually("she is attached", || {
        (core.status()["attached"].as_array()?.len() == 2).then_some(())
    });
    let server = within(&topology, "core", || {
        udp::Client::connect("127.0.0.1:5004".parse().unwrap())
    });
    assert_eq!(server.ask("frame 1"), b"frame 1");
    for frame in 2..100 {
        let frame = format!("frame {frame}");
        server.send(&frame);
        assert_eq!(server.receive(), frame.as_bytes());
    }
    let exchanges = core.exchanges();
    let session = exchanges
        .iter()
        .find(|one| one["kind"] == "connect-udp")
        .unwrap();
    assert_eq!(
        (&session["user"], &session["target"]),
        (&"server".into(), &"ALICE:5004".into()),
        "{session:#}"
    );
}

/// What a thread makes in a namespace; sockets stay there.
fn within<T: Send>(topology: &Topology, namespace: &str, make: impl FnOnce() -> T + Send) -> T {
    let namespace = topology.namespace(namespace).unwrap();
    std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            namespace.enter().unwrap();
            make()
        });
        made.join().unwrap()
    })
}
