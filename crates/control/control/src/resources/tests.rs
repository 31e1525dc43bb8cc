//! Resources: their form, and how they fit together.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::path::Path;

use super::*;

fn read_text(text: &str) -> Result<Tree, Findings> {
    read(&[Source {
        name: Path::new("overlay.yaml"),
        text,
    }])
}

fn said(text: &str) -> Vec<String> {
    let found = match read_text(text) {
        Ok(tree) => check(&tree).err(),
        Err(findings) => Some(findings),
    };
    found
        .unwrap_or_default()
        .0
        .iter()
        .map(ToString::to_string)
        .collect()
}

const WHOLE: &str = r#"
apiVersion: hermes/v1
kind: Overlay
metadata: { name: demo }
spec: { trustDomain: demo.example.org, rollout: { canary: 1, bake: 10s }, guards: { maxChanged: 50% } }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: hub, labels: { rack: a } }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: video }
spec: { at: [{ node: hub, address: "127.0.0.1:8000" }] }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: video }
spec: { name: VIDEO, for: "group:staff", service: video }
---
apiVersion: hermes/v1
kind: Group
metadata: { name: staff }
spec: { members: [alice, "ops-*"] }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: video }
spec:
  rules:
    - { match: { target: VIDEO, user: "group:staff" }, allow: true }
"#;

#[test]
fn a_resource_is_read_as_it_is_written() {
    let tree = read_text(WHOLE).unwrap();
    check(&tree).unwrap();
    assert_eq!(tree.len(), 6);
    for resource in tree.resources() {
        let yaml = resource.to_yaml();
        let again = read_text(&yaml).unwrap();
        assert_eq!(again.resource(resource.key()), Some(resource), "{yaml}");
        let json = Resource::from_json(resource.to_json()).unwrap();
        assert_eq!(json.hash(), resource.hash());
    }

    let policy: Key = "Policy/video".parse().unwrap();
    let place = tree.place(&policy, "spec.rules[0].match.user").unwrap();
    assert_eq!((place.line, place.column), (32, 7));
    let hub = tree.resource(&"Node/hub".parse().unwrap()).unwrap();
    assert_eq!(hub.label("rack"), Some("a"));
    insta::assert_snapshot!(hub.to_yaml());
}

#[test]
fn all_mistakes_of_form_are_told_at_once() {
    let text = "
kind: Node
apiVersion: hermes/v1
metadata: { name: Hub }
spec: { ingres: true }
---
kind: Objective
---
kind: Nodes
---
spec: {}
---
apiVersion: hermes/v2
kind: Link
metadata: { name: a }
spec: { from: a, to: b, http: 4 }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: a, tenant: A }
spec: {}
---
apiVersion: hermes/v1
kind: Node
metadata: { name: a }
spec: { listen: nowhere }
---
kind: [
";
    insta::assert_snapshot!(said(text).join("\n"));
}

/// Each resource has a mistake of its own, or several.
const UNFIT: &str = r#"
apiVersion: hermes/v1
kind: Overlay
metadata: { name: demo }
spec: { trustDomain: Demo }
---
apiVersion: hermes/v1
kind: Overlay
metadata: { name: other }
spec: {}
---
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: edge }
spec: { listen: "0.0.0.0:8443" }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: mute }
spec: {}
---
apiVersion: hermes/v1
kind: Node
metadata: { name: laptop }
spec: { user: alice, ingress: true }
---
apiVersion: hermes/v1
kind: Link
metadata: { name: one }
spec: { from: hub, to: hub }
---
apiVersion: hermes/v1
kind: Link
metadata: { name: two }
spec: { from: laptop, to: egde }
---
apiVersion: hermes/v1
kind: Link
metadata: { name: three }
spec: { from: hub, to: hub }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: video }
spec: { at: [] }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: db }
spec: { at: [{ node: edge, address: "127.0.0.1:5432" }, { node: egde, address: "127.0.0.1:5432" }] }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: video }
spec: { service: vidoe }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: other }
spec: { name: [VIDEO, "service:x"], service: db, for: "group:staf" }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: third }
spec: { name: Video, service: db }
---
apiVersion: hermes/v1
kind: Group
metadata: { name: staff, tenant: red }
spec: { members: ["group:a"] }
---
apiVersion: hermes/v1
kind: Route
metadata: { name: detour }
spec: { match: { listener: web }, via: [hub, edge, hub], to: none }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: p }
spec: { at: [nowhere], rules: [{ match: { user: "group:staff" }, allow: true }] }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: q }
spec: { rules: [{ match: { source: 10.0.0.0/8 }, deny: true }] }
"#;

