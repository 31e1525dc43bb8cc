//! Slices: who reaches one, and the documents that lead there.

use hermes_config::model::{Document, ExchangeKind, Terminate};
use hermes_rules::judge::{Arrived, ArrivedPath, Authenticated, Entrance, RemovedFields};
use hermes_rules::{Fields, Rules, Source, Target};
use http::{HeaderValue, Method};
use serde_json::Value as Json;

use super::change::{State, compiled, ordered, spread};
use super::{DOMAIN, documents, tree};
use crate::resources::Tree;

/// A slice of the operator and one of a tenant, with the same addresses, at two nodes behind a hub.
const SLICES: &str = r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true, tenants: [red] }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: office }
spec: { listen: "0.0.0.0:8443", reach: ["10.0.0.2:8443"] }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: barn, tenant: red }
spec: { attach: [hub] }
---
apiVersion: hermes/v1
kind: Tenant
metadata: { name: red }
spec: { members: [alice, carol] }
---
apiVersion: hermes/v1
kind: Slice
metadata: { name: servers }
spec:
  at: office
  prefixes: [10.0.0.1/32, 128.252.0.0/16]
  pool: [10.7.0.0/24, "fd07::/64"]
  members: [bob, "group:ops"]
  names: { pool: 100.64.0.0/24, names: [VIDEO] }
  nat: true
---
apiVersion: hermes/v1
kind: Slice
metadata: { name: servers, tenant: red }
spec: { at: barn, prefixes: 10.0.0.1/32, pool: 10.8.0.0/24, members: "*" }
---
apiVersion: hermes/v1
kind: Group
metadata: { name: ops }
spec: { members: [dave] }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: all }
spec: { rules: [{ match: { user: "*" }, allow: true }] }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: laptop }
spec: { user: carol, slices: [servers, red.servers] }
"#;

/// What becomes of the tunnel of IP packets that a certificate brings to a node: the next upstream, or the device where it ends.
fn tunnel(document: &Json, certificate: &str, user: &str, slice: &str) -> Result<String, String> {
    let document: Document = serde_json::from_value(document.clone()).unwrap();
    let rules: Rules<()> =
        Rules::compile(&document, document.node.clone().unwrap().into(), |_, _| {
            Some(())
        })
        .unwrap();
    let known = rules
        .peers
        .certified([certificate].into_iter(), Some(certificate));
    let listener = match document.listeners.contains_key("overlay") {
        true => "overlay",
        false => "attach-hub",
    };
    let arrived = Arrived {
        entrance: Entrance {
            name: listener,
            config: &document.listeners[listener],
            user: None,
        },
        source: known.unwrap_or(Source::Client),
        authenticated: Authenticated {
            user: Some(certificate),
            by_certificate: true,
            ..Authenticated::default()
        },
        kind: ExchangeKind::ConnectIp,
        target_host: "*",
        target: Target::Host { name: "*", port: 0 },
        authority: None,
        method: &Method::CONNECT,
        path: ArrivedPath {
            path: "/.well-known/masque/ip/*/*/",
            query: None,
        },
        protocol: Some("connect-ip"),
        peer: None,
        tls_peer: Some(certificate),
    };
    let mut fields = Fields::new();
    fields.append("user", HeaderValue::from_str(user).unwrap());
    if !slice.is_empty() {
        fields.append("x-hermes-slice", HeaderValue::from_str(slice).unwrap());
    }
    let judged = rules.judge(&arrived, fields, 0, &mut RemovedFields::default());
    let route = judged
        .map_err(|refusal| refusal.to_string())?
        .route
        .config
        .clone();
    Ok(match (&route.terminate, &route.to) {
        (Some(Terminate::Tun(device)), _) => device.tun.clone(),
        (_, Some(to)) => serde_json::to_value(to)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned(),
        other => panic!("{other:?}"),
    })
}

#[test]
fn packets_of_members_alone_reach_a_slice() {
    let all: Vec<(String, Json)> = documents(&tree(SLICES))
        .into_iter()
        .map(|(_, compiled)| {
            let node = compiled.document["node"].as_str().unwrap_or_default();
            (node.to_owned(), compiled.document.clone())
        })
        .collect();
    let of = |node: &str| &all.iter().find(|(name, _)| name == node).unwrap().1;
    let from_device = |user: &str, slice: &str| {
        let certificate = format!("spiffe://{DOMAIN}/user/{user}/laptop");
        tunnel(of("hub"), &certificate, user, slice)
    };
    assert_eq!(from_device("bob", "servers").unwrap(), "to-office");
    assert_eq!(from_device("dave", "servers").unwrap(), "to-office");
    assert_eq!(from_device("carol", "red.servers").unwrap(), "to-barn");
    // The policy allows everybody everything, and no slice.
    for (user, slice) in [
        ("carol", "servers"),
        ("bob", "red.servers"),
        ("bob", "other"),
        ("bob", ""),
        ("erin", "servers"),
    ] {
        assert!(from_device(user, slice).is_err(), "{user} {slice}");
    }

    let from_hub = |node: &str, user: &str, slice: &str| {
        tunnel(
            of(node),
            &format!("spiffe://{DOMAIN}/node/hub"),
            user,
            slice,
        )
    };
    assert_eq!(from_hub("office", "bob", "servers").unwrap(), "hs-servers");
    assert_eq!(
        from_hub("barn", "alice", "red.servers").unwrap(),
        "hs-red_servers"
    );
    assert!(from_hub("office", "carol", "servers").is_err());
    // A device that goes round the ingress is no one there.
    let device = format!("spiffe://{DOMAIN}/user/bob/laptop");
    assert!(tunnel(of("office"), &device, "bob", "servers").is_err());
}

