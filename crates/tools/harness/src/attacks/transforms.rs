//! Transforms that are named more than once, so that each makes the bytes of the one before many more.

use std::net::SocketAddr;

use super::{Attack, Effort, Party, Place, Stage};
use crate::h2c::Client;
use crate::head::Head;
use crate::origins;
use crate::raw::Raw;

/// Tunnels of each version.
const TUNNELS: usize = 20;

/// `compress` eight times: 257 bytes stand for a gigabyte.
pub(super) const NESTED: Attack = Attack {
    name: "nested-transforms",
    by: Party::Peer,
    place: Place::Loopback,
    summary: "20 tunnels over HTTP/1.1 and as many over HTTP/2 ask for `compress` eight times",
    prepare,
    run,
};

fn prepare() -> Stage {
    let origin = origins::tcp_echo();
    let route = format!("{{ terminate: \"{}\" }}", origin.address());
    Stage::start(
        "web: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8] }",
        &route,
        "",
    )
    .keeping(origin)
}

fn run(stage: &Stage) -> Effort {
    let names = ["compress"; 8].join(", ");
    let web = stage.node.address("web");
    let mut effort = Effort::default();
    for _ in 0..TUNNELS {
        if let Ok(tunnel) = tunnel(web, "VIDEO:1", &names) {
            effort.passed += 1;
            effort.hold(tunnel);
        }
        let client = Client::connect(web);
        if let Ok(tunnel) = client.tunnel("VIDEO:1", &[("hermes-transform", &names)]) {
            effort.passed += 1;
            effort.hold(tunnel);
        }
        effort.attempts += 2;
        effort.bytes += 2 * names.len() as u64;
    }

    effort
}

/// A tunnel over HTTP/1.1 that asks for these transforms.
///
/// # Errors
/// The answer, where it is refused.
pub fn tunnel(proxy: SocketAddr, target: &str, names: &str) -> Result<Raw, Head> {
    Raw::tunnel(proxy, target, &format!("Hermes-Transform: {names}\r\n"))
}
