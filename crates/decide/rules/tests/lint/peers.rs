//! Checks of peers.

use serde_json::{Value, json};

use super::finds;

/// A change that adds peers and the listener that knows them.
fn with_peers(peers: Value) -> Value {
    let tls = json!({ "cert_file": "c", "key_file": "k", "client_ca_file": "a" });
    json!({ "listeners": { "web": { "tls": tls } }, "peers": peers })
}

#[test]
fn peers_that_no_listener_can_know() {
    finds(
        json!({ "peers": { "dp": { "certificate": "dp.example" } } }),
        &[
            "peers: no listener can know a peer: none has `tls.client_ca_file`; add `tls.client_ca_file` to the listener that peers connect to",
        ],
    );
    finds(
        with_peers(json!({ "dp": { "certificate": "dp.example" } })),
        &[],
    );
}

#[test]
fn peer_without_certificate() {
    for certificate in [json!([]), json!("")] {
        finds(
            with_peers(json!({ "dp": { "certificate": certificate } })),
            &[
                "peers.dp.certificate: a peer without a name in its certificate, or a neighbour that it is, cannot be known; give a name that its certificate holds",
            ],
        );
    }
}

#[test]
fn peers_with_one_certificate() {
    finds(
        with_peers(json!({ "one": { "certificate": ["a", "b"] }, "two": { "certificate": "b" } })),
        &[
            "peers.two.certificate: `b` is the certificate of peer `one` already; give each peer a name of its own",
        ],
    );
}

#[test]
fn peers_that_are_neighbours() {
    let with = |peers: Value| {
        let key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        let known = json!({ "key": key, "address": "192.0.2.1:4500" });
        let custody = json!({ "key_file": "k", "neighbours": { "edge": known } });
        json!({ "defaults": { "custody": custody }, "peers": peers })
    };
    finds(with(json!({ "dp": { "neighbour": "edge" } })), &[]);
    finds(
        with(json!({ "dp": { "neighbour": "core" } })),
        &[
            "peers.dp.neighbour: `core` is not a neighbour in custody; name one of `defaults.custody.neighbours`",
        ],
    );
    finds(
        with(json!({ "one": { "neighbour": "edge" }, "two": { "neighbour": "edge" } })),
        &[
            "peers.two.neighbour: `edge` is peer `one` already; give each peer a neighbour of its own",
        ],
    );
}

#[test]
fn users_of_certificates_that_do_not_name_one() {
    let with = |certificate: Value, speaks_for: &str| {
        with_peers(
            json!({ "dp": { "certificate": certificate, "speaks_for": ["eve", speaks_for] } }),
        )
    };
    let family = "spiffe://example.org/user/{user}/*";
    finds(with(json!(family), "{user}"), &[]);
    finds(with(json!("spiffe://example.org/node/*"), "*"), &[]);

    let unnamed = "peers.dp.speaks_for[1]: not every name in `certificate` says who the user is; write `certificate: spiffe://example.org/user/{user}/*`";
    for certificate in [
        json!("dp.example"),
        json!([family, "dp.example"]),
        json!("spiffe://example.org/user/*"),
    ] {
        finds(with(certificate, "{user}"), &[unnamed]);
    }
    finds(
        with(json!(family), "*"),
        &[
            "peers.dp.certificate: `{user}` is not among those that it `speaks_for`; write `speaks_for: [\"{user}\"]`, or `*` in place of `{user}`",
        ],
    );
}

#[test]
fn peers_of_another_trust_domain() {
    let peer = |speaks_for: &str| {
        let id = "spiffe://b.test/node/hub";
        json!({ "b": { "certificate": id, "domain": "b.test", "speaks_for": [speaks_for] } })
    };
    for speaks_for in ["*@b.test", "alice@b.test", "*"] {
        finds(with_peers(peer(speaks_for)), &[]);
    }
    finds(
        with_peers(peer("alice")),
        &[
            "peers.b.speaks_for[0]: its users are known here by names that end with `@b.test`; write `alice@b.test`, or `*@b.test` for all of them",
        ],
    );
    finds(
        with_peers(json!({ "b": { "certificate": "spiffe://b/node/hub", "domain": "B b" } })),
        &[
            "peers.b.domain: `B b` is no trust domain; write lower-case names with dots between them: `overlay.example.org`",
        ],
    );
}

#[test]
fn authorities_of_other_trust_domains_stand_beside_our_own() {
    let tls = json!({ "cert_file": "c", "key_file": "k", "client_domains": { "b.test": "b" } });
    finds(
        json!({ "listeners": { "web": { "tls": tls } } }),
        &[
            "listeners.web.tls.client_domains: clients of other trust domains come beside those of our own; add `client_ca_file`",
        ],
    );
}
