//! Captured traffic whose route leads to a proxy that is away: it goes to its destination from here.

use hermes_tests::{Node, program};

use super::super::command;
use super::network::{SERVERS, ask, hear, networks, run, serve};

/// A way that is dead: its packets are dropped.
const DEAD: &str = "10.0.9.1:8443";

/// A way that is refused: no one listens.
const REFUSED: &str = "10.0.2.2:8443";

fn configuration(edge: &str, capture: &str, direct: &str) -> String {
    format!(
        "
        listeners: {{ lan: {{ capture: {{ host: {{ interfaces: client{capture} }} }} }} }}
        routes: [ {{ to: edge, tunnel: {{ direct: {direct} }} }} ]
        upstreams: {{ edge: {{ endpoints: [\"{edge}\"] }} }}
        egress: {{ allow: [10.0.2.0/24, \"fd02::/64\"] }}
        "
    )
}

#[test]
fn captured_flows_go_from_here_where_the_way_is_dead_or_refused() {
    let topology = networks();
    serve(&topology, 8000);
    run(&topology, "router", "ip route add 10.0.9.0/25 via 10.0.2.2");
    run(&topology, "server", "ip route add blackhole 10.0.9.0/25");
    for (edge, capture, direct) in [
        (DEAD, "", "{ after: 100ms }"),
        (DEAD, ", split: true", "{ after: 100ms }"),
        (REFUSED, ", split: true", "fallback"),
    ] {
        let hermes = program::path();
        let node = Node::start_by(
            command(&topology, "router", hermes.to_str().unwrap()),
            "router",
            &configuration(edge, capture, direct),
        );
        for (address, router) in SERVERS.into_iter().zip(["10.0.2.1", "fd02::1"]) {
            assert_eq!(hear(&topology, "client", address, 8000).unwrap(), router);
            let heard = ask(&topology, "client", address, 8000).unwrap();
            assert_eq!(heard, format!("{router} hello"), "{edge} {capture}");
        }
        let record = node.record(|record| record["target"] == "[fd02::2]:8000");
        assert_eq!(record["upstream"], "(target)", "{record:#}");
    }
}
