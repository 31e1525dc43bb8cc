//! A trace through Envoy.

use hermes_tests::envoy::bootstrap::{self, Http};
use hermes_tests::{Envoy, Node, curl, origins};

use super::overlay::{Hops, Origins, dependent};

const CLIENTS: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn what_passes_envoy_between_two_nodes_is_one_trace() {
    let origins = Origins::start();
    for (first, second) in [(Http::H1, Http::H2), (Http::H2, Http::H1)] {
        // Only who is believed may continue a trace.
        let sap = origins.standalone_with(
            "sap",
            "  web: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }\n",
        );
        let listeners = vec![bootstrap::http("web", &bootstrap::forward("sap"))];
        let middle = Envoy::start(
            "middle",
            listeners,
            vec![bootstrap::cluster("sap", sap.address("web"), second)],
        );
        let dp = dependent(&Hops::all(middle.address("web")), first, "");
        let got = curl(&["-x", &dp.url("web"), "http://VIDEO/films"]);
        assert_eq!(got.status, 200, "{got:?}");
        super::payloads::sealed(&dp.url("web"), &origins);
        for kind in ["http", "connect"] {
            let [entry, end] = [&dp, &sap].map(|node| node.record(|record| record["kind"] == kind));
            assert_eq!(entry["trace"], end["trace"], "{kind}");
            assert_ne!(entry["span"], end["span"], "{kind}");
        }
        let trace = dp.record(|record| record["kind"] == "http")["trace"]
            .as_str()
            .unwrap()
            .to_owned();
        let told = origins
            .video
            .last()
            .field("traceparent")
            .unwrap_or_default();
        assert!(told.contains(&trace), "{told} is not of {trace}");
    }
}

#[test]
fn a_trace_that_began_before_envoy_goes_on_in_hermes() {
    let origin = origins::http();
    let sap = Node::start(
        "sap",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, trace: continue }} }}\nroutes: [ {{ terminate: origin }} ]\n\
             upstreams: {{ origin: {{ endpoints: [\"{}\"] }} }}\n",
            origin.address()
        ),
    );
    for version in Http::BOTH {
        let listeners = vec![bootstrap::http("web", &bootstrap::forward("sap"))];
        let dp = Envoy::start(
            "dp",
            listeners,
            vec![bootstrap::cluster("sap", sap.address("web"), version)],
        );
        let field = format!("traceparent: 00-{CLIENTS}-00f067aa0ba902b7-01");
        let got = curl(&["-x", &dp.url("web"), "-H", &field, "http://VIDEO/films"]);
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(
            sap.record(|record| record["protocol"] == version.name())["trace"],
            CLIENTS
        );
    }
}
