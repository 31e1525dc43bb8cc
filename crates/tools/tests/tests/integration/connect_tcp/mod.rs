//! connect-tcp (draft-ietf-httpbis-connect-tcp): TCP within capsules, beside and in place of CONNECT.

mod draft;
mod ends;
mod matrix;

use std::net::SocketAddr;

use hermes_tests::Node;
use hermes_tests::capsules::UdpTunnel;

/// The capsules of the draft.
const DATA: u64 = 0x2028_d7f2;
const FINAL_DATA: u64 = 0x2028_d7f3;

/// A node where tunnels end.
const END: &str = r#"
    listeners:
      web: { http: 127.0.0.1:0, templates: { tcp: "/proxy{?target_host,target_port}" } }
    routes: [ { match: { method: POST }, tunnel: post, terminate: true }, { terminate: true } ]
    egress: { allow: [127.0.0.0/8] }
"#;

/// The path of a target by the default template.
fn path(target: SocketAddr) -> String {
    format!("/.well-known/masque/tcp/{}/{}/", target.ip(), target.port())
}

/// A tunnel over HTTP/1.1.
fn tunnel(proxy: SocketAddr, target: SocketAddr) -> UdpTunnel {
    UdpTunnel::h1_for(proxy, "connect-tcp", &path(target), "").unwrap()
}

/// A node that sends on to `next` over this version, in this form.
fn forwarder(next: SocketAddr, version: u8, tunnel: &str) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        routes: [ {{ to: next, {tunnel} }} ]
        upstreams: {{ next: {{ endpoints: ["{next}"], http: {version} }} }}
        workers: 1
        "#
    );
    Node::start(&format!("before-{}", next.port()), &yaml)
}

/// The bytes of the capsules that come until the last one, which is FINAL_DATA; other capsules by their type.
fn read(tunnel: &mut UdpTunnel) -> (Vec<u8>, Vec<u64>) {
    let (mut bytes, mut others) = (Vec::new(), Vec::new());
    loop {
        match tunnel.capsule() {
            (DATA, value) => bytes.extend(value),
            (FINAL_DATA, value) => {
                bytes.extend(value);
                return (bytes, others);
            }
            (other, _) => others.push(other),
        }
    }
}
