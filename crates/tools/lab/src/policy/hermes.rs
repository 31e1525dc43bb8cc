//! A node of Hermes with each kind of decision.

use std::fmt::Write;
use std::net::SocketAddr;

use super::rules::{other_host, other_path};
use crate::origin::Addresses;

/// The decision of a node, besides its routes.
pub enum NodeDecision<'a> {
    /// Nothing.
    Nothing,
    /// This many rules of its own.
    Rules(usize),
    /// This many rules of its own, whose conditions no index finds.
    Unindexed(usize),
    /// A policy in Rego, in this file.
    Rego(&'a str),
    /// OPA at this address.
    Opa(SocketAddr),
    /// OPA's plugin for Envoy at this address.
    Grpc(SocketAddr),
}

/// The document of a node that listens at `address`.
pub fn document(address: SocketAddr, origin: &Addresses, decides: &NodeDecision<'_>) -> String {
    let decision = match decides {
        NodeDecision::Nothing => String::new(),
        NodeDecision::Rules(count) => rules(*count, |number| {
            format!(
                "target: {}, path: \"{}*\"",
                other_host(number),
                other_path(number)
            )
        }),
        NodeDecision::Unindexed(count) => rules(*count, |number| {
            format!("method: GET, protocol: other-{number}")
        }),
        NodeDecision::Rego(file) => format!(
            "fields: [x-secure]\nauthorize:\n  - name: rego\n    allow_fields: [x-secure]\n    \
             rego: {{ files: {file}, query: data.envoy.authz.allow, input: envoy }}\n"
        ),
        NodeDecision::Opa(opa) => format!(
            "fields: [x-secure]\nauthorize:\n  - name: opa\n    kind: opa\n    \
             url: \"http://{opa}/v1/data/overlay/decision\"\n    send: [accept]\n    allow_fields: [x-secure]\n"
        ),
        NodeDecision::Grpc(opa) => format!(
            "fields: [x-secure]\nauthorize:\n  - name: opa\n    kind: grpc\n    url: \"http://{opa}\"\n    \
             send: [accept]\n    allow_fields: [x-secure]\n"
        ),
    };

    format!(
        "version: 1\nworkers: 1\nadmin: {{ socket: node.sock }}\nlog: {{ level: warn, access: off }}\n\
         listeners: {{ in: {{ http: \"{address}\" }} }}\n{decision}\
         routes:\n  - {{ match: {{ target: web.lab }}, terminate: web }}\n  - {{ match: {{ target: tls.lab }}, terminate: tls }}\n\
         upstreams:\n  web: {{ endpoints: [\"{}\"] }}\n  tls: {{ endpoints: [\"{}\"] }}\n",
        origin.http, origin.tls
    )
}

/// A list of rules of which the last two are those for the client; the others have these conditions.
fn rules(count: usize, condition: impl Fn(usize) -> String) -> String {
    let mut text = "policy:\n  default: deny\n  rules:\n".to_owned();
    for number in 0..count.saturating_sub(2) {
        let condition = condition(number);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    - {{ match: {{ {condition} }}, allow: true }}");
    }

    text + "    - { match: { target: web.lab, method: GET }, allow: true }\n    \
            - { match: { target: tls.lab, kind: connect }, allow: true }\n"
}
