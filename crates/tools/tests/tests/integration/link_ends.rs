//! A link over HTTP/3 that ends for an error: everything on it ends, of many users, and both ends say in their logs why.

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, Pki, curl, h3mistake};

/// What a node says that reaches such a server, and what its client is told.
fn said(how: &str, words: &str, reason: &str) {
    let pki = Pki::new();
    let server = h3mistake::start(&pki.issue(&["127.0.0.1"]), how);
    let node = Node::start(
        "near",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: far }} ]\n\
             upstreams: {{ far: {{ endpoints: [\"{}\"], http: 3, tls: {{ ca_file: {} }} }} }}\n",
            server.address,
            pki.ca().display()
        ),
    );
    let answer = curl(&["-x", &node.url("web"), "http://VIDEO/"]);
    assert_eq!(answer.status, 502, "{answer:?}");
    eventually_true(how, || node.log().contains(words));
    let log = node.log();
    assert!(log.contains(reason), "{log}");
}

#[test]
fn one_that_the_peer_closes_is_told_with_its_code_and_words() {
    said(
        "close",
        "the peer has closed a link over HTTP/3",
        "on purpose",
    );
}

#[test]
fn one_that_is_closed_for_a_mistake_of_the_peer_is_told_with_the_mistake() {
    said(
        "mistake",
        "a link over HTTP/3 is closed for an error of the peer",
        "SETTINGS",
    );
}
