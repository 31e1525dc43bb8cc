//! Client certificates that are not good any more: expired, revoked, or of an authority that was removed. On connections that are
//! kept, on sessions that are resumed, and for tunnels that are open; over every version of HTTP.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hermes_tests::crowd::resident;
use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{Origin, Request};
use hermes_tests::pki::Issued;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, Pki, Secured, curl, origins};
use rustls::version::{TLS12, TLS13};

/// Long enough for a connection to be made and used, on a machine that is busy.
const SHORT: Duration = Duration::from_secs(4);

/// A certificate that ends soon.
fn ending(pki: &Pki) -> Issued {
    pki.issue_for(
        &["alice.overlay"],
        SystemTime::now() - SHORT,
        SystemTime::now() + SHORT,
    )
}

/// A node that asks for certificates of the authority in `ca`; `more` belongs to `tls`.
fn asking(
    pki: &Pki,
    ca: &Path,
    more: &str,
    origin: &Origin<Request>,
    echo: &Origin<Vec<u8>>,
) -> String {
    let server = pki.issue(&["127.0.0.1"]);
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, auth: mtls, tls: {{ {}, client_ca_file: {} {more} }} }} }}\n\
         routes: [ {{ match: {{ target: DB }}, terminate: db }}, {{ terminate: web }} ]\nupstreams:\n  \
         web: {{ endpoints: [\"{}\"] }}\n  db: {{ endpoints: [\"{}\"] }}\n",
        server.yaml(),
        ca.display(),
        origin.address(),
        echo.address()
    )
}

/// A node that shows `client` to `edge` over this version of HTTP.
fn showing(pki: &Pki, client: &Issued, edge: &Node, http: u8, more: &str) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }}, db: {{ tcp: 127.0.0.1:0, target: \"DB:1\" }} }}\n\
         routes: [ {{ to: edge }} ]\nupstreams: {{ edge: {{ endpoints: [\"{}\"], http: {http}, \
         tls: {{ ca_file: {}, {} {more} }} }} }}\n",
        edge.address("web"),
        pki.ca().display(),
        client.yaml()
    );
    Node::start("dp", &yaml)
}

fn status_through(node: &Node) -> u16 {
    curl(&["-x", &node.url("web"), "http://site/"]).status
}

/// What the record of a refused exchange says.
fn refused(edge: &Node) -> String {
    let record = edge.record(|record| record["status"] == 403);
    record["reason"].as_str().unwrap().to_owned()
}

#[test]
fn an_expired_certificate_ends_a_kept_connection_and_is_not_resumed() {
    let (pki, origin, echo) = (Pki::new(), origins::http(), origins::tcp_echo());
    let edge = Node::start("edge", &asking(&pki, &pki.ca(), "", &origin, &echo));
    for version in [&TLS12, &TLS13] {
        let config = pki.client(Some(&ending(&pki)), &[version]);
        let mut kept = Secured::connect(edge.address("web"), &config);
        assert_eq!(kept.ask("GET http://site/", "").unwrap().status(), 200);
        // A session to be resumed for sure: tickets are used once.
        let mut other = Secured::connect(edge.address("web"), &config);
        assert_eq!(other.ask("GET http://site/", "").unwrap().status(), 200);
        let mut last = None;
        eventually_true("the certificate has ended", || {
            last = kept.ask("GET http://site/", "").ok();
            last.as_ref().is_none_or(|head| head.status() != 200)
        });
        let last = last.unwrap();
        assert_eq!(
            (last.status(), last.field("connection").as_deref()),
            (403, Some("close")),
            "{last:?}"
        );
        assert!(
            kept.ask("GET http://site/", "").is_err(),
            "it was the last on this connection"
        );
        let seen = origin.seen().len();
        let mut resumed = Secured::connect(edge.address("web"), &config);
        let head = resumed.ask("GET http://site/", "").unwrap();
        assert!(resumed.is_resumed(), "the session was to be resumed");
        assert_eq!(head.status(), 403, "{head:?}");
        assert_eq!(origin.seen().len(), seen);
    }
    assert!(
        refused(&edge).contains("the certificate has expired"),
        "{}",
        refused(&edge)
    );
}

