//! The reads of documents: of any random overlay and any random change, one that is not made again is as if it were.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use serde_json::{Value as Json, json};

use super::super::{Compiled, Compiler, Recipient};
use super::overlay::{TARGETS, USERS, adder, key};
use super::tenants::Composed;
use super::walk::{overlay, seeds};
use super::{DOMAIN, documents, tree};
use crate::resources::{Key, Kind, Resource, Tree};

/// Changes of each random overlay.
const CHANGES: usize = 12;

type Documents = BTreeMap<Recipient, Compiled>;

fn made(compiler: &Compiler<'_>) -> Documents {
    let recipients = compiler.recipients().into_iter();
    let documents = recipients.filter_map(|recipient| {
        let compiled = compiler.document(&recipient).ok()?;
        Some((recipient, compiled))
    });
    documents.collect()
}

/// A change of one resource to what another overlay has, or of a field alone, or one of a kind that the overlays have none of.
fn change(next: &mut Tree, other: &Tree, random: &mut Rng) {
    let node = format!("n{}", random.usize(0..4));
    match random.u8(0..13) {
        0..4 => {
            let all: BTreeSet<&Key> = next
                .resources()
                .chain(other.resources())
                .map(Resource::key)
                .collect();
            let all: Vec<Key> = all.into_iter().cloned().collect();
            let key = &all[random.usize(0..all.len())];
            match other.resource(key) {
                Some(resource) => next.insert(resource.clone(), None).unwrap(),
                None => drop(next.remove(key)),
            }
        }
        4 => edit(next, Kind::Service, "s0", |spec| {
            spec["at"][0]["address"] = json!(format!("127.0.0.1:{}", 9000 + random.u16(0..100)));
        }),
        5 => edit(next, Kind::Node, &node, |spec| {
            spec["zone"] = json!(format!("z{}", random.u8(0..3)));
        }),
        6 => edit(next, Kind::Node, &node, |spec| {
            if spec.get("reach").is_some() {
                spec["reach"] = json!([format!("10.1.0.{}:8443", random.u8(0..9))]);
            }
        }),
        7 => toggle(next, Kind::Route, "r0", || {
            let via = if random.bool() {
                vec![node]
            } else {
                Vec::new()
            };
            let matches = match random.bool() {
                true => json!({ "target": TARGETS[random.usize(0..TARGETS.len())] }),
                false => json!({ "user": USERS[random.usize(0..USERS.len())] }),
            };
            json!({ "match": matches, "via": via, "to": format!("s{}", random.usize(0..3)) })
        }),
        8 => toggle(
            next,
            Kind::Slice,
            "home",
            || json!({ "at": node, "prefixes": "10.9.0.0/16", "pool": "10.8.0.0/24", "members": ["alice", "group:team"] }),
        ),
        9 => toggle(
            next,
            Kind::User,
            "alice",
            || json!({ "names": ["alice-at-work"] }),
        ),
        10 => toggle(
            next,
            Kind::Policy,
            "local",
            || json!({ "at": [node], "rules": [{ "match": { "user": "alice" }, "allow": true }] }),
        ),
        11 => toggle(next, Kind::Peering, "b", || {
            json!({
                "domain": "b.test", "bundle": "/etc/b.pem", "border": [{ "node": "hub", "reach": ["10.2.0.1:8443"] }],
                "at": [node], "exports": [{ "name": "a0", "to": "alice" }],
            })
        }),
        _ => toggle(
            next,
            Kind::Overlay,
            "o",
            || json!({ "trustDomain": "other.example" }),
        ),
    }
}

fn edit(tree: &mut Tree, kind: Kind, name: &str, edit: impl FnOnce(&mut Json)) {
    let Some(resource) = tree.resource(&key(kind, name)) else {
        return;
    };
    let mut json = resource.to_json().clone();
    edit(&mut json["spec"]);
    tree.insert(Resource::from_json(&json).unwrap(), None)
        .unwrap();
}

/// Adds a resource, or removes it.
fn toggle(tree: &mut Tree, kind: Kind, name: &str, spec: impl FnOnce() -> Json) {
    if !tree.remove(&key(kind, name)) {
        adder("default", tree)(kind, name.to_owned(), spec());
    }
}

