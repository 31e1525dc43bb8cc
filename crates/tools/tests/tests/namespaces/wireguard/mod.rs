//! Hosts without Hermes, whose packets WireGuard brings to a node and takes from one: the first and the last node have no device.

mod converted;
mod endpoint;
mod hostile;
mod names;
mod reload;
mod speaker;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, program};
use serde_json::Value;
use tempfile::TempDir;

use super::carriers::set_mtu;
use super::packets::{bulk, start};
use super::traffic::{Flow, Pings, serve};
use endpoint::{Endpoint, EndpointPeer, EndpointProgram};

/// The server's address, which it has on WireGuard's device.
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// A pair of keys.
struct Key {
    file: PathBuf,
    public: String,
}

/// The keys of both hosts and both nodes.
struct Keys {
    folder: TempDir,
    alice: Key,
    first: Key,
    last: Key,
    server: Key,
}

/// A new key, made by the command for that.
fn key(folder: &Path, name: &str) -> Key {
    let file = folder.join(name);
    let said = Command::new(program::path())
        .arg("wireguard-key")
        .arg(&file)
        .output()
        .unwrap();
    assert!(said.status.success(), "{said:?}");
    let public = String::from_utf8(said.stdout).unwrap().trim().to_owned();
    Key { file, public }
}

