//! TCP over POST: Envoy's `use_post` into Hermes, and Hermes's into Envoy's `allow_post`.

use hermes_tests::envoy::bootstrap::{self, Http};
use hermes_tests::raw::Raw;
use hermes_tests::{Envoy, Node, origins};
use serde_json::json;

use super::overlay::{DB, Origins};
use super::payloads;

const PATH: &str = "/tunnel";

/// A TCP port of Envoy's whose connections become POST.
fn envoy_posts(sap: &Node, version: Http) -> Envoy {
    let mut listener = bootstrap::tcp("db", "sap", DB);
    listener["filter_chains"][0]["filters"][0]["typed_config"]["tunneling_config"] =
        json!({ "hostname": DB, "use_post": true, "post_path": PATH });
    let cluster = match version {
        Http::H1 => bootstrap::origin("sap", sap.address("gate")),
        Http::H2 => bootstrap::cluster("sap", sap.address("gate"), version),
    };
    Envoy::start("dp", vec![listener], vec![cluster])
}

/// Ends tunnels at the database.
fn hermes_ends(origins: &Origins) -> Node {
    Node::start(
        "sap",
        &format!(
            r#"
            listeners: {{ gate: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes:
              - {{ match: {{ method: POST, path: {PATH}, target: "DB:5432" }}, tunnel: post, terminate: db }}
            upstreams: {{ db: {{ endpoints: ["{}"] }} }}
            "#,
            origins.db.address()
        ),
    )
}

/// Takes TCP in, and sends it on as POST.
fn hermes_posts(sap: std::net::SocketAddr, version: Http) -> Node {
    Node::start(
        "dp",
        &format!(
            r#"
            listeners: {{ db: {{ tcp: 127.0.0.1:0, target: "DB:5432" }}, web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ to: sap, tunnel: {{ post: {PATH} }} }} ]
            upstreams: {{ sap: {{ endpoints: ["{sap}"], http: {} }} }}
            "#,
            version.number()
        ),
    )
}

#[test]
fn envoy_posts_into_hermes() {
    let origins = Origins::start();
    let sap = hermes_ends(&origins);
    for version in Http::BOTH {
        let dp = envoy_posts(&sap, version);
        match version {
            // Envoy's HTTP/1.1 client closes a tunnel when its side ends, as with CONNECT.
            Http::H1 => payloads::conversation_without_farewell(dp.address("db"), &origins),
            Http::H2 => payloads::conversation(dp.address("db")),
        }
        let record = sap.record(|record| record["protocol"] == version.name());
        assert_eq!(
            (&record["method"], &record["status"]),
            (&"POST".into(), &200.into()),
            "{record}"
        );
    }
}

#[test]
fn hermes_posts_into_envoy() {
    let origins = Origins::start();
    let upgrade = json!({ "upgrade_type": "CONNECT", "connect_config": { "allow_post": true } });
    let headers = json!([{ "name": ":method", "string_match": { "exact": "POST" } }]);
    let route = json!({
        "match": { "path": PATH, "headers": headers },
        "route": { "cluster": "db", "timeout": "0s", "upgrade_configs": [upgrade] },
    });
    let clusters = vec![bootstrap::origin("db", origins.db.address())];
    let sap = Envoy::start("sap", vec![bootstrap::http("web", &[route])], clusters);
    for version in Http::BOTH {
        let dp = hermes_posts(sap.address("web"), version);
        payloads::conversation(dp.address("db"));
        let record = dp.record(|record| record["kind"] == "connect");
        assert_eq!(record["reason"], "done", "{record}");
    }
}

#[test]
fn hermes_posts_into_hermes_through_a_third() {
    let origins = Origins::start();
    let sap = hermes_ends(&origins);
    for (first, second) in [(Http::H1, Http::H2), (Http::H2, Http::H1)] {
        let middle = Node::start(
            "middle",
            &format!(
                r#"
                listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
                routes: [ {{ match: {{ method: POST }}, tunnel: post, to: sap }} ]
                upstreams: {{ sap: {{ endpoints: ["{}"], http: {} }} }}
                "#,
                sap.address("gate"),
                second.number()
            ),
        );
        let dp = hermes_posts(middle.address("web"), first);
        payloads::conversation(dp.address("db"));
        let mut client = Raw::tunnel(dp.address("web"), DB, "").unwrap();
        assert_eq!(
            client.exactly(origins::GREETING.len()),
            origins::GREETING.as_bytes()
        );
    }
}

#[test]
fn a_refused_post_is_a_refused_tunnel() {
    let origins = Origins::start();
    let sap = hermes_ends(&origins);
    for version in Http::BOTH {
        let dp = hermes_posts(sap.address("gate"), version);
        let head = Raw::tunnel(dp.address("web"), "NOWHERE:1", "").unwrap_err();
        assert_eq!(head.status(), 404, "{head:?}");
        assert!(
            head.field("proxy-status")
                .unwrap()
                .contains("destination_not_found"),
            "{head:?}"
        );
    }
}

#[test]
fn a_reset_goes_through_a_post() {
    let origin = origins::tcp_resets();
    let sap = Node::start(
        "sap",
        &format!(
            r#"
            listeners: {{ gate: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ match: {{ method: POST }}, tunnel: post, terminate: db }} ]
            upstreams: {{ db: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    for version in Http::BOTH {
        let dp = hermes_posts(sap.address("gate"), version);
        let mut client = Raw::connect(dp.address("db"));
        assert_eq!(client.exactly(4), b"half");
        origin.release();
        assert_eq!(client.rest().1, hermes_tests::raw::End::Reset);
    }
}