/// Asserts that documents that a change does not concern are as if they were made again; returns how many these are, and how many others differ.
fn assert_kept(before: &Tree, known: &Documents, after: &Tree, said: &str) -> [usize; 2] {
    let Ok(compiler) = Compiler::new(after, DOMAIN) else {
        return [0; 2];
    };
    let changed = before.differing(after);
    let touched = compiler.touched(before, &changed);
    let mut kept = 0;
    let mut differing = 0;
    for (recipient, made) in made(&compiler) {
        let known = known.get(&recipient);
        let Some(known) = known.filter(|known| !touched.concerns(&recipient, &known.reads)) else {
            differing += usize::from(known.is_none_or(|known| *known != made));
            continue;
        };
        let ranked = Compiled {
            rank: compiler.rank(&recipient),
            ..known.clone()
        };
        assert_eq!(ranked, made, "{said}: {recipient:?} after {changed:?}");
        kept += 1;
    }
    [kept, differing]
}

#[test]
fn a_document_that_a_change_does_not_concern_is_as_if_it_were_made_again() {
    let mut counts = [0; 2];
    for seed in seeds() {
        let mut random = Rng::with_seed(seed);
        let [tree, other] = match seed % 2 {
            0 => [(); 2].map(|()| overlay(&mut random).1),
            _ => [(); 2].map(|()| Composed::random(&mut random).tree(&["blue", "red"])),
        };
        let Ok(compiler) = Compiler::new(&tree, DOMAIN) else {
            continue;
        };
        let mut known = made(&compiler);
        let mut before = tree.clone();
        // One change after the other, so that there is something to change back.
        for number in 0..CHANGES {
            let mut next = before.clone();
            for _ in 0..random.usize(1..3) {
                change(&mut next, &other, &mut random);
            }
            let said = format!("seed {seed}, change {number}");
            let [kept, differing] = assert_kept(&before, &known, &next, &said);
            counts[0] += kept;
            counts[1] += differing;
            if let Ok(compiler) = Compiler::new(&next, DOMAIN) {
                known = made(&compiler);
                before = next;
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
}

/// A hub, and two proxies with a service each.
const PROXIES: &str = r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: a }
spec: { listen: "0.0.0.0:8443", reach: ["10.0.0.1:8443"] }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: b }
spec: { listen: "0.0.0.0:8443", reach: ["10.0.0.2:8443"] }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: a }
spec: { at: [{ node: a, address: "127.0.0.1:8000" }] }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: b }
spec: { at: [{ node: b, address: "127.0.0.1:8000" }] }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: a }
spec: { service: a }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: b }
spec: { service: b }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: all }
spec: { rules: [{ allow: true }] }
"#;

/// The recipients that a change of this text concerns.
fn concerned(from: &str, to: &str) -> Vec<String> {
    assert!(PROXIES.contains(from), "{from}");
    let before = tree(PROXIES);
    let after = tree(&PROXIES.replace(from, to));
    let compiler = Compiler::new(&after, DOMAIN).unwrap();
    let touched = compiler.touched(&before, &before.differing(&after));
    let documents = documents(&before).into_iter();
    let concerned =
        documents.filter(|(recipient, known)| touched.concerns(recipient, &known.reads));
    concerned
        .map(|(recipient, _)| recipient.to_string())
        .collect()
}

#[test]
fn a_change_concerns_the_documents_that_have_read_it_alone() {
    assert_eq!(
        concerned(
            "node: a, address: \"127.0.0.1:8000",
            "node: a, address: \"127.0.0.1:9000"
        ),
        ["a"]
    );
    assert_eq!(concerned("10.0.0.1:8443", "10.0.0.9:8443"), ["a", "hub"]);
    assert_eq!(
        concerned("hub.example.org", "hub2.example.org"),
        ["hub", "devices"]
    );
    assert_eq!(
        concerned(
            "{ name: b }\nspec: { service: b }",
            "{ name: b }\nspec: { name: c, service: b }"
        ),
        ["b", "hub"]
    );
    assert_eq!(
        concerned(
            "{ name: b }\nspec: { service: b }",
            "{ name: b }\nspec: { service: a }"
        ),
        ["a", "b", "hub"]
    );
    assert_eq!(concerned("{ node: b,", "{ node: a,"), ["a", "b", "hub"]);
    let with_rollout = "spec: { rules: [{ allow: true }] }\n---\napiVersion: hermes/v1\nkind: Overlay\nmetadata: { name: o }\nspec: { rollout: { canary: 2 } }\n";
    assert_eq!(
        concerned("spec: { rules: [{ allow: true }] }\n", with_rollout),
        [""; 0]
    );
}
