//! The PROXY protocol with Envoy on either side.

use hermes_tests::envoy::bootstrap;
use hermes_tests::raw::Raw;
use hermes_tests::{Envoy, Node, curl, origins};
use serde_json::json;

#[test]
fn envoy_introduces_its_clients_to_hermes() {
    let origin = origins::http();
    let sap = Node::start(
        "sap",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, proxy_protocol: accept, proxy_protocol_from: [127.0.0.0/8] }} }}\n\
             routes: [ {{ terminate: origin }} ]\nupstreams: {{ origin: {{ endpoints: [\"{}\"] }} }}\n",
            origin.address()
        ),
    );
    for version in [1, 2] {
        let cluster = bootstrap::introducing(bootstrap::origin("sap", sap.address("web")), version);
        let front = Envoy::start(
            "front",
            vec![bootstrap::plain_tcp("web", "sap")],
            vec![cluster],
        );
        let mut client = Raw::connect(front.address("web"));
        client.send("GET http://VIDEO/films HTTP/1.1\r\nHost: VIDEO\r\n\r\n");
        assert_eq!(client.head().status(), 200, "version {version}");
        let local = client.local().to_string();
        sap.record(|record| record["source"] == *local);
    }
}

#[test]
fn envoy_learns_from_hermes_whose_a_tunnel_is() {
    let origin = origins::http();
    let mut routes = bootstrap::forward("origin");
    for route in &mut routes {
        route["request_headers_to_add"] =
            json!([{ "header": { "key": "x-client", "value": "%DOWNSTREAM_REMOTE_ADDRESS%" } }]);
    }
    let listener = bootstrap::introduced(bootstrap::http("web", &routes));
    let behind = Envoy::start(
        "behind",
        vec![listener],
        vec![bootstrap::origin("origin", origin.address())],
    );
    for version in [1, 2] {
        let node = Node::start(
            "sap",
            &format!(
                "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ terminate: envoy }} ]\n\
                 upstreams: {{ envoy: {{ endpoints: [\"{}\"], proxy_protocol: {version} }} }}\n",
                behind.address("web")
            ),
        );
        let mut tunnel = Raw::tunnel(node.address("web"), "ENVOY:80", "").unwrap();
        tunnel.send("GET /films HTTP/1.1\r\nHost: VIDEO\r\n\r\n");
        assert_eq!(tunnel.head().status(), 200);
        assert_eq!(
            origin.last().field("x-client"),
            Some(tunnel.local().to_string())
        );
        // A kept connection is no one's.
        let got = curl(&["-x", &node.url("web"), "http://VIDEO/films"]);
        assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    }
}
