//! Envoy as the dependent proxy, Hermes as the standalone proxy.

use hermes_tests::envoy::bootstrap::{self, Http};
use hermes_tests::{Envoy, Node, curl, h2c};

use super::overlay::{DB, Origins};
use super::payloads;

/// Envoy in front of `sap`: an HTTP proxy (`web`), a TCP port (`db`) and a UDP port (`echo`).
fn envoy(sap: &Node, version: Http) -> Envoy {
    let listeners = vec![
        bootstrap::http("web", &bootstrap::forward("sap")),
        bootstrap::tcp("db", "sap", DB),
        bootstrap::udp("echo", "sap", "ECHO", 7000),
    ];
    Envoy::start(
        "dp",
        listeners,
        vec![bootstrap::cluster("sap", sap.address("web"), version)],
    )
}

fn messages_arrive(version: Http) {
    let origins = Origins::start();
    let sap = origins.standalone();
    let dp = envoy(&sap, version);
    payloads::messages(&dp.url("web"), &origins);
    let record = sap.record(|record| record["method"] == "GET");
    assert_eq!(record["protocol"], version.name(), "{record}");
    assert_eq!(record["target"], "VIDEO:80/films", "{record}");
}

#[test]
fn envoy_sends_requests_to_hermes_over_h1() {
    messages_arrive(Http::H1);
}

#[test]
fn envoy_sends_requests_to_hermes_over_h2() {
    messages_arrive(Http::H2);
}

#[test]
fn envoy_sends_requests_in_origin_form_to_a_gateway() {
    let origins = Origins::start();
    let sap = origins.standalone();
    let listeners = vec![bootstrap::http("web", &bootstrap::forward("sap"))];
    let dp = Envoy::start(
        "dp",
        listeners,
        vec![bootstrap::origin("sap", sap.address("gate"))],
    );
    payloads::messages(&dp.url("web"), &origins);
}

#[test]
fn a_refusal_by_hermes_reaches_the_client_of_envoy_with_its_reason() {
    let origins = Origins::start();
    let sap = origins.standalone();
    for version in Http::BOTH {
        let dp = envoy(&sap, version);
        let got = curl(&["-x", &dp.url("web"), "http://NOWHERE/"]);
        assert_eq!((got.exit, got.status), (0, 404), "{got:?}");
        assert!(
            got.field("proxy-status")
                .is_some_and(|status| status.starts_with("sap")),
            "{got:?}"
        );
        let got = curl(&["-p", "-x", &dp.url("web"), "http://NOWHERE/"]);
        assert_eq!(got.connect_status, 404, "{got:?}");
    }
}

#[test]
fn trailers_pass_from_hermes_through_envoy() {
    let origins = Origins::start();
    let sap = origins.standalone();
    let dp = envoy(&sap, Http::H2);
    let request = http::Request::get("http://VIDEO/trailers")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let answer = h2c::Client::connect(dp.address("web"))
        .send(request, b"")
        .unwrap();
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (200, &b"body\n"[..])
    );
    assert_eq!(answer.trailers.expect("trailers")["x-checksum"], "42");
}

fn tls_is_carried(version: Http) {
    let origins = Origins::start();
    let sap = origins.standalone();
    let dp = envoy(&sap, version);
    payloads::sealed(&dp.url("web"), &origins);
    let record = sap.record(|record| record["kind"] == "connect");
    assert_eq!(
        (&record["protocol"], &record["target"]),
        (&version.name().into(), &"SECURE:443".into()),
        "{record}"
    );
}

#[test]
fn connect_through_envoy_and_hermes_carries_tls_over_h1() {
    tls_is_carried(Http::H1);
}

#[test]
fn connect_through_envoy_and_hermes_carries_tls_over_h2() {
    tls_is_carried(Http::H2);
}

#[test]
fn envoys_tcp_port_talks_to_a_server_that_speaks_first_and_half_closes_over_h2() {
    let origins = Origins::start();
    let sap = origins.standalone();
    let dp = envoy(&sap, Http::H2);
    payloads::conversation(dp.address("db"));
    let record = sap.record(|record| record["kind"] == "connect");
    assert_eq!(
        (&record["target"], &record["reason"]),
        (&DB.into(), &"done".into()),
        "{record}"
    );
}

// Envoy's HTTP/1.1 client closes a tunnel when its side ends, and so cannot half-close; with Envoy at both ends it is the same.
#[test]
fn envoys_tcp_port_talks_to_a_server_that_speaks_first_over_h1() {
    let origins = Origins::start();
    let sap = origins.standalone();
    let dp = envoy(&sap, Http::H1);
    payloads::conversation_without_farewell(dp.address("db"), &origins);
}

fn datagrams_arrive(version: Http) {
    let origins = Origins::start();
    let sap = origins.standalone();
    let dp = envoy(&sap, version);
    payloads::datagrams(dp.address("echo"));
    // Envoy is gone, so the session ends here too.
    drop(dp);
    let record = sap.record(|record| record["kind"] == "connect-udp");
    assert_eq!(
        (&record["protocol"], &record["target"]),
        (&version.name().into(), &"ECHO:7000".into()),
        "{record}"
    );
    assert_eq!(record["datagrams"]["dropped"], 0, "{record}");
}

#[test]
fn envoys_udp_port_reaches_a_udp_server_through_hermes_over_h1() {
    datagrams_arrive(Http::H1);
}

#[test]
fn envoys_udp_port_reaches_a_udp_server_through_hermes_over_h2() {
    datagrams_arrive(Http::H2);
}

#[test]
fn hermes_forwards_envoys_datagrams_to_a_second_hermes() {
    let origins = Origins::start();
    let sap = origins.standalone();
    for (inward, outward) in [
        (Http::H2, Http::H2),
        (Http::H2, Http::H1),
        (Http::H1, Http::H2),
    ] {
        let first = Node::start(
            "first",
            &format!(
                r#"
                listeners:
                  web: {{ http: 127.0.0.1:0 }}
                routes:
                  - to: sap
                upstreams:
                  sap: {{ endpoints: ["{}"], http: {} }}
                "#,
                sap.address("web"),
                outward.number()
            ),
        );
        let dp = envoy(&first, inward);
        payloads::datagrams(dp.address("echo"));
        drop(dp);
        let record = first.record(|record| record["kind"] == "connect-udp");
        assert_eq!(
            (&record["protocol"], &record["upstream"]),
            (&inward.name().into(), &"sap".into()),
            "{record}"
        );
    }
}
