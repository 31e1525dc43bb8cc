//! Other spellings of an address that rules deny.

use std::net::SocketAddr;

use super::{Attack, Effort, Party, Place, Stage};
use crate::h2c::Client;
use crate::origins;
use crate::raw::Raw;

/// Other ways to write 127.0.0.1, as hosts of URIs.
pub const SPELLINGS: [&str; 4] = [
    "[::ffff:127.0.0.1]",
    "[::FFFF:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]",
];

/// IPv4-mapped addresses and one of NAT64, in messages and tunnels of each kind.
pub(super) const MAPPED: Attack = Attack {
    name: "spelled-hosts",
    by: Party::Client,
    place: Place::Loopback,
    summary: "messages and tunnels of 8 forms to four spellings of 127.0.0.1, which the policy denies",
    prepare,
    run,
};

fn prepare() -> Stage {
    let origin = origins::http();
    let further = "egress: { allow: [127.0.0.0/8] }\n\
        policy: { default: allow, rules: [ { match: { target: 127.0.0.1 }, deny: true } ] }";
    Stage::start("web: { http: 127.0.0.1:0 }", "{ terminate: true }", further).keeping(origin)
}

fn run(stage: &Stage) -> Effort {
    let mut effort = Effort::default();
    let origin = origins::http();
    for host in SPELLINGS {
        for (_, status) in asked(stage.node.address("web"), host, origin.port()) {
            effort.attempts += 1;
            effort.bytes += 100;
            effort.passed += u64::from(status != 403);
        }
    }

    effort
}

/// Paths of tunnels by template to this host of a URI (RFC 9298, 3).
pub fn templates(host: &str, port: u16) -> [(&'static str, String); 2] {
    let bare = host.trim_matches(['[', ']']).replace(':', "%3A");
    [("connect-udp", "udp"), ("connect-tcp", "tcp")].map(|(protocol, kind)| {
        let path = format!("/.well-known/masque/{kind}/{bare}/{port}/");
        (protocol, path)
    })
}

/// Messages over HTTP/1.1 and HTTP/2, and tunnels of three kinds over both, with their statuses.
///
/// # Panics
/// When the proxy does not answer.
pub fn asked(proxy: SocketAddr, host: &str, port: u16) -> Vec<(String, u16)> {
    let authority = format!("{host}:{port}");
    let by_h2 = |answer: Result<(), u16>| answer.err().unwrap_or(200);
    let mut all = vec![
        ("GET, HTTP/1.1".to_owned(), message(proxy, &authority)),
        (
            "GET, HTTP/2".to_owned(),
            Client::connect(proxy).statuses(&format!("http://{authority}/"), 1)[0],
        ),
    ];

    let opened = Raw::tunnel(proxy, &authority, "").map(drop);
    let status = opened.map_or_else(|head| head.status(), |()| 200);
    all.push(("CONNECT, HTTP/1.1".to_owned(), status));
    let opened = Client::connect(proxy).tunnel(&authority, &[]);
    let opened = opened.map(drop).map_err(|answer| answer.status);
    all.push(("CONNECT, HTTP/2".to_owned(), by_h2(opened)));

    for (protocol, path) in templates(host, port) {
        all.push((
            format!("{protocol}, HTTP/1.1"),
            upgrade(proxy, protocol, &path),
        ));
        let client = Client::connect(proxy);
        let opened = client.extended(protocol, &format!("http://proxy{path}"), &[]);
        let opened = opened.map(drop).map_err(|answer| answer.status);
        all.push((format!("{protocol}, HTTP/2"), by_h2(opened)));
    }
    all
}

fn message(proxy: SocketAddr, authority: &str) -> u16 {
    let mut raw = Raw::connect(proxy);
    raw.send(format!(
        "GET http://{authority}/ HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    ));
    raw.head().status()
}

fn upgrade(proxy: SocketAddr, protocol: &str, path: &str) -> u16 {
    let mut raw = Raw::connect(proxy);
    raw.send(format!(
        "GET http://proxy{path} HTTP/1.1\r\nHost: proxy\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\n\r\n"
    ));
    raw.head().status()
}
