//! An overlay across three networks: what the client asks for is on a network that it has no route to.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::process::{Child, Command, Stdio};

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::eventually::eventually;
use hermes_tests::{Node, program};

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
    topology.cable(plug("client", "10.0.1.1/24"), plug("core", "10.0.1.2/24")).unwrap();
    topology.cable(plug("core", "10.0.2.1/24"), plug("edge", "10.0.2.2/24")).unwrap();
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
    let python = ["-m", "http.server", "8000", "--bind", "127.0.0.1", "--directory"];
    let origin = command(&topology, "edge", &std::env::var("HERMES_PYTHON").unwrap())
        .args(python)
        .arg(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _origin = Running(origin.unwrap());

    let hermes = program::path();
    let start = |name, yaml| Node::start_by(command(&topology, name, hermes.to_str().unwrap()), name, yaml);
    let (edge, core, _client) = (start("edge", EDGE), start("core", CORE), start("client", CLIENT));

    let client = topology.namespace("client").unwrap();
    let curl = std::env::var("HERMES_CURL").unwrap();
    let direct = client.run(&[curl.as_str(), "-s", "--connect-timeout", "1", "http://10.0.2.2:8443/"]);
    assert!(direct.is_err(), "there must be no way but the overlay");
    for tunnel in ["--no-proxytunnel", "--proxytunnel"] {
        let ask = [curl.as_str(), "-sf", tunnel, "-x", "http://127.0.0.1:8080", "http://VIDEO/hello"];
        // The origin may not listen yet.
        let said = eventually("an answer", || client.run(&ask).ok());
        assert_eq!(said, "hello from the other side", "{tunnel}");
    }
    for node in [&core, &edge] {
        let record = node.record(|record| record["kind"] == "connect");
        assert_eq!(record["user"], "alice", "{record:#}");
    }
}
