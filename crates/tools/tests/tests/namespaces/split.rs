//! One device whose packets go into several tunnels, by their destinations.

use std::io::Read;
use std::net::TcpStream;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::Node;
use hermes_tests::eventually::{eventually, eventually_true};
use serde_json::Value;

use super::intercept::start_without_rights;
use super::packets::{bulk_by, start};
use super::traffic::Pings;
use super::within;

/// Two ends, and three servers behind them; only the ends know the servers, one of which has an address out of the network of another.
fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["alice", "west", "east", "library", "archive", "lab"] {
        topology.add(name).unwrap();
    }
    let cables = [
        ("alice", "10.0.1.1/24", "west", "10.0.1.2/24"),
        ("alice", "10.0.2.1/24", "east", "10.0.2.2/24"),
        ("west", "10.1.0.1/24", "library", "10.1.0.2/24"),
        ("west", "10.3.0.1/24", "archive", "10.3.0.2/24"),
        ("east", "10.1.0.10/29", "lab", "10.1.0.9/29"),
    ];
    for (one, its, other, others) in cables {
        let plug = |namespace, address| Plug { namespace, address };
        topology.cable(plug(one, its), plug(other, others)).unwrap();
    }
    for (server, by) in [
        ("library", "10.1.0.1"),
        ("archive", "10.3.0.1"),
        ("lab", "10.1.0.10"),
    ] {
        topology.route(server, "10.7.0.0/24", by).unwrap();
    }
    topology
}

/// An end, for these networks.
fn end(address: &str, pool: &str, routes: &str) -> String {
    format!(
        "
        listeners:
          overlay: {{ http: {address}:8443, public: true, insecure_trust: [10.0.0.0/16] }}
        routes:
          - match: {{ kind: connect-ip }}
            terminate: {{ tun: hermes1, pool: [{pool}], routes: [{routes}] }}
        egress: {{ allow: [10.7.0.1/32, 10.8.0.1/32, 10.1.0.1/32, 10.1.0.9/32, 10.3.0.1/32] }}
        "
    )
}

fn ends(topology: &Topology, east_pool: &str) -> [Node; 2] {
    let west = end("10.0.1.2", "10.7.0.0/24", "10.1.0.0/24, 10.3.0.0/24");
    let east = end("10.0.2.2", east_pool, "10.1.0.8/29");
    [
        start(topology, "west", &west),
        start(topology, "east", &east),
    ]
}

const LAB: &str = "lab: { prefixes: 10.1.0.9/32, set: { destination: east } }";

/// Alice's machine, with the tunnels that are given beside those to the library and the archive.
fn alice(device: &str, tunnels: &str) -> String {
    format!(
        "
        identity: {{ user: alice }}
        listeners:
          vpn:
            tun:
              name: hermes0
              {device}
              routes: [10.9.0.0/16]
              exclude: [10.3.0.128/25]
              tunnels:
                library: {{ prefixes: 10.1.0.0/24, set: {{ destination: west }} }}
                archive: {{ prefixes: [10.3.0.0/24], set: {{ destination: west }}, user: alice }}
                {tunnels}
        routes:
          - {{ match: {{ kind: connect-ip, fields: {{ destination: west }} }}, to: west }}
          - {{ match: {{ kind: connect-ip, fields: {{ destination: east }} }}, to: east }}
          - {{ match: {{ kind: connect-ip, fields: {{ destination: beside }} }}, to: beside }}
        upstreams:
          west: {{ endpoints: [10.0.1.2:8443], http: 2 }}
          east: {{ endpoints: [10.0.2.2:8443], http: 2 }}
          beside: {{ endpoints: [10.0.2.2:8443], http: 2 }}
        "
    )
}

fn echo(topology: &Topology, to: &str) -> Result<String, String> {
    let alice = topology.namespace("alice").unwrap();
    let said = alice.run(&["ping", "-c", "1", "-W", "1", to]);
    said.map_err(|error| error.to_string())
}

