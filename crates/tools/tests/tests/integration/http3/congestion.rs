//! The congestion control of both sides of a hop.

use hermes_tests::{Gate, Node, Pki, curl, origins};

use super::overlay::{end, upstream};

/// Bytes of a download.
const LENGTH: usize = 300_000;

#[test]
fn each_side_chooses_its_congestion_control_and_says_which_one_it_has() {
    let content = "x".repeat(LENGTH);
    let origin = origins::scripted(&format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n{content}"
    ));
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let far = Node::start("far", &end(&tls));
    let gate = Gate::to(far.address("web"));
    let near_file = |congestion: &str| {
        let next = upstream(&pki, gate.address(), "3");
        let next = next.replace("http: 3", &format!("http: 3{congestion}"));
        format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ to: next }} ]\nupstreams: {{ next: {next} }}\n"
        )
    };
    let near = Node::start("near", &near_file(""));
    let said = || {
        let upstream = near.status()["upstreams"][0]["congestion"].clone();
        let listener = far.status()["listeners"][0]["congestion"].clone();
        [upstream, listener].map(|said| said.as_str().map(str::to_owned))
    };
    let download = || {
        let url = format!("http://{}/", origin.address());
        let got = curl(&["-x", &near.url("web"), &url]);
        assert!(got.status == 200 && got.text() == content, "{got:?}");
    };
    let named = |name: &str| [Some(name.to_owned()), Some(name.to_owned())];

    download();
    assert_eq!(said(), named("cubic"));
    assert_eq!(near.status()["listeners"][0].get("congestion"), None);

    let bbr = end(&tls).replace("127.0.0.1:0,", "127.0.0.1:0, congestion: bbr,");
    assert_eq!(far.reload(&bbr).0, 200);
    assert_eq!(near.reload(&near_file(", congestion: bbr")).0, 200);
    assert_eq!(said(), named("bbr"));
    gate.lose_udp(10);
    download();
}
