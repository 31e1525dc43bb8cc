//! Whose the requests of a neighbour in custody are.

use std::net::SocketAddr;

use hermes_tests::{Node, curl, free, origins};

use super::row::key;

/// A node for clients, with two listeners, and one for their targets that knows it as `home`, with these lines.
fn nodes(peers: &str, origin: SocketAddr) -> (Node, Node) {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let keys = folders.each_ref().map(|folder| key(folder.path()));
    let at = free::udp();
    let far = format!(
        "defaults: {{ custody: {{ key_file: key, neighbours: {{ home: {{ key: \"{}\" }} }} }} }}\n\
         listeners: {{ in: {{ udp: \"{at}\", ingress: custody }} }}\n\
         routes: [ {{ terminate: \"{origin}\" }} ]\n{peers}",
        keys[0]
    );
    let near = format!(
        "defaults: {{ custody: {{ key_file: key, neighbours: {{ far: {{ key: \"{}\", address: \"{at}\" }} }} }} }}\n\
         listeners: {{ a: {{ http: 127.0.0.1:0, user: alice }}, m: {{ http: 127.0.0.1:0, user: mallory }} }}\n\
         routes: [ {{ to: far, retry: {{ custody: true }} }} ]\n\
         upstreams: {{ far: {{ endpoints: [\"127.0.0.1:9\"] }} }}\n",
        keys[1]
    );
    let [first, second] = folders;
    (
        Node::start_in(first, "near", &near, &[]),
        Node::start_in(second, "far", &far, &[]),
    )
}

fn ask(near: &Node, listener: &str, path: &str) -> u16 {
    let proxy = near.url(listener);
    curl(&["-x", &proxy, &format!("http://site/{path}")]).status
}

#[test]
fn a_neighbour_is_believed_about_those_for_whom_it_speaks() {
    let origin = origins::http();
    let peers = "peers: { node: { neighbour: home, speaks_for: [alice] } }\n";
    let (near, far) = nodes(peers, origin.address());
    assert_eq!(ask(&near, "a", "bytes/1"), 200);
    assert_eq!(ask(&near, "m", "bytes/2"), 403);
    let whose = |path: &str| {
        let of = |record: &serde_json::Value| record["target"].as_str().unwrap().ends_with(path);
        far.record(of)["user"].clone()
    };
    assert_eq!(whose("/bytes/1"), "alice");
    assert_ne!(whose("/bytes/2"), "mallory");
}

#[test]
fn a_neighbour_that_is_no_peer_says_nothing_of_users() {
    let origin = origins::http();
    let (near, far) = nodes("", origin.address());
    assert_eq!(ask(&near, "a", "bytes/1"), 200);
    assert!(far.record(|_| true)["user"].is_null());
}