fn reaches(topology: &Topology, to: &str) {
    eventually(&format!("an echo of {to}"), || echo(topology, to).ok());
}

/// What is to be seen of a tunnel of the device.
fn tunnel(node: &Node, name: &str) -> Option<Value> {
    let status = node.status();
    let split = status["devices"][0]["split"].as_array()?;
    split
        .iter()
        .find(|tunnel| tunnel["tunnel"] == name)
        .cloned()
}

fn applied(node: &Node, yaml: &str) -> Value {
    let (status, said) = node.reload(yaml);
    assert_eq!(status, 200, "{said:#}");
    said
}

#[test]
fn packets_take_the_tunnel_of_the_longest_prefix_and_a_change_of_one_disturbs_no_other() {
    let topology = networks();
    let [_west, east] = ends(&topology, "10.6.0.0/24, 10.7.0.0/24");
    let address = "addresses: [10.7.0.77/24]";
    let node = start(&topology, "alice", &alice(address, LAB));

    // Two tunnels end at one device; the third is for an address out of the network of the first.
    for server in ["10.1.0.2", "10.3.0.2", "10.1.0.9"] {
        reaches(&topology, server);
    }
    for name in ["library", "archive", "lab"] {
        let seen = tunnel(&node, name).unwrap();
        assert!(seen["since"].is_string(), "{seen:#}");
    }
    let to_east = east.exchanges();
    assert_eq!(to_east.len(), 1, "{to_east:#?}");
    let before = &to_east[0]["id"];

    // What is excluded takes the machine's own way, and what no tunnel has none.
    let network = topology.namespace("alice").unwrap();
    let way = |to: &str| network.run(&["ip", "route", "get", to]);
    assert!(way("10.3.0.127").unwrap().contains("hermes0"));
    assert!(way("10.3.0.129").is_err_and(|error| !error.to_string().contains("hermes0")));
    let told = echo(&topology, "10.9.0.1").unwrap_err();
    assert!(told.contains("nreachable"), "{told}");

    // The fields of one change, then its prefixes, and then it goes and comes back.
    let others = [[10, 1, 0, 2], [10, 3, 0, 2]];
    let others = others.map(|server| Pings::begin(&topology, "alice", server.into()));
    let own = Pings::begin(&topology, "alice", [10, 1, 0, 9].into());
    let beside = LAB.replace("east", "beside");
    let said = applied(&node, &alice(address, &beside));
    assert_eq!(said["tunnels"]["moved"], 1, "{said:#}");
    assert_eq!(said["tunnels"]["kept"], 2, "{said:#}");
    eventually_true("it has moved", || {
        let exchanges = east.exchanges();
        exchanges.len() == 1 && exchanges[0]["id"] != *before
    });
    let wider = beside.replace("10.1.0.9/32", "[10.1.0.8/29]");
    let said = applied(&node, &alice(address, &wider));
    assert_eq!(said["tunnels"]["kept"], 3, "{said:#}");
    eventually_true("it has another prefix", || {
        tunnel(&node, "lab").is_some_and(|seen| seen["prefixes"][0] == "10.1.0.8/29")
    });
    assert_eq!(own.end().lost, 0);

    applied(&node, &alice(address, ""));
    eventually_true("it has ended", || east.exchanges().is_empty());
    assert!(tunnel(&node, "lab").is_none());
    applied(&node, &alice(address, LAB));
    reaches(&topology, "10.1.0.9");
    for asked in others {
        assert_eq!(asked.end().lost, 0);
    }
}

#[test]
fn the_first_tunnel_gives_the_address_and_one_that_gives_another_is_refused() {
    let topology = networks();
    let _ends = ends(&topology, "10.6.0.0/24");
    let node = start(&topology, "alice", &alice("", ""));
    reaches(&topology, "10.1.0.2");
    reaches(&topology, "10.3.0.2");

    applied(&node, &alice("", LAB));
    let reason = eventually("the reason", || {
        let seen = tunnel(&node, "lab")?;
        seen["ended"].as_str().map(str::to_owned)
    });
    assert!(
        reason.contains("was assigned 10.6.0.") && reason.contains("the device has 10.7.0."),
        "{reason}"
    );
    // A prefix whose tunnel is not open leads nowhere, and not into that of a shorter one.
    let told = echo(&topology, "10.1.0.9").unwrap_err();
    assert!(told.contains("nreachable"), "{told}");
    reaches(&topology, "10.1.0.2");
}

