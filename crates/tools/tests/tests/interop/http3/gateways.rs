//! Clients that know a node as an origin: curl's library, and a browser that loads a page through two nodes.

use hermes_tests::shown::shown_of;
use hermes_tests::{HttpPeer, Node, Pki, Role, chromium, origins, shown};
use serde_json::{Value, json};

/// A gateway before an origin.
fn gateway(pki: &Pki, origin: std::net::SocketAddr) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true, tls: {{ {} }} }} }}
        routes: [ {{ terminate: origin }} ]
        upstreams: {{ origin: {{ endpoints: ["{origin}"] }} }}
        "#,
        pki.issue(&["127.0.0.1"]).yaml()
    );
    Node::start("gateway", &yaml)
}

fn ask(node: &Node, pki: &Pki, action: &str, more: &[&str]) -> Value {
    let address = node.address("web");
    let authority = address.to_string();
    let words: Vec<&str> = [action, &authority].iter().chain(more).copied().collect();
    HttpPeer::Curl.client(&pki.ca(), address, &words)
}

#[test]
fn curl_gets_and_posts_over_http3() {
    let (pki, origin) = (Pki::new(), origins::http());
    let node = gateway(&pki, origin.address());
    let got = ask(&node, &pki, "get", &["/bytes/3000000"]);
    assert_eq!(
        (&got["status"], &got["bytes"], &got["version"]),
        (&json!(200), &json!(3_000_000), &json!("3")),
        "{got}"
    );
    let got = ask(&node, &pki, "post", &["/post", "3000000"]);
    let seen: Value = serde_json::from_str(got["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&seen["bytes"], &got["version"]),
        (&json!(3_000_000), &json!("3")),
        "{got}"
    );
    shown(HttpPeer::Curl, Role::Client, "request");
}

#[test]
fn curl_sees_an_interim_response_over_http3() {
    let (pki, origin) = (Pki::new(), origins::early_hints());
    origin.release();
    let got = ask(&gateway(&pki, origin.address()), &pki, "get", &["/"]);
    assert_eq!(
        (&got["status"], &got["interim"], &got["version"]),
        (&json!(200), &json!([103]), &json!("3")),
        "{got}"
    );
    shown(HttpPeer::Curl, Role::Client, "1xx");
}

#[test]
fn curl_goes_over_to_http3_where_alt_svc_names_it() {
    let (pki, origin) = (Pki::new(), origins::http());
    let got = ask(&gateway(&pki, origin.address()), &pki, "altsvc", &["/"]);
    assert_eq!(
        (&got["status"], &got["versions"]),
        (&json!(200), &json!(["2", "3"])),
        "{got}"
    );
    shown(HttpPeer::Curl, Role::Client, "Alt-Svc");
}

/// Says how it came itself, and how each of two answers behind it did.
const PAGE: &str = r#"<!doctype html><title>page</title><link rel=icon href=data:><p id=out>nothing</p><script>
(async () => {
  const protocol = url => performance.getEntriesByName(new URL(url, location).href)[0].nextHopProtocol;
  const large = await (await fetch("/bytes/300000")).text();
  const posted = await (await fetch("/post", { method: "POST", body: "x".repeat(300000) })).json();
  document.getElementById("out").textContent = [
    performance.getEntriesByType("navigation")[0].nextHopProtocol,
    protocol("/bytes/300000"), large.length, protocol("/post"), posted.bytes,
  ].join(" ");
})();
</script>"#;

/// What the page says when it comes to Chromium through a gateway, and from there over HTTP/3 to the node before its origins;
/// and what the gateway recorded. Over HTTP/3 from the beginning, or when Alt-Svc says so.
fn browse(at_once: bool) -> (String, Vec<Value>) {
    let (pki, data) = (Pki::new(), origins::http());
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
        PAGE.len()
    );
    let page = origins::scripted(&format!("{head}{PAGE}"));
    let issued = pki.issue(&["127.0.0.1"]);
    let end = Node::start(
        "end",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }} }} }}
            routes: [ {{ match: {{ path: / }}, terminate: page }}, {{ terminate: data }} ]
            upstreams: {{ page: {{ endpoints: ["{}"] }}, data: {{ endpoints: ["{}"] }} }}
            "#,
            issued.yaml(),
            page.address(),
            data.address()
        ),
    );
    let gateway = Node::start(
        "gateway",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true, tls: {{ {} }} }} }}
            routes: [ {{ to: next }} ]
            upstreams: {{ next: {{ endpoints: ["{}"], http: 3, tls: {{ ca_file: {} }} }} }}
            "#,
            issued.yaml(),
            end.address("web"),
            pki.ca().display()
        ),
    );
    let origin = gateway.address("web").to_string();
    let force = if at_once {
        origin.clone()
    } else {
        "127.0.0.1:1".to_owned()
    };
    let document = chromium::load(&format!("https://{origin}/"), &issued, &force);
    let (_, from) = document.split_once(r#"<p id="out">"#).expect(&document);
    let (said, _) = from.split_once('<').unwrap();
    let records = ["/", "/bytes/300000", "/post"].map(|path| {
        let target = format!("{origin}{path}");
        let record = gateway
            .record(|record| record["event"] == "end" && record["target"] == target.as_str());
        end.record(|record| {
            record["event"] == "end"
                && record["protocol"] == "h3"
                && record["target"] == target.as_str()
        });
        record["protocol"].clone()
    });
    (said.to_owned(), records.to_vec())
}

fn showed(payload: &str) {
    shown_of(
        "Chromium",
        || format!("{} (Debian)", chromium::version()),
        Role::Client,
        payload,
    );
}

#[test]
fn chromium_loads_a_page_over_http3_through_the_overlay() {
    let (said, protocols) = browse(true);
    assert_eq!(said, "h3 h3 300000 h3 300000");
    assert_eq!(protocols, ["h3", "h3", "h3"]);
    showed("request");
}

#[test]
fn chromium_goes_over_to_http3_where_alt_svc_names_it() {
    let (said, protocols) = browse(false);
    assert!(
        said.starts_with("h2 ") && said.ends_with(" h3 300000"),
        "{said}"
    );
    assert_eq!((&protocols[0], &protocols[2]), (&json!("h2"), &json!("h3")));
    showed("Alt-Svc");
}
