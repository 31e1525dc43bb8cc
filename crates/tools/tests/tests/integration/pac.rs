//! `/proxy.pac`, as a browser would run it: in Node.js.

use std::process::Command;

use hermes_tests::pki::Pki;
use hermes_tests::{Node, curl, origins};

/// What the file says of these URLs.
fn decide(node: &Node, urls: &[&str]) -> Vec<String> {
    let got = curl(&[&format!("{}/proxy.pac", node.url("web"))]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    assert_eq!(
        got.field("content-type").as_deref(),
        Some("application/x-ns-proxy-autoconfig")
    );
    run(&String::from_utf8(got.body).unwrap(), urls)
}

/// What this file says of these URLs.
fn run(file: &str, urls: &[&str]) -> Vec<String> {
    let script = format!(
        "{file}\nfor (const url of process.argv.slice(1)) console.log(FindProxyForURL(url, new URL(url).hostname));"
    );
    let output = Command::new(std::env::var_os("HERMES_NODE").unwrap_or_else(|| "node".into()))
        .args(["--eval", &script, "--"])
        .args(urls)
        .output()
        .expect("Node.js is installed");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn node(pac: &str) -> Node {
    Node::start(
        "alice",
        &format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0, pac: {pac} }}
              other: {{ http: 127.0.0.1:0 }}
            routes:
              - {{ match: {{ target: [VIDEO, "DB:5432", "*.overlay.example", "[::1]:8080"] }}, respond: {{ status: 204 }} }}
              - {{ match: {{ target: ['~^v[0-9]+"?$', "secure.example:443"] }}, respond: {{ status: 204 }} }}
              - {{ match: {{ target: hidden, listener: other }}, respond: {{ status: 204 }} }}
              - {{ match: {{ target: "*" }}, respond: {{ status: 204 }} }}
            "#
        ),
    )
}

#[test]
fn names_that_routes_know_go_through_the_proxy() {
    let node = node("true");
    let here = format!("PROXY {}", node.address("web"));
    let known = [
        "http://video/",
        "http://VIDEO:8000/path?query#fragment",
        "http://db:5432/",
        "https://a.b.overlay.example/",
        "http://[::1]:8080/",
        "http://v12/",
        "https://secure.example/",
        "wss://secure.example/chat",
    ];
    assert_eq!(decide(&node, &known), vec![here; known.len()]);
    let others = [
        "http://db/",
        "http://overlay.example/",
        "http://xoverlay.example/",
        "http://[::1]/",
        "http://v12x/",
        "http://secure.example/",
        "http://hidden/",
        "https://www.example/?http://video:80",
    ];
    assert_eq!(decide(&node, &others), vec!["DIRECT"; others.len()]);
}

#[test]
fn everything_can_go_through_the_proxy() {
    let node = node("all");
    let here = format!("PROXY {}", node.address("web"));
    assert_eq!(
        decide(&node, &["https://www.example/", "http://video/"]),
        [here.clone(), here]
    );
}

#[test]
fn under_tls_the_file_names_a_proxy_under_tls_which_takes_requests_and_tunnels() {
    let (pki, origin) = (Pki::new(), origins::http());
    let issued = pki.issue(&["localhost", "127.0.0.1"]);
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, pac: all, tls: {{ {} }} }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            issued.yaml(),
            origin.address()
        ),
    );
    let (here, ca) = (node.address("web"), pki.ca());
    let ca = ca.to_str().unwrap();
    for version in ["--http1.1", "--http2"] {
        let got = curl(&[
            version,
            "--cacert",
            ca,
            &format!("https://{here}/proxy.pac"),
        ]);
        assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
        let said = run(
            &String::from_utf8(got.body).unwrap(),
            &["http://video/", "https://www.example/"],
        );
        assert_eq!(said, [format!("HTTPS {here}"), format!("HTTPS {here}")]);
    }
    // What a browser then does with that answer.
    let proxy = format!("https://{here}");
    let request = curl(&["-x", &proxy, "--proxy-cacert", ca, "http://video/a"]);
    assert_eq!(request.status, 200, "{request:?}");
    let tunnel = curl(&["-p", "-x", &proxy, "--proxy-cacert", ca, "http://video/a"]);
    assert_eq!(
        (tunnel.connect_status, tunnel.status),
        (200, 200),
        "{tunnel:?}"
    );
}

#[test]
fn only_that_path_in_origin_form_is_the_file() {
    let node = node("true");
    assert_eq!(
        curl(&[&format!("{}/", node.url("web"))]).status,
        400,
        "this is no gateway"
    );
    assert_eq!(
        curl(&[&format!("{}/proxy.pac", node.url("other"))]).status,
        400,
        "not asked for"
    );
    assert_eq!(
        curl(&["-X", "POST", &format!("{}/proxy.pac", node.url("web"))]).status,
        400
    );
    let through = curl(&["-x", &node.url("web"), "http://video/proxy.pac"]);
    assert_eq!(
        through.status, 204,
        "an origin may have such a file too: {through:?}"
    );
    let hostile = curl(&[
        "-H",
        "Host: a\"+alert(1)+\"",
        &format!("{}/proxy.pac", node.url("web")),
    ]);
    assert_eq!(hostile.status, 400, "{hostile:?}");
}
