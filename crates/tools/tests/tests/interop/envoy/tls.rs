//! TLS between Hermes and Envoy, with certificates on both sides: who may say whose traffic it is.

use hermes_tests::envoy::bootstrap::{self, Http};
use hermes_tests::{Envoy, Node, Pki, curl};

use super::overlay::{DB, Hops, Origins, dependent};
use super::payloads;

/// Hermes behind mutual TLS; its peer `envoy.overlay` speaks for alice.
fn standalone(origins: &Origins) -> Node {
    let issued = origins.pki.issue(&["sap.overlay"]);
    let ca = origins.pki.ca();
    let listeners = format!(
        r#"
  web:
    http: 127.0.0.1:0
    tls: {{ {}, client_ca_file: {} }}
    auth: mtls
peers:
  envoy: {{ certificate: envoy.overlay, speaks_for: [alice] }}
"#,
        issued.yaml(),
        ca.display()
    );
    origins.standalone_with("sap", &listeners)
}

/// Envoy in front of `sap`, with a certificate for this name, or none.
fn envoy(sap: &Node, pki: &Pki, name: Option<&str>) -> Envoy {
    let listeners = vec![
        bootstrap::http("web", &bootstrap::forward("sap")),
        bootstrap::tcp("db", "sap", DB),
        bootstrap::udp("echo", "sap", "ECHO", 7000),
    ];
    let issued = name.map(|name| pki.issue(&[name]));
    let cluster = bootstrap::cluster("sap", sap.address("web"), Http::H2);
    Envoy::start(
        "dp",
        listeners,
        vec![bootstrap::over_tls(
            cluster,
            "sap.overlay",
            issued.as_ref(),
            &pki.ca(),
        )],
    )
}

#[test]
fn envoy_with_a_certificate_is_a_peer_that_speaks_for_its_users() {
    let origins = Origins::start();
    let sap = standalone(&origins);
    let dp = envoy(&sap, &origins.pki, Some("envoy.overlay"));
    let got = curl(&["-x", &dp.url("web"), "-H", "user: alice", "http://VIDEO/"]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    assert_eq!(origins.video.last().field("user").as_deref(), Some("alice"));
    let record = sap.record(|record| record["status"] == 200);
    assert_eq!(
        (&record["user"], &record["protocol"]),
        (&"alice".into(), &"h2".into()),
        "{record}"
    );
    let got = curl(&[
        "-p",
        "-x",
        &dp.url("web"),
        "--proxy-header",
        "user: alice",
        "http://VIDEO/",
    ]);
    assert_eq!((got.exit, got.connect_status), (0, 200), "{got:?}");
}

#[test]
fn envoy_is_not_believed_about_users_that_it_does_not_speak_for() {
    let origins = Origins::start();
    let sap = standalone(&origins);
    let dp = envoy(&sap, &origins.pki, Some("envoy.overlay"));
    let got = curl(&["-x", &dp.url("web"), "-H", "user: bob", "http://VIDEO/"]);
    assert_eq!((got.exit, got.status), (0, 403), "{got:?}");
    let got = curl(&[
        "-p",
        "-x",
        &dp.url("web"),
        "--proxy-header",
        "user: bob",
        "http://VIDEO/",
    ]);
    assert_eq!(got.connect_status, 403, "{got:?}");
    assert!(origins.video.seen().is_empty());
}

#[test]
fn envoy_without_a_certificate_gets_nothing() {
    let origins = Origins::start();
    let sap = standalone(&origins);
    let dp = envoy(&sap, &origins.pki, None);
    let got = curl(&["-x", &dp.url("web"), "-H", "user: alice", "http://VIDEO/"]);
    assert_eq!((got.exit, got.status), (0, 503), "{got:?}");
    assert!(origins.video.seen().is_empty());
}

#[test]
fn tunnels_of_envoy_enter_hermes_under_tls() {
    let origins = Origins::start();
    let sap = standalone(&origins);
    let dp = envoy(&sap, &origins.pki, Some("envoy.overlay"));
    payloads::sealed(&dp.url("web"), &origins);
    payloads::conversation(dp.address("db"));
    payloads::datagrams(dp.address("echo"));
}

/// Envoy behind mutual TLS, in front of a Hermes that ends the overlay.
fn envoy_behind_tls(sap: &Node, pki: &Pki) -> Envoy {
    let issued = pki.issue(&["envoy.overlay"]);
    let listeners = vec![bootstrap::https(
        "web",
        &bootstrap::forward("sap"),
        &issued,
        &pki.ca(),
    )];
    Envoy::start(
        "middle",
        listeners,
        vec![bootstrap::cluster("sap", sap.address("web"), Http::H2)],
    )
}

#[test]
fn hermes_shows_its_certificate_to_envoy_and_speaks_h2() {
    let origins = Origins::start();
    let sap = origins.standalone();
    let middle = envoy_behind_tls(&sap, &origins.pki);
    let issued = origins.pki.issue(&["dp.overlay"]);
    let ca = origins.pki.ca();
    let link = format!(
        ", tls: {{ ca_file: {}, {}, server_name: envoy.overlay }}",
        ca.display(),
        issued.yaml()
    );
    let dp = dependent(&Hops::all(middle.address("web")), Http::H2, &link);
    payloads::messages(&dp.url("web"), &origins);
    payloads::sealed(&dp.url("web"), &origins);
    payloads::conversation(dp.address("db"));
    payloads::datagrams(dp.address("echo"));
    assert!(middle.figure("http.http.downstream_cx_http2_total") > 0);
}

/// The `Proxy-Status` that a client gets when Hermes reaches Envoy with this `tls`.
fn failure(version: Http, tls: impl Fn(&Pki) -> String) -> String {
    let origins = Origins::start();
    let sap = origins.standalone();
    let middle = envoy_behind_tls(&sap, &origins.pki);
    let (ca, tls) = (origins.pki.ca(), tls(&origins.pki));
    let link = format!(", tls: {{ ca_file: {}, {tls} }}", ca.display());
    let dp = dependent(&Hops::all(middle.address("web")), version, &link);
    let got = curl(&["-x", &dp.url("web"), "http://VIDEO/"]);
    assert_eq!((got.exit, got.status), (0, 502), "{got:?}");
    assert!(origins.video.seen().is_empty());
    got.field("proxy-status").unwrap_or_default()
}

#[test]
fn hermes_names_the_alert_when_envoy_wants_a_certificate() {
    for version in Http::BOTH {
        let status = failure(version, |_| "server_name: envoy.overlay".to_owned());
        assert!(
            status.contains("error=tls_alert_received"),
            "{}: {status}",
            version.name()
        );
    }
}

#[test]
fn hermes_does_not_take_envoys_certificate_for_another_name() {
    let status = failure(Http::H2, |pki| {
        format!(
            "server_name: other.overlay, {}",
            pki.issue(&["dp.overlay"]).yaml()
        )
    });
    assert!(status.contains("error=tls_certificate_error"), "{status}");
}