impl Keys {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [alice, first, last, server] =
            ["alice", "first", "last", "server"].map(|name| key(folder.path(), name));
        Self {
            folder,
            alice,
            first,
            last,
            server,
        }
    }

    /// The node that takes what Alice's WireGuard sends, with more listeners, and more of her peer.
    fn first_node(&self, peer: &str, listeners: &str) -> String {
        let (file, alice) = (self.first.file.display(), &self.alice.public);
        format!(
            "
            listeners:
              alice:
                user: alice
                tun:
                  name: alice
                  addresses: [10.9.0.7/24]
                  wireguard: {{ listen: 0.0.0.0:51820, private_key_file: {file}, peer: {{ public_key: {alice} {peer} }} }}
              {listeners}
            routes: [ {{ match: {{ kind: connect-ip }}, to: last }} ]
            upstreams: {{ last: {{ endpoints: [10.0.2.2:8443], http: 2 }} }}
            "
        )
    }

    /// The node that gives packets to the server's WireGuard.
    fn last_node(&self, more: &str) -> String {
        let (file, server) = (self.last.file.display(), &self.server.public);
        format!(
            "
            listeners: {{ overlay: {{ http: 10.0.2.2:8443, public: true, insecure_trust: [10.0.2.0/24] }} }}
            routes:
              - match: {{ kind: connect-ip }}
                terminate:
                  tun: server
                  pool: 10.9.0.0/24
                  routes: [10.0.0.0/24]
                  {more}
                  wireguard:
                    listen: 10.0.3.1:51820
                    private_key_file: {file}
                    peer: {{ public_key: {server}, endpoint: \"10.0.3.2:51821\", allowed: 10.0.0.1/32 }}
            "
        )
    }

    /// The server's WireGuard.
    fn server(&self, topology: &Topology, program: EndpointProgram) -> Endpoint {
        let peer = EndpointPeer {
            public_key: &self.last.public,
            lines: String::new(),
            allowed: &["10.9.0.0/24"],
        };
        let endpoint = Endpoint::start(topology, "server", program);
        endpoint.configure(&self.server.file, 51821, &peer);
        endpoint.attach(topology, "10.0.0.1/32", &peer);
        endpoint
    }

    /// Alice's WireGuard.
    fn alice(&self, topology: &Topology, program: EndpointProgram) -> Endpoint {
        self.alice_to(topology, program, &["10.0.0.0/24", "10.9.0.0/24"])
    }

    /// The same, with what is led to her node.
    fn alice_to(
        &self,
        topology: &Topology,
        program: EndpointProgram,
        allowed: &[&str],
    ) -> Endpoint {
        let peer = EndpointPeer {
            public_key: &self.first.public,
            lines: "endpoint=10.0.1.2:51820\n".to_owned(),
            allowed,
        };
        let endpoint = Endpoint::start(topology, "alice", program);
        endpoint.configure(&self.alice.file, 51821, &peer);
        endpoint.attach(topology, "10.9.0.7/32", &peer);
        endpoint
    }
}

/// Alice - first - last - server: no route leads from one to the next but one.
fn networks() -> Topology {
    let mut topology = Topology::new();
    let names = ["alice", "first", "last", "server"];
    for name in names {
        topology.add(name).unwrap();
    }
    for (number, pair) in (1..).zip(names.windows(2)) {
        let one = format!("10.0.{number}.1/24");
        let other = format!("10.0.{number}.2/24");
        let plug = |namespace, address| Plug { namespace, address };
        topology
            .cable(plug(pair[0], &one), plug(pair[1], &other))
            .unwrap();
    }
    topology
}

fn echo(topology: &Topology) -> bool {
    let alice = topology.namespace("alice").unwrap();
    let server = SERVER.to_string();
    alice.run(&["ping", "-c", "1", "-W", "1", &server]).is_ok()
}

/// Alice's machine gets another address on its network.
fn change_address(topology: &Topology) {
    let alice = topology.namespace("alice").unwrap();
    let run = |words: String| alice.run(&words.split(' ').collect::<Vec<_>>()).unwrap();
    let found = run("ip -o -4 addr show to 10.0.1.1/32".to_owned());
    let link = found.split_whitespace().nth(1).unwrap();
    run(format!("ip addr del 10.0.1.1/24 dev {link}"));
    run(format!("ip addr add 10.0.1.9/24 dev {link}"));
}

/// What a node shows of the other machine of its device.
fn shown(node: &Node, device: &str) -> Value {
    let status = node.status();
    let devices = status["devices"].as_array().unwrap();
    let found = devices.iter().find(|one| one["name"] == device);
    found.map_or(Value::Null, |found| found["wireguard"].clone())
}

#[test]
fn hosts_without_hermes_reach_each_other_and_may_move() {
    for programs in [
        [EndpointProgram::WireguardGo, EndpointProgram::Boringtun],
        [EndpointProgram::Boringtun, EndpointProgram::WireguardGo],
    ] {
        let topology = networks();
        let keys = Keys::new();
        let _server = keys.server(&topology, programs[1]);
        serve(&topology, "server");
        let last = start(&topology, "last", &keys.last_node(""));
        let first = start(&topology, "first", &keys.first_node("", ""));
        let alice = keys.alice(&topology, programs[0]);
        eventually_true("an echo of the server", || echo(&topology));
        bulk(&topology, "server", "10.0.0.1:5001");

        let seen = shown(&first, "alice");
        assert_eq!(seen["endpoint"], "10.0.1.1:51821", "{seen:#}");
        assert_eq!(seen["peer"], keys.alice.public.as_str(), "{seen:#}");
        assert_eq!(seen["public_key"], keys.first.public.as_str(), "{seen:#}");
        assert!(seen["last_handshake"].is_string(), "{seen:#}");
        let seen = shown(&last, "server");
        assert!(seen["sent_bytes"].as_u64().unwrap() > 4_000_000, "{seen:#}");
        let record = |node: &Node| node.exchanges()[0].clone();
        assert_eq!(record(&last)["user"], "alice", "{:#}", record(&last));

        // Her port changes under a connection, and her address where her program does not bind itself to it; her host says nothing of it.
        let flow = Flow::begin(&topology, "alice", SERVER, "server");
        let pings = Pings::begin(&topology, "alice", SERVER);
        alice.listen(51999);
        let mut elsewhere = "10.0.1.1:51999";
        if programs[0] == EndpointProgram::WireguardGo {
            change_address(&topology);
            elsewhere = "10.0.1.9:51999";
        }
        eventually_true("she is heard of from elsewhere", || {
            shown(&first, "alice")["endpoint"] == elsewhere
        });
        let before = shown(&first, "alice")["received_packets"].as_u64();
        eventually_true("and goes on", || {
            shown(&first, "alice")["received_packets"].as_u64() > before
        });
        assert!(flow.end() > 0);
        assert!(pings.end().asked > 0);
        eventually_true("an echo from there", || echo(&topology));
    }
}

#[test]
fn packets_too_long_for_the_other_machine_are_answered_with_what_fits() {
    let topology = networks();
    let keys = Keys::new();
    let _server = keys.server(&topology, EndpointProgram::WireguardGo);
    let _last = start(&topology, "last", &keys.last_node("mtu: 1300"));
    let _first = start(&topology, "first", &keys.first_node("", ""));
    let _alice = keys.alice(&topology, EndpointProgram::WireguardGo);
    eventually_true("an echo of the server", || echo(&topology));

    let long = [
        "ping", "-c", "1", "-W", "1", "-M", "do", "-s", "1300", "10.0.0.1",
    ];
    let alice = topology.namespace("alice").unwrap();
    eventually("what fits", || {
        let _ = alice.run(&long);
        let known = alice.run(&["ip", "route", "get", "10.0.0.1"]).unwrap();
        known.contains("mtu 1300").then_some(())
    });
    let fits = [
        "ping", "-c", "1", "-W", "5", "-M", "do", "-s", "1272", "10.0.0.1",
    ];
    alice.run(&fits).unwrap();
    bulk(&topology, "server", "10.0.0.1:5001");
}

#[test]
fn messages_longer_than_the_path_carries_travel_in_pieces() {
    let topology = networks();
    set_mtu(&topology, "alice", "first", "1300");
    set_mtu(&topology, "last", "server", "1300");
    let keys = Keys::new();
    // wireguard-go loses what it has the kernel cut for a narrow link.
    let _server = keys.server(&topology, EndpointProgram::Boringtun);
    let _last = start(&topology, "last", &keys.last_node(""));
    let _first = start(&topology, "first", &keys.first_node("", ""));
    let _alice = keys.alice(&topology, EndpointProgram::Boringtun);
    eventually_true("an echo of the server", || echo(&topology));
    bulk(&topology, "server", "10.0.0.1:5001");
}
