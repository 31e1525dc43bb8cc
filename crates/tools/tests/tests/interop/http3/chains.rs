//! QUIC inside a tunnel of masque-go, whose QUIC datagrams carry its packets.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::{HttpPeer, Node, Pki, curl, origins};

use super::end;

#[test]
fn a_hop_is_reached_inside_a_tunnel_of_masque_go() {
    let template = "/masque{?target_host,target_port}";
    let (pki, udp, origin) = (Pki::new(), origins::udp_echo(origins::V4), origins::http());
    let (outer, inner) = (HttpPeer::MasqueGo.server_by(template, &pki, &[]), end(&pki));
    let tls = format!("http: 3, tls: {{ ca_file: {} }}", pki.ca().display());
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        routes: [ {{ to: [outer, inner] }} ]
        upstreams:
          outer: {{ endpoints: ["{}"], {tls}, templates: {{ udp: "{template}" }} }}
          inner: {{ endpoints: ["{}"], {tls} }}
        "#,
        outer.address(),
        inner.address("web")
    );
    let node = Node::start("entry", &yaml);
    let proxy = format!("http://{}", node.address("web"));
    let large = curl(&[
        "-x",
        &proxy,
        &format!("http://{}/bytes/3000000", origin.address()),
    ]);
    assert_eq!((large.exit, large.body.len()), (0, 3_000_000));
    let mut tunnel = UdpTunnel::h1(node.address("web"), "127.0.0.1", udp.port(), "").unwrap();
    // A hop that is no Hermes gets packets of 1200 bytes at most on the way back.
    for length in [1, 1100] {
        tunnel.send(vec![9; length]);
        assert_eq!(tunnel.receive(), vec![9; length]);
    }
    let hops = node.status()["hops"].clone();
    let last = hops
        .as_array()
        .unwrap()
        .iter()
        .find(|hop| hop["hop"] == "outer > inner")
        .unwrap();
    assert_eq!(
        (&last["http"], &last["carried_by"]),
        (&3.into(), &"datagrams".into()),
        "{hops:#}"
    );
}