#[test]
fn an_expired_certificate_ends_a_kept_link() {
    let (pki, origin, echo) = (Pki::new(), origins::http(), origins::tcp_echo());
    let edge = Node::start("edge", &asking(&pki, &pki.ca(), "", &origin, &echo));
    for http in [2, 3] {
        let node = showing(&pki, &ending(&pki), &edge, http, "");
        assert_eq!(status_through(&node), 200, "HTTP/{http}");
        eventually_true("the certificate has ended", || status_through(&node) != 200);
        let seen = origin.seen().len();
        // On what is left of the link, and on one that resumes its session.
        for _ in 0..3 {
            assert_ne!(status_through(&node), 200);
            assert!(Raw::connect(node.address("db")).exchange(b"x").is_err());
        }
        assert_eq!(origin.seen().len(), seen);
        assert!(
            refused(&edge).contains("the certificate has expired"),
            "{}",
            refused(&edge)
        );
    }
}

#[test]
fn an_authority_that_was_removed_lets_nothing_new_in() {
    let (pki, other, origin, echo) = (Pki::new(), Pki::new(), origins::http(), origins::tcp_echo());
    let ca = pki.folder().join("clients.pem");
    fs::copy(pki.ca(), &ca).unwrap();
    let yaml = asking(&pki, &ca, "", &origin, &echo);
    let edge = Node::start("edge", &yaml);
    let client = pki.issue(&["alice.overlay"]);
    let config = pki.client(Some(&client), &[&TLS13]);
    let mut messages = Secured::connect(edge.address("web"), &config);
    let mut tunnels = Secured::connect(edge.address("web"), &config);
    for kept in [&mut messages, &mut tunnels] {
        assert_eq!(kept.ask("GET http://site/", "").unwrap().status(), 200);
    }
    let links = [2, 3].map(|http| showing(&pki, &client, &edge, http, ""));
    for node in &links {
        assert_eq!(status_through(node), 200);
    }
    fs::copy(other.ca(), &ca).unwrap();
    assert_eq!(edge.reload(&yaml).0, 200);
    let seen = origin.seen().len();
    assert_eq!(messages.ask("GET http://site/", "").unwrap().status(), 403);
    assert_eq!(tunnels.ask("CONNECT DB:1", "").unwrap().status(), 403);
    assert!(
        Secured::connect(edge.address("web"), &config)
            .ask("GET http://site/", "")
            .is_err()
    );
    for node in &links {
        assert!(Raw::connect(node.address("db")).exchange(b"x").is_err());
        assert_ne!(status_through(node), 200);
    }
    assert_eq!((origin.seen().len(), echo.connections()), (seen, 0));
    assert!(
        refused(&edge).contains("issuer is not trusted here"),
        "{}",
        refused(&edge)
    );
}

#[test]
fn a_revoked_certificate_loses_everything_once_the_list_says_so() {
    let (pki, origin, echo) = (Pki::new(), origins::http(), origins::tcp_echo());
    let (client, bystander) = (pki.issue(&["alice.overlay"]), pki.issue(&["bob.overlay"]));
    let soon = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    let list = pki.revoke(&[], soon);
    let yaml = asking(
        &pki,
        &pki.ca(),
        &format!(", crl_file: {}", list.display()),
        &origin,
        &echo,
    );
    let edge = Node::start("edge", &format!("{yaml}watch: true\n"));
    let [mut kept, mut other] = [&client, &bystander].map(|own| {
        let mut kept = Secured::connect(edge.address("web"), &pki.client(Some(own), &[&TLS13]));
        assert_eq!(kept.ask("GET http://site/", "").unwrap().status(), 200);
        kept
    });
    let links = [2, 3].map(|http| showing(&pki, &client, &edge, http, ""));
    let mut tunnels = links.each_ref().map(|node| {
        let mut tunnel = Raw::connect(node.address("db"));
        assert_eq!(tunnel.exchange(b"x"), Ok(b"x".to_vec()));
        tunnel
    });
    // The file is watched. The list has served its time, and counts all the same.
    pki.revoke(&[&client], SystemTime::now() - Duration::from_secs(60));
    for tunnel in &mut tunnels {
        assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
    }
    assert_eq!(kept.ask("GET http://site/", "").unwrap().status(), 403);
    for node in &links {
        assert_ne!(status_through(node), 200);
    }
    let anew = Secured::connect(edge.address("web"), &pki.client(Some(&client), &[&TLS13]))
        .ask("GET http://site/", "");
    assert!(anew.clone().unwrap_err().contains("Revoked"), "{anew:?}");
    assert_eq!(other.ask("GET http://site/", "").unwrap().status(), 200);
    assert!(
        refused(&edge).contains("the certificate was revoked"),
        "{}",
        refused(&edge)
    );
}

