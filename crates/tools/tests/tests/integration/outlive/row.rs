//! An entry, proxies in the middle, and an end; only the entry asks for tunnels that outlive their path.

use std::net::SocketAddr;

use hermes_tests::raw::Raw;
use hermes_tests::{Node, free};

/// The row, each of whose proxies can be killed.
pub struct Row {
    pub entry: Node,
    pub middles: [Node; 2],
    pub end: Node,
}

/// How tunnels travel.
#[derive(Clone, Copy)]
pub struct Forms {
    /// HTTP between all of them.
    pub http: u8,
    /// What `tunnel` of the entry says beside `resume`, or nothing.
    pub entry: &'static str,
    /// `tunnel:` of the first proxy in the middle.
    pub middle: &'static str,
}

impl Forms {
    pub fn http(http: u8) -> Self {
        Self {
            http,
            entry: "",
            middle: "",
        }
    }
}

/// A node at an address that is the same after a restart.
fn node(name: &str, address: SocketAddr, rest: &str) -> Node {
    Node::start(
        name,
        &format!("listeners: {{ web: {{ http: \"{address}\" }} }}\n{rest}"),
    )
}

fn to(next: SocketAddr, http: u8, route: &str) -> String {
    format!(
        "routes: [ {{ {route} to: next }} ]\n\
         upstreams: {{ next: {{ endpoints: [\"{next}\"], http: {http} }} }}\n"
    )
}

/// The entry of tunnels to `target`, by `next`.
pub fn entry(target: SocketAddr, next: SocketAddr, forms: Forms, resume: &str) -> String {
    format!(
        "listeners: {{ db: {{ tcp: 127.0.0.1:0, target: \"{target}\" }}, web: {{ http: 127.0.0.1:0 }} }}\n{}",
        to(
            next,
            forms.http,
            &format!("tunnel: {{ resume: {resume}, {} }},", forms.entry)
        )
    )
}

/// Where tunnels end.
pub const END: &str = "routes: [ { terminate: true } ]\negress: { allow: [127.0.0.0/8] }\n";

impl Row {
    pub fn start(target: SocketAddr, forms: Forms) -> Self {
        let addresses: [SocketAddr; 3] = std::array::from_fn(|_| free::tcp());
        let end = node("end", addresses[2], END);
        let second = node("second", addresses[1], &to(addresses[2], forms.http, ""));
        let first = node(
            "first",
            addresses[0],
            &to(addresses[1], forms.http, forms.middle),
        );

        let entry = Node::start("entry", &entry(target, addresses[0], forms, "true"));
        Self {
            entry,
            middles: [first, second],
            end,
        }
    }

    /// A connection of a TCP client.
    pub fn connect(&self) -> Raw {
        Raw::connect(self.entry.address("db"))
    }
}

/// Says something, and hears it again.
pub fn talk(raw: &mut Raw, word: &str) {
    raw.send(word);
    assert_eq!(raw.exactly(word.len()), word.as_bytes());
}