#[test]
fn a_tunnel_that_gives_another_address_is_translated_where_it_may_be() {
    let topology = networks();
    topology.route("lab", "10.6.0.0/24", "10.1.0.10").unwrap();
    let _ends = ends(&topology, "10.6.0.0/24");
    let device = "addresses: [10.7.0.77/24]\n              other_address: nat";
    let node = start(&topology, "alice", &alice(device, LAB));
    for server in ["10.1.0.2", "10.3.0.2", "10.1.0.9"] {
        reaches(&topology, server);
    }
    let device = &node.status()["devices"][0];
    let translated = device["translated"].as_array().unwrap();
    assert_eq!(translated.len(), 1, "{device:#}");
    let addresses = device["addresses"].as_array().unwrap();
    assert_eq!(addresses.len(), 1, "{device:#}");
    assert_eq!(translated[0]["device"], "10.7.0.77", "{device:#}");
    let tunnel = translated[0]["tunnel"].as_str().unwrap();
    assert!(tunnel.starts_with("10.6.0."), "{device:#}");
}

/// Alice's machine without rights: connections to both ends, and to no one.
const STACK: &str = "
    identity: { user: alice }
    log: { access: { file: access.json } }
    listeners:
      office:
        tun:
          name: office
          stack: true
          addresses: [10.7.0.77/24]
          tunnels:
            library: { prefixes: 10.1.0.0/24, set: { destination: west } }
            lab: { prefixes: 10.1.0.9/32, set: { destination: east } }
      library: { tcp: 127.0.0.1:5001, target: 10.1.0.2:5000 }
      lab: { tcp: 127.0.0.1:5002, target: 10.1.0.9:5000 }
      nowhere: { tcp: 127.0.0.1:5003, target: 10.9.0.1:5000 }
    routes:
      - { match: { kind: connect-ip, fields: { destination: west } }, to: west }
      - { match: { kind: connect-ip, fields: { destination: east } }, to: east }
      - { match: { kind: connect }, terminate: { ip: office } }
    upstreams:
      west: { endpoints: [10.0.1.2:8443], http: 2 }
      east: { endpoints: [10.0.2.2:8443], http: 2 }
";

#[test]
fn a_stack_sends_its_packets_into_the_tunnel_of_the_longest_prefix() {
    let topology = networks();
    let [_west, east] = ends(&topology, "10.6.0.0/24, 10.7.0.0/24");
    let node = start_without_rights(&topology, "alice", STACK);
    let has = |name: &str| tunnel(&node, name).is_some_and(|one| !one["since"].is_null());
    eventually_true("both tunnels are open", || has("library") && has("lab"));
    bulk_by(&topology, "library", "10.1.0.2:5000", "127.0.0.1:5001");
    bulk_by(&topology, "lab", "10.1.0.9:5000", "127.0.0.1:5002");

    // What no tunnel has leads nowhere, and neither does what one has that is not open: not to that of a shorter prefix.
    let refused = |port: u16| {
        let mut client = within(&topology, "alice", || {
            TcpStream::connect(("127.0.0.1", port)).unwrap()
        });
        let ended = client.read(&mut [0; 1]);
        assert!(ended.is_err() || ended.is_ok_and(|length| length == 0));
    };
    refused(5003);
    let record = node.record(|record| record["listener"] == "nowhere");
    let reason = record["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("destination_ip_unroutable"),
        "{record:#}"
    );

    drop(east);
    eventually_true("the tunnel to the lab has ended", || !has("lab"));
    refused(5002);
    bulk_by(&topology, "library", "10.1.0.2:5000", "127.0.0.1:5001");
}