#[test]
fn a_revoked_server_is_not_spoken_to() {
    let (pki, origin) = (Pki::new(), origins::http());
    let server = pki.issue(&["127.0.0.1"]);
    let edge = Node::start(
        "edge",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }} }} }}\nroutes: [ {{ terminate: web }} ]\n\
             upstreams: {{ web: {{ endpoints: [\"{}\"] }} }}\n",
            server.yaml(),
            origin.address()
        ),
    );
    let client = pki.issue(&["alice.overlay"]);
    let soon = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    for (revoked, status) in [(&client, 200), (&server, 502)] {
        let list = pki.revoke(&[revoked], soon);
        for http in [2, 3] {
            let node = showing(
                &pki,
                &client,
                &edge,
                http,
                &format!(", crl_file: [{}]", list.display()),
            );
            assert_eq!(status_through(&node), status, "HTTP/{http}");
        }
    }
}

/// As many certificates as make a list of 10 MiB (PEM).
const REVOKED: u64 = 240_000;

/// What the lists of a node may take beside everything else, once those that were replaced are gone: one copy of 10 MiB takes 13.
const LISTS: usize = 48 << 20;

/// Were each listener and upstream to keep its own, or connections the lists that they began with, it would be 300 MiB and more.
#[test]
fn a_long_list_of_revoked_certificates_is_kept_once_and_goes_when_it_is_replaced() {
    let (pki, origin, echo) = (Pki::new(), origins::http(), origins::tcp_echo());
    let soon = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    let list = pki.revoke(&[], soon);
    let crl = format!(", crl_file: {}", list.display());
    let more: String = (0..4)
        .map(|number| {
            format!(
                "  tls{number}: {{ endpoints: [\"127.0.0.1:1\"], http: [2, 3], tls: {{ ca_file: {} {crl} }} }}\n",
                pki.ca().display()
            )
        })
        .collect();
    let yaml = format!("{}{more}", asking(&pki, &pki.ca(), &crl, &origin, &echo));

    // Memory that is free goes back to the system at once, so that what the node holds can be seen from outside.
    let at_once = [("MIMALLOC_PURGE_DELAY", "0")];
    let edge = Node::start_in(tempfile::tempdir().unwrap(), "edge", &yaml, &at_once);
    let client = pki.issue(&["alice.overlay"]);
    let nodes = [2, 3].map(|http| showing(&pki, &client, &edge, http, &crl));
    let mut tunnels: Vec<Raw> = Vec::new();
    let before = resident(&edge);
    for round in 1..=3 {
        // Open tunnels outlive each change, and do not keep the lists that were in force when they began.
        for node in &nodes {
            let mut tunnel = Raw::connect(node.address("db"));
            assert_eq!(tunnel.exchange(b"x"), Ok(b"x".to_vec()));
            tunnels.push(tunnel);
        }
        pki.revoke_many(REVOKED, round, soon);
        assert_eq!(edge.reload(&yaml).0, 200);
        for node in &nodes {
            assert_eq!(status_through(node), 200);
        }
    }

    assert!(fs::metadata(&list).unwrap().len() > 10 << 20);
    eventually_true("lists that were replaced are gone", || {
        resident(&edge) < before + LISTS
    });
    for tunnel in &mut tunnels {
        assert_eq!(tunnel.exchange(b"y"), Ok(b"y".to_vec()));
    }
    // It says what it says.
    pki.revoke(&[&client], soon);
    assert_eq!(edge.reload(&yaml).0, 200);
    for node in &nodes {
        assert_ne!(status_through(node), 200);
    }
}

#[test]
fn a_list_of_another_authority_is_spoken_of() {
    let (pki, other, origin, echo) = (Pki::new(), Pki::new(), origins::http(), origins::tcp_echo());
    let soon = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    let foreign = other.revoke(&[], soon);
    let words = "is of no authority that stands beside it";
    let crl = format!(", crl_file: {}", foreign.display());
    let yaml = asking(&pki, &pki.ca(), &crl, &origin, &echo);
    let edge = Node::start("edge", &yaml);
    assert!(edge.log().contains(words), "{}", edge.log());
    let status = edge.status();
    let certificates = status["certificates"].as_array().unwrap();
    let list = certificates
        .iter()
        .find(|one| one["key"] == "listeners.web.tls.crl_file")
        .unwrap();
    assert_eq!(list["state"], "of no authority here", "{status:#}");

    // Beside those of the authorities it may be that of an intermediate one.
    let own = pki.revoke(&[], soon);
    let crl = format!(", crl_file: [{}, {}]", own.display(), foreign.display());
    let edge = Node::start("edge", &asking(&pki, &pki.ca(), &crl, &origin, &echo));
    assert!(!edge.log().contains(words), "{}", edge.log());
}

/// The same list as one that says only what has changed since another one (RFC 5280, section 5.2.4), which no one here understands.
fn as_delta(list: &str) -> String {
    const CRL_NUMBER: [u8; 3] = [0x55, 0x1d, 0x14];
    const DELTA_INDICATOR: u8 = 0x1b;
    let lines = list.lines().filter(|line| !line.starts_with('-'));
    let mut der = STANDARD.decode(lines.collect::<String>()).unwrap();
    let at = der
        .windows(CRL_NUMBER.len())
        .position(|bytes| bytes == CRL_NUMBER);
    der[at.unwrap() + 2] = DELTA_INDICATOR;
    let body = STANDARD.encode(der);
    format!("-----BEGIN X509 CRL-----\n{body}\n-----END X509 CRL-----\n")
}

/// Files with lists of several authorities are made by others. What cannot be used opens nothing, and closes nothing for anyone else.
#[test]
fn a_list_that_cannot_be_used_concerns_its_own_authority_alone() {
    let (pki, other, origin, echo) = (Pki::new(), Pki::new(), origins::http(), origins::tcp_echo());
    let soon = SystemTime::now() + Duration::from_secs(24 * 60 * 60);
    let read = |file: &Path| fs::read_to_string(file).unwrap();
    let delta = as_delta(&read(&other.revoke(&[], soon)));
    let folder = tempfile::tempdir().unwrap();
    let (authorities, lists) = (folder.path().join("ca"), folder.path().join("crl"));
    fs::write(&authorities, read(&pki.ca()) + &read(&other.ca())).unwrap();
    fs::write(&lists, delta.clone() + &read(&pki.revoke(&[], soon))).unwrap();

    let crl = format!(", crl_file: {}", lists.display());
    let yaml = asking(&pki, &authorities, &crl, &origin, &echo);
    let edge = Node::start("edge", &yaml);
    let said = edge.log();
    assert!(
        said.contains("list 1 is passed over") && said.contains("DeltaCrl"),
        "{said}"
    );
    for (owner, status) in [(&pki, 200), (&other, 502)] {
        let alice = owner.issue(&["alice.overlay"]);
        let dp = showing(&pki, &alice, &edge, 2, "");
        assert_eq!(status_through(&dp), status);
    }

    // A file with nothing else in it is refused, and what was in force stays.
    fs::write(&lists, delta).unwrap();
    let (status, report) = edge.reload(&yaml);
    assert_eq!(status, 422, "{report}");
    let alice = pki.issue(&["alice.overlay"]);
    assert_eq!(status_through(&showing(&pki, &alice, &edge, 2, "")), 200);
}

/// Bundles of authorities are made by others, too.
#[test]
fn an_authority_that_cannot_be_used_takes_none_of_the_others_along() {
    const UNUSABLE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let (pki, origin, echo) = (Pki::new(), origins::http(), origins::tcp_echo());
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("ca");
    let good = fs::read_to_string(pki.ca()).unwrap();
    fs::write(&bundle, format!("{UNUSABLE}{good}{UNUSABLE}")).unwrap();
    let yaml = asking(&pki, &bundle, "", &origin, &echo);
    let edge = Node::start("edge", &yaml);
    let said = edge.log();
    assert!(
        said.contains("certificate 1 cannot be trusted") && said.contains("certificate 3"),
        "{said}"
    );
    let alice = pki.issue(&["alice.overlay"]);
    assert_eq!(status_through(&showing(&pki, &alice, &edge, 2, "")), 200);

    fs::write(&bundle, UNUSABLE).unwrap();
    let (status, report) = edge.reload(&yaml);
    assert_eq!(status, 422, "{report}");
    assert_eq!(status_through(&showing(&pki, &alice, &edge, 2, "")), 200);
}
