//! Certificates that a node obtains itself, from Pebble: an ACME authority of others, which looks for each challenge as Let's Encrypt does.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, Pebble, curl, origins};
use serde_json::Value;

/// Names that lead to this machine, as Pebble's server of DNS says of all.
const NAMES: [&str; 2] = ["gateway.example.org", "www.example.org"];

/// Seconds of a certificate that is not renewed while a test runs.
const LONG: u64 = 90 * 24 * 60 * 60;

/// Seconds of one that is: after at most 12.
const SHORT: u64 = 18;

/// A gateway with a certificate for both names, by this challenge.
fn gateway(pebble: &Pebble, challenge: &str, origin: &str) -> String {
    format!(
        "listeners:\n  \
           web:\n    http: {}\n    gateway: true\n    tls:\n      acme:\n        \
             domains: [{}, {}]\n        folder: acme\n        terms_agreed: true\n        email: admin@example.org\n        \
             directory: {}\n        ca_file: {}\n        challenge: {challenge}\n  \
           plain: {{ http: {}, gateway: true }}\n\
         routes: [ {{ terminate: origin }} ]\nupstreams: {{ origin: {{ endpoints: [\"{origin}\"] }} }}\n",
        pebble.tls(),
        NAMES[0],
        NAMES[1],
        pebble.directory(),
        pebble.ca().display(),
        pebble.http(),
    )
}

fn progress(node: &Node) -> Value {
    node.status()["acme"][0].clone()
}

fn obtained(node: &Node) -> u64 {
    progress(node)["obtained"].as_u64().unwrap_or_default()
}

/// The status of a request for `name`, whose certificate must be of this root.
fn ask(node: &Node, name: &str, root: &str, version: &str) -> String {
    let web = node.address("web");
    let url = format!("https://{name}:{}/", web.port());
    let to = format!("{name}:{}:{}", web.port(), web.ip());
    let resolve = ["--resolve", &to, "--cacert", root, version];
    let arguments = [&resolve[..], &[url.as_str()]].concat();
    let answer = curl(&arguments);
    format!("{} {}", answer.status, answer.version)
}

#[test]
fn a_certificate_is_obtained_by_each_challenge_and_kept_over_a_restart() {
    for challenge in ["http-01", "tls-alpn-01"] {
        let pebble = Pebble::start(LONG);
        let origin = origins::http();
        let yaml = gateway(&pebble, challenge, &origin.address().to_string());
        let mut node = Node::start("edge", &yaml);
        eventually_true("a certificate", || obtained(&node) == 1);
        assert_eq!(progress(&node)["state"], "valid");
        assert!(progress(&node)["next_seconds"].as_u64().unwrap() > LONG / 2);

        let root = pebble.issuer().display().to_string();
        for name in NAMES {
            assert_eq!(
                ask(&node, name, &root, "--http1.1"),
                "200 1.1",
                "{challenge}"
            );
            assert_eq!(ask(&node, name, &root, "--http2"), "200 2", "{challenge}");
        }

        let folder = node.folder().join("acme");
        let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().mode() & 0o777;
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(mode("gateway.example.org.pem"), 0o600);
        assert!(
            node.metrics().contains("outcome=\"obtained\"} 1"),
            "{}",
            node.metrics()
        );

        // What was obtained is shown at once by the process that follows, and nothing is ordered anew.
        node.kill();
        node.restart();
        assert_eq!(ask(&node, NAMES[0], &root, "--http2"), "200 2");
        assert_eq!(obtained(&node), 0);
        assert_eq!(progress(&node)["state"], "valid");
    }
}

