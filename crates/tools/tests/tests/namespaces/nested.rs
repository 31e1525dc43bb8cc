//! IP packets through nested chains: a tunnel inside a tunnel, so that no proxy on the way sees the packets or whose they are.

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, Pki};

use super::packets::{bulk, own_address, start};

/// The most proxies in a chain.
const HOPS: u8 = 4;

fn hop(number: u8) -> &'static str {
    ["hop1", "hop2", "hop3", "hop4"][usize::from(number) - 1]
}

/// Alice - hop1 - hop2 - hop3 - hop4: each knows its neighbours alone.
fn networks() -> Topology {
    let mut topology = Topology::new();
    topology.add("alice").unwrap();
    for number in 1..=HOPS {
        topology.add(hop(number)).unwrap();
        let before = match number {
            1 => "alice",
            number => hop(number - 1),
        };
        let [near, far] = [1, 2].map(|host| format!("10.0.{number}.{host}/24"));
        let plug = |namespace, address| Plug { namespace, address };
        topology
            .cable(plug(before, &near), plug(hop(number), &far))
            .unwrap();
    }
    topology
}

/// A proxy that knows its client by a certificate, lets it reach the next one, and gives it addresses if it is the last.
fn proxy(topology: &Topology, pki: &Pki, number: u8) -> Node {
    let own = pki.issue(&[&format!("hop{number}.overlay")]).yaml();
    let ca = pki.ca().display().to_string();
    let yaml = format!(
        "
        listeners: {{ overlay: {{ http: 10.0.{number}.2:8443, public: true, auth: mtls, tls: {{ {own}, client_ca_file: {ca} }} }} }}
        peers: {{ alice: {{ certificate: alice.overlay, speaks_for: [alice] }} }}
        routes:
          - match: {{ kind: connect-ip }}
            terminate: {{ tun: hermes1, pool: [10.7.0.0/24, \"fd07::/64\"] }}
          - match: {{ target: \"10.0.{}.2\" }}
            terminate: true
        egress: {{ allow: [10.0.0.0/16, 10.7.0.1/32, \"fd07::1/128\"] }}
        ",
        number + 1
    );
    start(topology, hop(number), &yaml)
}

/// Alice's machine, which passes so many proxies.
fn alice(topology: &Topology, pki: &Pki, hops: u8, version: u8) -> Node {
    let own = pki.issue(&["alice.overlay"]).yaml();
    let ca = pki.ca().display().to_string();
    let names: Vec<String> = (1..=hops).map(|number| format!("next{number}")).collect();
    let upstreams: String = (1..=hops)
        .map(|number| {
            format!(
                "next{number}: {{ endpoints: [\"10.0.{number}.2:8443\"], http: {version}, tls: {{ ca_file: {ca}, server_name: hop{number}.overlay, {own} }} }},"
            )
        })
        .collect();
    let yaml = format!(
        "
        identity: {{ user: alice }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, routes: [10.7.0.0/24, \"fd07::/64\"] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: [{}] }} ]
        upstreams: {{ {upstreams} }}
        ",
        names.join(", ")
    );
    start(topology, "alice", &yaml)
}

fn echo(topology: &Topology, to: &str) -> bool {
    let alice = topology.namespace("alice").unwrap();
    alice.run(&["ping", "-c", "1", "-W", "1", to]).is_ok()
}

#[test]
fn packets_cross_chains_of_one_to_four_proxies_that_see_nothing_of_them() {
    for version in [2, 3] {
        let topology = networks();
        let pki = Pki::new();
        let proxies: Vec<Node> = (1..=HOPS)
            .map(|number| proxy(&topology, &pki, number))
            .collect();

        for hops in 1..=HOPS {
            let mut alice = alice(&topology, &pki, hops, version);
            for to in ["10.7.0.1", "fd07::1"] {
                eventually_true(&format!("an echo of {to} behind {hops} proxies"), || {
                    echo(&topology, to)
                });
            }
            let last = hop(hops);
            bulk(&topology, last, "10.7.0.1:5000");
            let address = own_address(&topology);
            let way_back = topology.namespace(last).unwrap();
            way_back
                .run(&["ping", "-c", "1", "-W", "5", &address])
                .unwrap();

            for (number, node) in (1..).zip(&proxies) {
                let exchanges = node.exchanges();
                let ip: Vec<_> = exchanges
                    .iter()
                    .filter(|one| one["kind"] == "connect-ip")
                    .collect();
                let expected = usize::from(number == hops);
                assert_eq!(ip.len(), expected, "hop {number} of {hops}: {exchanges:#?}");
                if number < hops {
                    // Another tunnel: of TLS, or of QUIC.
                    assert!(!exchanges.is_empty(), "hop {number} of {hops}");
                }
            }

            // Its addresses are free again at once.
            assert!(alice.stop().success());
            eventually("the tunnel has ended", || {
                let ends = &proxies[usize::from(hops) - 1];
                (ends.status()["devices"][0]["tunnels"] == 0).then_some(())
            });
        }
    }
}
