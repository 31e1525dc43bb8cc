//! The overlay of the demo, as its operator describes it.

use std::net::SocketAddr;

use super::Addresses;

/// Two nodes, and servers beside one of them that Alice may reach.
pub fn overlay(addresses: Addresses, video: SocketAddr, database: SocketAddr) -> String {
    let Addresses { hub, edge, .. } = addresses;
    format!(
        "apiVersion: hermes/v1
kind: Node
metadata: {{ name: hub }}
spec: {{ listen: \"{hub}\", reach: [\"{hub}\"], ingress: true }}
---
apiVersion: hermes/v1
kind: Node
metadata: {{ name: edge }}
spec: {{ listen: \"{edge}\", reach: [\"{edge}\"] }}
---
apiVersion: hermes/v1
kind: Service
metadata: {{ name: video }}
spec: {{ at: [{{ node: edge, address: \"{video}\" }}] }}
---
apiVersion: hermes/v1
kind: Service
metadata: {{ name: db }}
spec: {{ at: [{{ node: edge, address: \"{database}\" }}] }}
---
apiVersion: hermes/v1
kind: Name
metadata: {{ name: video }}
spec: {{ name: VIDEO, service: video }}
---
apiVersion: hermes/v1
kind: Name
metadata: {{ name: db }}
spec: {{ name: DB, service: db }}
---
apiVersion: hermes/v1
kind: Policy
metadata: {{ name: all }}
spec: {{ rules: [{{ match: {{ target: [VIDEO, DB], user: alice }}, allow: true }}] }}
"
    )
}

/// The same, with a listener at `edge` for which there is no room, and a rule that every node would get.
pub fn with_busy_listener(overlay: &str, edge: SocketAddr, busy: SocketAddr) -> String {
    let listen = format!("listen: \"{edge}\",");
    let listener = format!("{listen} listeners: {{ local: {{ http: \"{busy}\" }} }},");
    overlay
        .replace(&listen, &listener)
        .replace("user: alice", "user: [alice, bob]")
}