#[test]
fn an_authority_that_wants_an_account_of_its_own_is_shown_it() {
    // 32 bytes, with letters that base64url alone has.
    const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9_4";
    let pebble = Pebble::start_for(LONG, Some(("customer-7", KEY)));
    let origin = origins::http();
    let plain = gateway(&pebble, "http-01", &origin.address().to_string());
    let bound = plain.replace(
        "challenge: http-01",
        "external_account: { id: customer-7, key_file: account.key }\n        challenge: http-01",
    );

    let node = Node::start("edge", &plain);
    let failing = eventually("it is told that an account is wanted", || {
        let progress = progress(&node);
        (progress["state"] == "failing_without").then_some(progress)
    });
    let remedy = failing["remedy"].as_str().unwrap();
    assert!(remedy.contains("external_account"), "{failing}");

    // What others may read is no secret.
    let file = node.folder().join("account.key");
    fs::write(&file, format!("{KEY}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(node.reload(&bound).0, 200);
    eventually_true("the file is refused", || {
        let reason = progress(&node)["reason"].clone();
        reason
            .as_str()
            .is_some_and(|reason| reason.contains("account.key"))
    });

    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(node.reload(&bound).0, 200);
    eventually_true("a certificate", || obtained(&node) == 1);
    assert!(!node.log().contains(KEY), "{}", node.log());
}

#[test]
fn a_certificate_is_renewed_and_stays_in_force_while_that_fails() {
    let mut pebble = Pebble::start(SHORT);
    let origin = origins::http();
    let yaml = gateway(&pebble, "tls-alpn-01", &origin.address().to_string());
    let node = Node::start("edge", &yaml);
    eventually_true("a certificate", || obtained(&node) == 1);
    let file = node.folder().join("acme/gateway.example.org.pem");
    let first = fs::read_to_string(&file).unwrap();
    eventually_true("its renewal", || obtained(&node) == 2);
    assert_ne!(first, fs::read_to_string(&file).unwrap());

    pebble.stop();
    let failing = eventually("a renewal that fails", || {
        let progress = progress(&node);
        (progress["state"] == "failing").then_some(progress)
    });
    assert!(
        failing["reason"].as_str().unwrap().contains("directory"),
        "{failing}"
    );
    assert!(
        failing["remedy"].as_str().unwrap().contains("check that"),
        "{failing}"
    );
    assert!(node.metrics().contains(
        "hermes_certificate_order_failing{domains=\"gateway.example.org, www.example.org\"} 1"
    ));

    // It may have ended by now; a client that looks away sees that it is still shown.
    let url = format!("https://{}/", node.address("web"));
    assert_eq!(curl(&["-k", &url]).status, 200);

    let warned = || {
        node.log()
            .matches("no certificate was obtained: the certificate from before stays")
            .count()
    };
    assert_eq!(warned(), 1);
    assert_eq!(node.ask("POST", "/reload", "").0, 200);
    eventually_true("another attempt", || {
        progress(&node)["failed"].as_u64() >= Some(2)
    });
    assert_eq!(warned(), 1, "{}", node.log());

    // The authority comes back and has forgotten the account.
    pebble.resume();
    eventually_true("it is obtained with a new account", || {
        assert_eq!(node.ask("POST", "/reload", "").0, 200);
        obtained(&node) == 3
    });
    let root = pebble.issuer().display().to_string();
    assert_eq!(ask(&node, NAMES[0], &root, "--http2"), "200 2");
}

#[test]
fn strangers_learn_nothing_by_the_path_and_the_protocol_of_challenges() {
    let pebble = Pebble::start(LONG);
    let origin = origins::http();
    let yaml = gateway(&pebble, "tls-alpn-01", &origin.address().to_string());
    let node = Node::start("edge", &yaml);
    eventually_true("a certificate", || obtained(&node) == 1);

    // A token that no one has asked for is a path like others, and goes to the origin.
    let url = format!(
        "http://{}/.well-known/acme-challenge/abc",
        node.address("plain")
    );
    assert_eq!(curl(&[&url]).status, 200);
    assert_eq!(origin.last().path, "/.well-known/acme-challenge/abc");

    // A handshake for a challenge that is not open is refused.
    let web = node.address("web").to_string();
    let arguments = [
        "s_client",
        "-connect",
        &web,
        "-alpn",
        "acme-tls/1",
        "-servername",
        NAMES[0],
    ];
    let shaken = std::process::Command::new("openssl")
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&shaken.stdout).into_owned();
    assert!(said.contains("no peer certificate available"), "{said}");
}