#[test]
fn nodes_and_devices_have_the_devices_of_their_slices() {
    let parts = documents(&tree(SLICES)).into_iter().map(|(_, compiled)| {
        let document = compiled.document.as_object().unwrap();
        hermes_config::format_as_written(document)
    });
    insta::assert_snapshot!("slices", parts.collect::<Vec<_>>().join("---\n"));
}

/// A slice at a node behind others, one of which no device enters, and names that change places between these.
fn moving(slice: &str, video: &str, mail: &str, members: &str) -> Tree {
    tree(&format!(
        r#"
apiVersion: hermes/v1
kind: Node
metadata: {{ name: hub }}
spec: {{ listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true }}
---
apiVersion: hermes/v1
kind: Node
metadata: {{ name: office }}
spec: {{ listen: "0.0.0.0:8443", reach: ["10.0.0.2:8443"], ingress: true }}
---
apiVersion: hermes/v1
kind: Node
metadata: {{ name: shed }}
spec: {{ listen: "0.0.0.0:8443", reach: ["10.0.0.3:8443"], ingress: true }}
---
apiVersion: hermes/v1
kind: Node
metadata: {{ name: barn }}
spec: {{ listen: "0.0.0.0:8443", reach: ["10.0.0.4:8443"] }}
---
apiVersion: hermes/v1
kind: Slice
metadata: {{ name: servers }}
spec: {{ at: {slice}, prefixes: 10.0.0.1/32, pool: 10.7.0.0/24, members: {members} }}
---
apiVersion: hermes/v1
kind: Service
metadata: {{ name: video }}
spec: {{ at: [{{ node: {video}, address: 127.0.0.1:8000 }}] }}
---
apiVersion: hermes/v1
kind: Service
metadata: {{ name: mail }}
spec: {{ at: [{{ node: {mail}, address: 127.0.0.1:8001 }}] }}
---
apiVersion: hermes/v1
kind: Name
metadata: {{ name: video }}
spec: {{ service: video }}
---
apiVersion: hermes/v1
kind: Name
metadata: {{ name: mail }}
spec: {{ service: mail }}
---
apiVersion: hermes/v1
kind: Policy
metadata: {{ name: all }}
spec: {{ rules: [{{ match: {{ user: "*" }}, allow: true }}] }}
"#
    ))
}

/// Where a device's tunnel into the slice ends that enters at a node.
fn end(state: &State, ingress: &str, user: &str) -> Result<String, String> {
    let mut node = ingress.to_owned();
    let mut certificate = format!("spiffe://{DOMAIN}/user/{user}/laptop");
    for _ in 0..4 {
        let next = tunnel(&state[&node].document, &certificate, user, "servers")
            .map_err(|refusal| format!("{node}: {refusal}"))?;
        if next.starts_with("hs-") {
            return Ok(node);
        }
        let upstream = &state[&node].document["upstreams"][&next];
        certificate = format!("spiffe://{DOMAIN}/node/{node}");
        let server = upstream["endpoints"][0]["server_name"].as_str().unwrap();
        node = server.split('.').next().unwrap().to_owned();
    }
    Err("it turns in a circle".to_owned())
}

/// Spreads a change node by node; `judge` sees each state on the way.
fn pass(before: &Tree, after: &Tree, judge: &dyn Fn(&State, &str)) -> usize {
    let states = [before, after].map(|tree| compiled(tree).unwrap());
    let steps = ordered(&states[0], &states[1]).unwrap();
    let mut now = states[0].clone();
    spread(
        &states[0],
        &states[1],
        &steps,
        &mut |name, compiled, stage| {
            compiled.prove(after).unwrap();
            now.insert(name.clone(), compiled.clone());
            judge(&now, &format!("{name} {stage}"));
        },
    );
    steps.len()
}

#[test]
fn a_slice_that_moves_is_reached_at_each_step_and_by_its_members_alone() {
    let before = moving("barn", "hub", "hub", "[bob, dave]");
    let after = moving("shed", "hub", "hub", "[bob, erin]");
    for (before, after) in [(&before, &after), (&after, &before)] {
        pass(before, after, &|state, said| {
            for ingress in ["hub", "office", "shed"] {
                let end = |user| end(state, ingress, user);
                let (bob, carol) = (end("bob"), end("carol"));
                assert!(bob.is_ok(), "{said}: at {ingress}: {bob:?}");
                assert!(carol.is_err(), "{said}: at {ingress}: {carol:?}");
            }
        });
    }
}

#[test]
fn a_slice_that_goes_or_comes_lets_no_one_else_in() {
    let both = moving("barn", "hub", "hub", "[bob]");
    let mut none = moving("barn", "hub", "hub", "[bob]");
    none.remove(&"Slice/default/servers".parse().unwrap());
    for (before, after) in [(&both, &none), (&none, &both)] {
        pass(before, after, &|state, said| {
            for ingress in ["hub", "office", "shed"] {
                let end = end(state, ingress, "carol");
                assert!(end.is_err(), "{said}: at {ingress}: {end:?}");
            }
        });
    }
}

#[test]
fn names_that_change_places_move_in_turns_though_there_is_a_slice() {
    let before = moving("office", "office", "shed", "[bob]");
    let after = moving("shed", "shed", "office", "[bob]");
    let turns = pass(&before, &after, &|state, said| {
        for ingress in ["hub", "office", "shed"] {
            let end = end(state, ingress, "bob");
            assert!(end.is_ok(), "{said}: at {ingress}: {end:?}");
        }
    });
    assert_eq!(turns, 2);
}
