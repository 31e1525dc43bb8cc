//! Every payload through chains of every length, and of versions that follow each other in every order.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::raw::Raw;
use hermes_tests::udp::Client;
use hermes_tests::{Node, curl, origins};

use crate::chains::overlay::Chains;

/// Versions of the hops of each chain, the nearest first.
const CHAINS: [&[u8]; 12] = [
    &[2],
    &[3],
    &[1, 2],
    &[2, 2],
    &[3, 2],
    &[2, 3],
    &[1, 3],
    &[3, 3],
    &[3, 3, 3],
    &[2, 3, 2],
    &[3, 2, 3, 2],
    &[3, 3, 3, 3],
];

#[test]
fn messages_pass() {
    let chains = Chains::start(&CHAINS);
    for chain in CHAINS {
        let proxy = format!("http://{}", chains.address(chain));
        let origin = origins::http();
        let url = |path: &str| format!("http://{}{path}", origin.address());
        let sent = curl(&["-x", &proxy, "-d", "content", &url("/a?b=c")]);
        assert_eq!((sent.exit, sent.status), (0, 200), "{chain:?}: {sent:?}");
        assert_eq!(
            (&sent.json()["body"], origin.last().uri.as_str()),
            (&"content".into(), "/a?b=c"),
            "{chain:?}"
        );
        let large = curl(&["-x", &proxy, &url("/bytes/3000000")]);
        assert_eq!((large.exit, large.body.len()), (0, 3_000_000), "{chain:?}");
    }
}

#[test]
fn tcp_passes_and_half_closes() {
    let chains = Chains::start(&CHAINS);
    for chain in CHAINS {
        let origin = origins::tcp_speaks_first();
        let mut raw =
            Raw::tunnel(chains.address(chain), &origin.address().to_string(), "").unwrap();
        assert_eq!(
            raw.exactly(origins::GREETING.len()),
            origins::GREETING.as_bytes(),
            "{chain:?}"
        );
        let payload: Vec<u8> = (0..=250).cycle().take(300_000).collect();
        let mut writer = raw.other();
        let sending = payload.clone();
        let sender = std::thread::spawn(move || {
            writer.send(&sending);
            writer.finish();
        });
        assert!(raw.exactly(payload.len()) == payload, "{chain:?}");
        sender.join().unwrap();
        assert_eq!(
            raw.rest().0,
            origins::farewell(payload.len()).into_bytes(),
            "{chain:?}"
        );
    }
}

#[test]
fn udp_passes() {
    let chains = Chains::start(&CHAINS);
    for chain in CHAINS {
        let origin = origins::udp_echo(origins::V4);
        let mut tunnel =
            UdpTunnel::h1(chains.address(chain), "127.0.0.1", origin.port(), "").unwrap();
        for length in [0, 1, 1200, 17] {
            let payload = vec![7; length];
            tunnel.send(&payload);
            assert_eq!(tunnel.receive(), payload, "{chain:?}");
        }
        drop(tunnel);
        let port = format!(":{}", origin.port());
        let last = &chains.hops[chain.len() - 1];
        let record = last.record(|record| {
            record["target"]
                .as_str()
                .is_some_and(|target| target.contains(&port))
        });
        assert_eq!(
            record["protocol"],
            format!("h{}", chain[chain.len() - 1]),
            "{chain:?}"
        );
    }
}

#[test]
fn udp_ends_at_an_endpoint_behind_proxies() {
    let chains = Chains::start(&[&[2]]);
    let origin = origins::udp_echo(origins::V4);
    let (near, far) = (chains.hops[0].address("web"), chains.hops[1].address("web"));
    let tls = format!("tls: {{ ca_file: {} }}", chains.pki.ca().display());
    for (outer, inner) in [(3, 3), (2, 3), (3, 2), (1, 1)] {
        let node = Node::start(
            "entry",
            &format!(
                r#"
                listeners: {{ voice: {{ udp: 127.0.0.1:0, target: "VOICE:5000" }} }}
                routes: [ {{ terminate: voice }} ]
                upstreams:
                  near: {{ endpoints: ["{near}"], http: {outer}, {tls} }}
                  far: {{ endpoints: ["{far}"], http: {inner}, via: near, {tls} }}
                  voice: {{ endpoints: ["{}"], via: far }}
                "#,
                origin.address()
            ),
        );
        let client = Client::connect(node.address("voice"));
        for length in [1, 1150, 17] {
            let payload = vec![length as u8; length];
            client.send(&payload);
            assert_eq!(client.receive(), payload, "{inner} in {outer}");
        }
    }
}