#[test]
fn resources_that_do_not_fit_together_are_all_told() {
    insta::assert_snapshot!(said(UNFIT).join("\n"));
}

#[test]
fn a_resource_that_is_there_twice_is_told_with_both_places() {
    let said = said(&format!("{WHOLE}---\n{WHOLE}"));
    assert_eq!(said.len(), 6);
    assert_eq!(
        said[1],
        "overlay.yaml:42:19: Node/default/hub: metadata.name: this resource was already given at overlay.yaml:7; keep one of them"
    );
}

#[test]
fn hostile_sizes_are_refused() {
    let label = "x".repeat(5 << 20);
    let text = format!(
        "{{ apiVersion: hermes/v1, kind: User, metadata: {{ name: a, labels: {{ a: {label} }} }}, spec: {{}} }}"
    );
    let said = said(&text);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].contains("more than 4 MiB; divide it"),
        "{}",
        said[0]
    );

    let deep = format!("kind: {}", "[".repeat(10_000));
    let deep = read_text(&deep).unwrap_err().to_string();
    assert!(deep.contains("more than 64 levels"), "{deep}");
    let bomb = read_text("kind: &a [1]\nspec: [*a, *a]")
        .unwrap_err()
        .to_string();
    assert!(bomb.contains("aliases are not read"), "{bomb}");
}

#[test]
fn an_exposed_server_is_three_resources() {
    let node = "hub".parse().unwrap();
    let to = ["alice".to_owned()];
    let exposure = Exposure {
        name: "VIDEO",
        node: &node,
        address: "127.0.0.1:8000",
        to: &to,
    };
    let resources = expose(&exposure).unwrap();
    let yaml: Vec<_> = resources.iter().map(Resource::to_yaml).collect();
    insta::assert_snapshot!(yaml.join("---\n"));
    assert_eq!(
        expose(&Exposure {
            address: "here",
            ..exposure
        }),
        Err(BadExposure::Address("here".to_owned()))
    );
    assert_eq!(
        expose(&Exposure {
            to: &[],
            ..exposure
        }),
        Err(BadExposure::NoUser)
    );
    assert!(matches!(
        expose(&Exposure {
            name: "a b",
            ..exposure
        }),
        Err(BadExposure::Name(_))
    ));
    let relay = expose(&Exposure {
        address: "relay",
        ..exposure
    })
    .unwrap();
    assert_eq!(
        relay[0].written(),
        &serde_json::json!({ "handle": "relay", "at": [{ "node": "hub" }] })
    );
    let dotted = expose(&Exposure {
        name: "db.example.org:5432",
        ..exposure
    })
    .unwrap();
    assert_eq!(
        dotted[1].key().to_string(),
        "Name/default/db-example-org-5432"
    );
}

#[test]
fn a_service_has_servers_or_is_answered_by_its_nodes() {
    let node = "apiVersion: hermes/v1\nkind: Node\nmetadata: { name: NAME }\nspec: { listen: \"0.0.0.0:8443\", reach: [\"NAME:8443\"] }\n---\n";
    let nodes = ["hub", "yard"].map(|name| node.replace("NAME", name));
    let with = |spec: &str| {
        let service = format!(
            "apiVersion: hermes/v1\nkind: Service\nmetadata: {{ name: s }}\nspec: {spec}\n"
        );
        said(&(nodes.concat() + &service))
    };
    assert_eq!(with("{ handle: relay, at: [{ node: hub }] }"), [""; 0]);
    assert_eq!(
        with("{ handle: rendezvous, at: [{ node: hub }, { node: yard }] }"),
        [""; 0]
    );
    let wrong = [
        ("{ at: [{ node: hub }] }", "does not know the server"),
        (
            "{ handle: relay, at: [{ node: hub, address: \"127.0.0.1:1\" }] }",
            "asks no server",
        ),
        (
            "{ handle: relay, expose: [user], at: [{ node: hub }] }",
            "ask no server",
        ),
        (
            "{ handle: relay, at: [{ node: hub }, { node: yard }] }",
            "not those of another",
        ),
    ];
    for (spec, reason) in wrong {
        let said = with(spec);
        assert!(
            said.len() == 1 && said[0].contains(reason),
            "{spec}: {said:?}"
        );
    }
}

