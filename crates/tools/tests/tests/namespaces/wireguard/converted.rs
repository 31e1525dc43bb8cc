//! A file of `wg-quick` that `hermes convert` made a configuration of: the same packets reach the same peer.

use std::fs;

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, program};

use super::endpoint::{Endpoint, EndpointPeer, EndpointProgram};
use super::{Keys, echo, networks};
use crate::command;

#[test]
fn a_laptop_reaches_the_network_of_its_peer() {
    let topology = networks();
    let keys = Keys::new();
    // The server's peer is the host `last`, which has WireGuard's address 10.9.0.7.
    let peer = EndpointPeer {
        public_key: &keys.last.public,
        lines: String::new(),
        allowed: &["10.9.0.7/32"],
    };
    let server = Endpoint::start(&topology, "server", EndpointProgram::WireguardGo);
    server.configure(&keys.server.file, 51821, &peer);
    server.attach(&topology, "10.0.0.1/32", &peer);

    let key = fs::read_to_string(&keys.last.file).unwrap();
    let file = format!(
        "[Interface]\nPrivateKey = {}\nAddress = 10.9.0.7/24\nListenPort = 51820\n\n[Peer]\nPublicKey = {}\nAllowedIPs = 10.0.0.1/32, 10.0.9.0/24\n\
         Endpoint = 10.0.3.2:51821\nPersistentKeepalive = 25\n",
        key.trim(),
        keys.server.public
    );
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("wg0.conf");
    let to = folder.path().join("converted.yaml");
    fs::write(&from, file).unwrap();
    let said = program::run(&[
        "convert",
        "--from",
        "wireguard",
        from.to_str().unwrap(),
        "--to",
        to.to_str().unwrap(),
    ]);
    assert_eq!(said.code, 0, "{said:?}");

    let yaml = fs::read_to_string(&to).unwrap();
    let hermes = command(&topology, "last", program::path().to_str().unwrap());
    let _node = Node::start_in_by(folder, hermes, "last", &yaml);
    let last = topology.namespace("last").unwrap();
    eventually_true("an echo of the server", || {
        last.run(&["ping", "-c", "1", "-W", "1", "10.0.0.1"])
            .is_ok()
    });
    // No other host has a way there.
    assert!(!echo(&topology));
}
