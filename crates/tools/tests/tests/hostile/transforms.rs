//! Transforms that a peer asks for: each once, so that its bytes become no more than one of them can make.

use hermes_tests::attacks::transforms::tunnel;
use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, origins};

fn node() -> Node {
    Node::start(
        "end",
        r#"
        listeners: { web: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] } }
        routes: [ { match: { port: 1 }, to: next }, { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        upstreams: { next: { endpoints: ["127.0.0.1:9"] } }
        "#,
    )
}

#[test]
fn a_transform_that_is_named_twice_is_refused_in_every_version_and_form() {
    let node = node();
    let origin = origins::tcp_echo();
    let target = origin.address().to_string();
    let often = ["compress"; 8].join(", ");
    // Where a tunnel ends here, and where it goes on.
    for target in [target.as_str(), "VIDEO:1"] {
        for names in ["compress, compress", &often, "other, compress,other"] {
            let refused = tunnel(node.address("web"), target, names).err().unwrap();
            assert_eq!(refused.status(), 400, "{names} {refused:?}");
            let status = refused.field("proxy-status").unwrap();
            assert!(status.contains("names a transform twice"), "{status}");

            let client = Client::connect(node.address("web"));
            let refused = client.tunnel(target, &[("hermes-transform", names)]);
            assert_eq!(refused.err().unwrap().status, 400, "{names}");
        }
    }
    assert_eq!(origin.connections(), 0);

    // One of each is undone, and what is not known here stays.
    assert!(tunnel(node.address("web"), &target, "compress, other").is_ok());
}

#[test]
fn coders_are_charged_to_who_asks_for_them() {
    let node = node();
    let origin = origins::tcp_echo();
    let target = origin.address().to_string();
    let charged = || {
        node.status()["memory"]["charged_for"]["transforms"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(charged(), 0);
    let tunnels: Vec<Raw> = (0..120)
        .map(|_| tunnel(node.address("web"), &target, "compress").unwrap())
        .collect();
    let all = charged();
    assert!((20 << 20..=32 << 20).contains(&all), "{all}");
    drop(tunnels);
    node.idle();
    assert_eq!(charged(), 0);
}