#[test]
fn the_example_of_the_documentation_fits_together() {
    let page = include_str!("../../../../../docs/resources.md");
    let example = page.split("```yaml\n").nth(1).unwrap();
    let example = example.split("```").next().unwrap();
    assert_eq!(said(example), [""; 0]);
    let relay = include_str!("../../../../../docs/relay.md");
    let overlay = relay.split("## In an overlay").nth(1).unwrap();
    let example = overlay.split("```yaml\n").nth(1).unwrap();
    let found = said(example.split("```").next().unwrap());
    // The file of its key is read where it is applied.
    assert!(
        found
            .iter()
            .all(|found| found.contains("Secret/default/relay: spec.file")),
        "{found:?}"
    );
    let kinds = page.split("## What nodes").next().unwrap();
    for kind in Kind::ALL {
        assert!(kinds.contains(&format!("| `{kind}`")), "{kind}");
    }
}

/// Letters that mean something in YAML.
const SYNTAX: &[u8] = b"{}[]:,-#&*!|>'\"%@`~\n \t";

#[test]
fn damaged_texts_are_refused_or_read_as_they_are_written() {
    let bytes = WHOLE.as_bytes();
    let mut read_again = 0;
    for seed in 0..1500 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut damaged = bytes.to_vec();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(0..damaged.len().max(1));
            damaged.resize(damaged.len().max(at + 1), b' ');
            match random.u8(0..4) {
                0 => damaged[at] = SYNTAX[random.usize(0..SYNTAX.len())],
                1 => drop(damaged.remove(at)),
                2 => damaged.truncate(at.max(1)),
                _ => {
                    let from = random.usize(0..bytes.len() - 40);
                    damaged.splice(
                        at..at,
                        bytes[from..from + random.usize(0..40)].iter().copied(),
                    );
                }
            }
        }
        let Ok(tree) = read_text(&String::from_utf8_lossy(&damaged)) else {
            continue;
        };
        let again = read_text(&format(tree.resources())).unwrap();
        assert!(tree.resources().eq(again.resources()), "seed {seed}");
        let _: Result<(), Findings> = check(&tree);
        read_again += 1;
    }
    assert!(read_again > 10, "{read_again}");
}

#[test]
fn of_mistakes_without_end_the_first_are_told_and_all_are_counted() {
    let mut text = String::new();
    for number in 0..150 {
        text += &format!(
            "---\napiVersion: hermes/v1\nkind: Name\nmetadata: {{ name: n{number} }}\nspec: {{ name: N{number}, service: nowhere }}\n"
        );
    }
    let source = Source {
        name: "many.yaml".as_ref(),
        text: &text,
    };
    let findings = check(&read(&[source]).unwrap()).unwrap_err();
    let told = findings.to_string();
    assert_eq!(findings.0.len(), 101, "{told}");
    assert!(
        told.starts_with("there are 150 mistakes, of which 100 are told\n"),
        "{told}"
    );
    assert!(told.contains("many.yaml:5:"), "{told}");

    // Also where they are in the form of resources.
    let malformed = text.replace("service: nowhere", "servise: nowhere");
    let told = said(&malformed);
    assert_eq!(told.len(), 101);
    assert!(
        told[0].ends_with("mistakes, of which 100 are told"),
        "{}",
        told[0]
    );
    assert!(told[1].starts_with("overlay.yaml:5:"), "{}", told[1]);
}
