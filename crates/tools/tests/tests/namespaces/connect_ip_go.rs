//! Packets between a device of Hermes and one of connect-ip-go, which is the client, or the proxy.

use std::path::Path;
use std::process::Stdio;

use hermes_lab::topology::Topology;
use hermes_tests::Pki;
use hermes_tests::eventually::{eventually, eventually_true};

use super::packets::{bulk, edge, networks, start};
use super::{Running, command};

/// What fits the first datagrams of its QUIC, whose size its program sets.
const MTU: &str = "1380";

/// Runs connect-ip-go in a namespace.
fn go(topology: &Topology, namespace: &str, words: &[&str]) -> Running {
    let peers = std::env::var("HERMES_PEERS")
        .expect("HERMES_PEERS names what was built: ./test system sets it");
    let program = format!("{peers}/connect-ip-go");
    let started = command(topology, namespace, &program)
        .args(words)
        .stdin(Stdio::piped())
        .spawn();
    Running(started.unwrap())
}

/// Gives a device that connect-ip-go makes this address, and leads these networks to it.
fn set_up(topology: &Topology, namespace: &str, device: &str, address: &str, routes: &[&str]) {
    let namespace = topology.namespace(namespace).unwrap();
    let run = |words: &str| namespace.run(&words.split(' ').collect::<Vec<_>>());
    eventually("the device of connect-ip-go", || {
        run(&format!("ip link show dev {device}")).ok()
    });
    run(&format!("ip link set dev {device} mtu {MTU} up")).unwrap();
    run(&format!("ip address add {address} dev {device}")).unwrap();
    for route in routes {
        run(&format!("ip route add {route} dev {device}")).unwrap();
    }
}

/// The addresses of IPv4 that were given out.
fn given(leases: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(leases).unwrap_or_default();
    let words = text.split_whitespace();
    let addresses = words.filter_map(|word| word.strip_suffix("/32"));
    addresses.map(str::to_owned).collect()
}

/// Whether an echo comes back to this address of Alice's.
fn echo(topology: &Topology, own: &str, to: &str) -> bool {
    let alice = topology.namespace("alice").unwrap();
    let asked = ["ping", "-c", "1", "-W", "1", "-I", own, to];
    alice.run(&asked).is_ok()
}

#[test]
fn three_clients_of_connect_ip_go_reach_what_is_behind_a_device() {
    let topology = networks();
    let pki = Pki::new();
    let tls = pki.issue(&["10.0.1.2"]).yaml();
    let folder = tempfile::tempdir().unwrap();
    let leases = folder.path().join("leases");
    let kept = format!("leases_file: {}, routes: [10.7", leases.display());
    let yaml = edge(&format!(", tls: {{ {tls} }}")).replace("routes: [10.7", &kept);
    let edge = start(&topology, "edge", &yaml);
    let ca = pki.ca();
    let ca = ca.to_str().unwrap();

    let mut clients = Vec::new();
    let mut addresses = Vec::new();
    for number in 0..3 {
        let device = format!("go{number}");
        let words = ["tun-client", ca, "10.0.1.2:8443", "10.0.1.2", &device];
        clients.push(go(&topology, "alice", &words));
        let address = eventually("a lease", || {
            let all = given(&leases);
            all.into_iter().find(|one| !addresses.contains(one))
        });
        addresses.push(address.clone());
        let routes: &[&str] = match number {
            0 => &["10.0.2.0/24"],
            _ => &[],
        };
        set_up(
            &topology,
            "alice",
            &device,
            &format!("{address}/32"),
            routes,
        );

        // Each to the device; what is behind it, too, by the first.
        let alice = topology.namespace("alice").unwrap();
        let table = (100 + number).to_string();
        let lead = [
            "ip", "route", "add", "10.7.0.1", "dev", &device, "table", &table,
        ];
        alice.run(&lead).unwrap();
        let choose = ["ip", "rule", "add", "from", &address, "lookup", &table];
        alice.run(&choose).unwrap();
        eventually_true("an echo", || echo(&topology, &address, "10.7.0.1"));
    }
    eventually_true("an echo of the server", || {
        echo(&topology, &addresses[0], "10.0.2.2")
    });
    bulk(&topology, "server", "10.0.2.2:5000");

    // Three tunnels, and each is ended by its own client alone.
    let device = &edge.status()["devices"][0];
    assert_eq!(device["tunnels"], 3, "{device:#}");
    clients.remove(2);
    for address in &addresses[..2] {
        assert!(echo(&topology, address, "10.7.0.1"));
    }
}

#[test]
fn a_device_gets_its_address_from_connect_ip_go() {
    let topology = networks();
    let pki = Pki::new();
    let issued = pki.issue(&["10.0.1.2"]);
    let [cert, key] = [&issued.cert, &issued.key].map(|file| file.to_str().unwrap());
    let words = ["tun-server", cert, key, "10.0.1.2:8443", "go0"];
    let _proxy = go(&topology, "edge", &words);
    let yaml = format!(
        "
        identity: {{ user: alice }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, routes: [10.41.0.0/24] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: go }} ]
        upstreams: {{ go: {{ endpoints: [10.0.1.2:8443], http: 3, tls: {{ ca_file: {} }} }} }}
        ",
        pki.ca().display()
    );
    let alice = start(&topology, "alice", &yaml);
    // The proxy makes its device when it has a tunnel, and gives everyone the same address.
    set_up(&topology, "edge", "go0", "10.41.0.1/24", &[]);
    eventually_true("an echo", || echo(&topology, "10.41.0.2", "10.41.0.1"));
    bulk(&topology, "edge", "10.41.0.1:5000");

    let device = &alice.status()["devices"][0];
    assert_eq!(device["addresses"][0], "10.41.0.2/32", "{device:#}");
}
