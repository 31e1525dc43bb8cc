//! A company's proxy that wants a password (RFC 7617): Apache with `mod_proxy_connect` before nodes and origins.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use hermes_tests::origins::{Origin, Request};
use hermes_tests::peers::Peer;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins};
use tempfile::TempDir;

/// Alice's password; nothing that a node shows may have it, nor its form in a field.
const PASSWORD: &str = "open sesame: 17";

fn folder(password: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("office.password");
    fs::write(&file, password).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    folder
}

/// Apache, for Alice alone.
fn company(origin: &Origin<Request>) -> Peer {
    let hash = bcrypt::hash(PASSWORD, 4).unwrap();
    Peer::apache_proxy(origin.port(), &format!("alice:{hash}\n"))
}

/// A node that reaches `far` through the company's proxy, and everything else by it.
fn node(folder: TempDir, proxy: &Peer, origin: &Origin<Request>, office: &str) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        routes:
          - {{ match: {{ target: FAR }}, terminate: far }}
          - {{ to: office }}
        upstreams:
          far: {{ endpoints: ["{}"], via: office }}
          office: {{ endpoints: ["{}"], {office} }}
        "#,
        origin.address(),
        proxy.address()
    );
    Node::start_in(folder, "laptop", &yaml, &[])
}

const CREDENTIALS: &str = "credentials: { user: alice, password_file: office.password }";

#[test]
fn a_proxy_that_wants_a_password_is_passed_with_it_and_nothing_shows_it() {
    let origin = origins::http();
    let proxy = company(&origin);
    let node = node(folder(PASSWORD), &proxy, &origin, CREDENTIALS);
    let web = node.url("web");

    let through = curl(&["-x", &web, "http://FAR/tunnelled"]);
    assert_eq!(through.status, 200, "{through:?}");
    assert_eq!(origin.last().path, "/tunnelled");
    assert_eq!(origin.last().field("proxy-authorization"), None);

    let direct = curl(&["-x", &web, &format!("http://{}/asked", origin.address())]);
    assert_eq!(direct.status, 200, "{direct:?}");
    assert_eq!(origin.last().field("proxy-authorization"), None);

    let authority = origin.address().to_string();
    let mut tunnel = Raw::tunnel(node.address("web"), &authority, "").unwrap();
    tunnel.send("GET /by-connect HTTP/1.1\r\nHost: far\r\nConnection: close\r\n\r\n");
    assert!(tunnel.rest().0.starts_with(b"HTTP/1.1 200 "));
    assert_eq!(origin.last().path, "/by-connect");

    let shown = [
        node.ask("GET", "/config", "").1,
        node.status().to_string(),
        node.log(),
        serde_json::to_string(&node.access()).unwrap(),
    ];
    // `alice:open sesame: 17` as it is sent.
    let sent = "YWxpY2U6b3BlbiBzZXNhbWU6IDE3";
    for text in shown {
        assert!(!text.contains("sesame") && !text.contains(sent), "{text}");
    }
}

#[test]
fn a_proxy_that_is_shown_no_or_wrong_credentials_is_told_of_with_the_remedy() {
    let origin = origins::http();
    let proxy = company(&origin);
    let remedies = [
        (
            "",
            "it wants credentials: write `upstreams.office.credentials`",
        ),
        (
            CREDENTIALS,
            "it does not accept `upstreams.office.credentials`",
        ),
    ];

    for (office, remedy) in remedies {
        let node = node(folder("wrong"), &proxy, &origin, office);
        let far = curl(&["-x", &node.url("web"), "http://FAR/"]);
        assert_eq!(far.status, 503, "{far:?}");
        assert!(far.text().contains(remedy), "{}", far.text());

        let asked = curl(&["-x", &node.url("web"), "http://elsewhere.example/"]);
        assert_eq!(asked.status, 502, "{asked:?}");
        assert!(asked.text().contains(remedy), "{}", asked.text());
        assert_eq!(asked.field("proxy-authenticate"), None);

        let refused = Raw::tunnel(node.address("web"), "elsewhere.example:443", "");
        assert_eq!(refused.unwrap_err().status(), 502);
        let record = node.record(|record| record["kind"] == "connect");
        assert!(
            record["reason"].as_str().unwrap().contains(remedy),
            "{record}"
        );
    }
    assert_eq!(origin.seen(), []);
}

#[test]
fn a_changed_password_counts_after_a_reload() {
    let origin = origins::http();
    let proxy = company(&origin);
    let node = node(folder("old"), &proxy, &origin, CREDENTIALS);
    let ask = || curl(&["-x", &node.url("web"), "http://FAR/"]).status;
    assert_eq!(ask(), 503);

    fs::write(node.folder().join("office.password"), PASSWORD).unwrap();
    let (status, _) = node.ask("POST", "/reload", "");
    assert_eq!((status, ask()), (200, 200));
}
