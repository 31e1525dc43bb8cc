//! Peers that one entry stands for: a certificate of the family speaks for the user whom its SPIFFE ID names, and what only looks
//! like one is a client.

use std::net::SocketAddr;

use hermes_tests::head::Head;
use hermes_tests::{Node, Pki, Secured, origins};
use rustls::version::TLS13;

const FAMILY: &str = "spiffe://example.org/user/{user}/*";

/// A node that knows the devices of all users by one entry.
fn edge(pki: &Pki, origin: SocketAddr) -> Node {
    let server = pki.issue(&["127.0.0.1"]);
    let yaml = format!(
        "users: {{ carol: [caroline] }}\n\
         peers: {{ devices: {{ certificate: \"{FAMILY}\", speaks_for: [\"{{user}}\"] }} }}\n\
         listeners: {{ web: {{ http: 127.0.0.1:0, forged: refuse, tls: {{ {}, client_ca_file: {} }} }} }}\n\
         routes: [ {{ terminate: web }} ]\nupstreams: {{ web: {{ endpoints: [\"{origin}\"] }} }}\n",
        server.yaml(),
        pki.ca().display(),
    );
    Node::start("edge", &yaml)
}

/// What a proxy hears whose certificate has these names, and which says that it has an exchange of `user`.
fn answer(pki: &Pki, edge: &Node, names: &[&str], user: &str) -> Head {
    let config = pki.client(Some(&pki.issue(names)), &[&TLS13]);
    let mut stream = Secured::connect(edge.address("web"), &config);
    let fields = format!("user: {user}\r\n");
    stream.ask("GET http://site/", &fields).unwrap()
}

fn details(head: &Head) -> String {
    head.field("proxy-status").unwrap_or_default()
}

#[test]
fn a_device_speaks_for_the_user_of_its_certificate_and_for_no_one_else() {
    let (pki, origin) = (Pki::new(), origins::http());
    let edge = edge(&pki, origin.address());
    let laptop = ["spiffe://example.org/user/alice/laptop"];
    let phone = ["spiffe://example.org/user/bob/phone", "alice.overlay"];

    for (names, user) in [(&laptop[..], "alice"), (&phone, "bob")] {
        let head = answer(&pki, &edge, names, user);
        assert_eq!(head.status(), 200, "{head:?}");
        edge.record(|record| record["user"] == user);
    }
    // A name that `users` gives to someone is theirs in a certificate, too.
    let other = ["spiffe://example.org/user/caroline/x"];
    assert_eq!(answer(&pki, &edge, &other, "carol").status(), 200);

    for (names, user) in [
        (&laptop[..], "bob"),
        (&laptop, "Alice"),
        (&laptop, "alice/laptop"),
        (&laptop, "*"),
        (&laptop, "{user}"),
        (&phone, "alice"),
    ] {
        let head = answer(&pki, &edge, names, user);
        assert_eq!(head.status(), 403, "{names:?} {user}: {head:?}");
        let reason = format!("peer devices does not speak for user {user}");
        assert!(details(&head).contains(&reason), "{head:?}");
    }
}

#[test]
fn a_certificate_that_only_looks_like_one_of_the_family_is_a_clients() {
    let (pki, origin) = (Pki::new(), origins::http());
    let edge = edge(&pki, origin.address());
    for names in [
        &["spiffe://example.com/user/alice/laptop"][..],
        &["spiffe://example.org.evil.test/user/alice/laptop"],
        &["spiffe://Example.org/user/alice/laptop"],
        &["SPIFFE://example.org/user/alice/laptop"],
        &["https://example.org/user/alice/laptop"],
        &["spiffe://example.org/User/alice/laptop"],
        &["spiffe://example.org/user/alice"],
        &["spiffe://example.org/user//laptop"],
        &["spiffe://example.org/user/alice/"],
        &["spiffe://example.org/user/alice/laptop/"],
        &["spiffe://example.org/user/alice/laptop/x"],
        &["spiffe://example.org/user/x/../alice/laptop"],
        &["spiffe://example.org/user/al%69ce/laptop"],
        &["spiffe://example.org/user/alice%2Flaptop/x"],
        &["spiffe://example.org/user/{user}/laptop"],
        &["spiffe://example.org/user/alice/laptop?user=alice"],
        // Two IDs are none: it would not be known which of them counts.
        &[
            "spiffe://example.org/user/alice/laptop",
            "spiffe://example.org/user/bob/laptop",
        ],
    ] {
        let head = answer(&pki, &edge, names, "alice");
        assert_eq!(head.status(), 403, "{names:?}: {head:?}");
        let reason = "an unauthenticated client claims to be user alice";
        assert!(details(&head).contains(reason), "{names:?}: {head:?}");
    }
}
