//! Link-local addresses with their interface, in a listener and in an upstream: two machines on a cable that have no other addresses.

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::Node;
use hermes_tests::eventually::eventually;

use super::packets::start;

/// Alice - edge, and two more cables, so that an address without its interface would say nothing.
fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["alice", "edge", "other"] {
        topology.add(name).unwrap();
    }
    let plug = |namespace, address| Plug { namespace, address };
    for (from, to) in [
        (plug("alice", "10.0.1.1/24"), plug("edge", "10.0.1.2/24")),
        (plug("alice", "10.0.3.1/24"), plug("other", "10.0.3.2/24")),
        (plug("edge", "10.0.4.1/24"), plug("other", "10.0.4.2/24")),
    ] {
        topology.cable(from, to).unwrap();
    }
    topology
}

fn run(topology: &Topology, name: &str, words: &[&str]) -> String {
    topology.namespace(name).unwrap().run(words).unwrap()
}

/// The interface that leads from a machine to this address.
fn link(topology: &Topology, name: &str, to: &str) -> String {
    let said = run(topology, name, &["ip", "-o", "route", "get", to]);
    let mut words = said.split_whitespace().skip_while(|word| *word != "dev");
    words.nth(1).unwrap().to_owned()
}

/// The link-local address of an interface, once the kernel has found it to be its own.
fn address(topology: &Topology, name: &str, link: &str) -> String {
    eventually("a link-local address", || {
        let said = run(
            topology,
            name,
            &[
                "ip", "-6", "-o", "addr", "show", "dev", link, "scope", "link",
            ],
        );
        let mut words = said.split_whitespace().skip_while(|word| *word != "inet6");
        let found = words.nth(1).filter(|_| !said.contains("tentative"))?;
        found.split('/').next().map(str::to_owned)
    })
}

/// Has a machine ask its node for a page.
fn page(topology: &Topology) -> Result<String, String> {
    let words = [
        "curl",
        "-s",
        "-m",
        "20",
        "-w",
        "%{http_code}",
        "-x",
        "http://127.0.0.1:8080",
        "http://a/",
    ];
    let said = topology.namespace("alice").unwrap().run(&words);
    said.map_err(|error| error.to_string())
}

fn near(endpoint: &str, http: &str) -> String {
    format!(
        "
        listeners: {{ web: {{ http: 127.0.0.1:8080 }} }}
        routes: [ {{ to: edge }} ]
        upstreams: {{ edge: {{ endpoints: [\"{endpoint}\"], http: {http}, timeouts: {{ connect: 2s }} }} }}
        "
    )
}

#[test]
fn a_listener_and_an_upstream_have_link_local_addresses() {
    let topology = networks();
    let links = [
        link(&topology, "alice", "10.0.1.2"),
        link(&topology, "edge", "10.0.1.1"),
    ];
    let at = address(&topology, "edge", &links[1]);
    address(&topology, "alice", &links[0]);
    // Nothing of IPv4 is left on the cable.
    for (name, link) in ["alice", "edge"].into_iter().zip(&links) {
        run(&topology, name, &["ip", "-4", "addr", "flush", "dev", link]);
    }

    let edge = start(
        &topology,
        "edge",
        &format!(
            "
            listeners: {{ overlay: {{ http: \"[{at}%{}]:8443\", public: true, insecure_trust: [\"fe80::/10\"] }} }}
            routes: [ {{ respond: {{ status: 200, body: \"by the cable \" }} }} ]
            ",
            links[1]
        ),
    );
    for http in ["1", "2"] {
        let endpoint = format!("[{at}%{}]:8443", links[0]);
        let alice = start(&topology, "alice", &near(&endpoint, http));
        assert_eq!(page(&topology).unwrap(), "by the cable 200", "HTTP/{http}");
        let shown = alice.status()["upstreams"][0]["endpoints"][0].clone();
        assert_eq!(shown["address"], endpoint, "{shown:#}");
    }
    let record = edge.record(|record| record["status"] == 200);
    assert!(
        record["source"].as_str().unwrap().starts_with("[fe80::"),
        "{record:#}"
    );
    no_other_interface_leads_there(&topology, &at);
}

/// By another cable the address is no one's; by no interface of that name nothing is tried.
fn no_other_interface_leads_there(topology: &Topology, at: &str) {
    let other = link(topology, "alice", "10.0.3.2");
    for link in [other.as_str(), "nowhere0"] {
        let alice: Node = start(
            topology,
            "alice",
            &near(&format!("[{at}%{link}]:8443"), "1"),
        );
        let said = page(topology).unwrap();
        assert!(
            said.ends_with("502") || said.ends_with("503") || said.ends_with("504"),
            "{link}: {said}"
        );
        let record = alice.record(|record| record["event"] == "end");
        assert!(record["reason"].as_str().unwrap().len() > 10, "{record:#}");
    }
}
