//! Overlays of two operators beside each other.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use fastrand::Rng;
use hermes_rules::judge::RemovedFields;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use serde_json::{Value as Json, json};

use super::super::{Accessible, Compiler, Network, Recipient, SupposedExchange, access_changes};
use super::overlay::{Fate, TARGETS, USERS, adder};
use super::walk::{follow, is_sound, network, overlay, seeds};
use super::{DOMAIN, documents, tree};
use crate::resources::{Key, Kind, Spec, Tree, check};

/// The domain of the other overlay.
const OTHER: &str = "b.hermes.internal";

/// An authority, as a bundle has it.
static AUTHORITY: LazyLock<String> = LazyLock::new(|| {
    let mut parameters = CertificateParams::default();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    parameters.self_signed(&key).unwrap().pem()
});

/// A hub and a node beside the server. The overlay `b` may ask for VIDEO, and ours for the names of `b`.
const TWO: &str = r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: border }
spec: { listen: "0.0.0.0:8443", reach: ["border.example.org:8443"] }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: edge }
spec:
  listen: "0.0.0.0:8443"
  reach: ["10.0.0.4:8443"]
  listeners: { web: { http: "127.0.0.1:8080", user: camera } }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: video }
spec: { at: [{ node: edge, address: "127.0.0.1:8000" }] }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: video }
spec: { name: VIDEO, service: video }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: wiki }
spec: { name: ["WIKI", "*.wiki.example.org:443"], service: video }
---
apiVersion: hermes/v1
kind: Group
metadata: { name: friends }
spec: { members: [alice, "friend-*@b.hermes.internal"] }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: all }
spec:
  rules:
    - { name: noise, match: { user: "mallory*" }, deny: { reason: "mallory is noisy" } }
    - { name: admin, match: { target: VIDEO, path: "/admin/*", user: "group:friends" }, allow: true }
    - { name: others, match: { target: VIDEO, path: "/admin/*" }, deny: true }
    - { name: video, match: { target: [VIDEO, WIKI], user: "*" }, allow: true }
    - { name: abroad, match: { target: "*.b.hermes.internal", user: alice }, allow: true }
---
apiVersion: hermes/v1
kind: Peering
metadata: { name: b }
spec:
  domain: b.hermes.internal
  bundle: { inline: PEM }
  border: [{ node: hub, reach: ["b.example.org:8443"] }, { node: spare }]
  at: [border]
  accepts: [x-hermes-priority]
  speaksFor: ["*"]
  exports:
    - { name: video }
    - { name: wiki, to: [bob, "ops-*"] }
"#;

fn two() -> String {
    TWO.replace("PEM", &serde_json::to_string(&*AUTHORITY).unwrap())
}

/// Mistakes of a text in which one part is another.
fn mistakes(part: &str, other: &str) -> String {
    let text = two().replace(part, other);
    assert_ne!(text, two(), "{part}");
    let tree = tree(&text);
    let found = Compiler::new(&tree, DOMAIN).err();
    found.map_or_else(String::new, |findings| findings.to_string())
}

#[test]
fn the_paths_of_an_exported_part_of_a_node_are_hidden_at_the_border() {
    let server = r#"{ at: [{ node: edge, address: "127.0.0.1:8000" }] }"#;
    let tree = tree(&two().replace(server, "{ handle: relay, at: [{ node: edge }] }"));
    let border = Recipient::Node("border".parse().unwrap());
    let documents = documents(&tree);
    let of_border = documents.iter().find(|(known, _)| *known == border);
    let (_, compiled) = of_border.unwrap();
    let routes = compiled.document["routes"].as_array().unwrap().iter();
    let onward = routes.filter(|route| route["to"] == "to-edge");
    let hidden: Vec<_> = onward.map(|route| route["hide_path"] == true).collect();
    assert!(hidden.len() >= 2 && !hidden.contains(&false), "{hidden:?}");
}

#[test]
fn an_overlay_beside_another_one_has_these_documents() {
    let tree = tree(&two());
    let mut all = String::new();
    for (recipient, compiled) in documents(&tree) {
        let document = compiled.document.as_object().unwrap();
        let text = hermes_config::format_as_written(document);
        all.push_str(&format!("# {recipient:?}\n{text}\n"));
        let warnings = compiled.prove(&tree).unwrap();
        assert_eq!(warnings.to_string(), "", "{recipient:?}");
    }
    let inline = AUTHORITY.lines().next().unwrap();
    assert_eq!(
        all.matches(inline).count(),
        2,
        "only the node at the border has the bundle"
    );
    insta::assert_snapshot!("two_operators", without_bundles(&all));
}

/// A text without the lines of certificates, which are others in each run.
fn without_bundles(text: &str) -> String {
    let of_bundles: BTreeSet<&str> = AUTHORITY
        .lines()
        .filter(|line| !line.contains(' '))
        .collect();
    let lines = text
        .lines()
        .filter(|line| !of_bundles.contains(line.trim()));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

fn fate(network: &Network<'_>, at: &str, exchange: SupposedExchange<'_>) -> Result<String, String> {
    let ends = follow(network, at, exchange)?;
    Ok(ends.into_keys().collect())
}

#[test]
fn exported_names_are_reached_by_those_to_whom_they_are_exported() {
    let tree = tree(&two());
    let documents = documents(&tree);
    let network = network(&documents);
    let get = |user: &'static str, host: &'static str, path: &'static str| {
        let get = SupposedExchange::get(user, host);
        fate(&network, "border", SupposedExchange { path, ..get })
    };
    let video = "video.demo.hermes.internal";
    let wiki = "wiki.demo.hermes.internal";
    let ok = Ok("service-video".to_owned());
    for user in ["alice@b.hermes.internal", "bob@b.hermes.internal"] {
        assert_eq!(get(user, video, "/"), ok, "{user}");
    }
    assert_eq!(get("bob@b.hermes.internal", wiki, "/"), ok);
    assert_eq!(get("ops-1@b.hermes.internal", wiki, "/"), ok);
    // Rules that deny mean them; those that allow do so only by their names.
    assert_eq!(get("friend-1@b.hermes.internal", video, "/admin/x"), ok);
    let refused = |user, host, path| get(user, host, path).unwrap_err();
    let said = refused("mallory@b.hermes.internal", video, "/");
    assert!(said.contains("mallory is noisy"), "{said}");
    refused("alice@b.hermes.internal", video, "/admin/x");
    refused("alice@b.hermes.internal", wiki, "/");
    // Our own words for the names, names of nodes, and their own.
    for host in [
        "video",
        "wiki",
        "edge.demo.hermes.internal",
        "x.b.hermes.internal",
    ] {
        refused("bob@b.hermes.internal", host, "/");
    }
    // Where our devices enter no node of another overlay does.
    let at_hub = SupposedExchange::get("alice@b.hermes.internal", video);
    fate(&network, "hub", at_hub).unwrap_err();
}

#[test]
fn our_users_reach_names_of_the_other_overlay_as_the_policy_says() {
    let tree = tree(&two());
    let documents = documents(&tree);
    let network = network(&documents);
    let reached = |user, host| fate(&network, "hub", SupposedExchange::get(user, host));
    let there = "db.b.hermes.internal";
    assert_eq!(reached("alice", there), Ok("peering-b".to_owned()));
    reached("bob", there).unwrap_err();
    assert_eq!(reached("bob", "video"), Ok("service-video".to_owned()));
    // Exports are not ours to ask for by that name.
    reached("alice", "video.demo.hermes.internal").unwrap_err();
}

#[test]
fn users_of_one_other_overlay_do_not_pass_to_a_third() {
    let b = two();
    let peering = b.split("---\n").last().unwrap();
    let c = peering
        .replace("name: b }", "name: c }")
        .replace(OTHER, "c.hermes.internal");
    // Even a rule that names them does not let them pass.
    let rule =
        r#"{ match: { target: "*.b.hermes.internal", user: "*@c.hermes.internal" }, allow: true }"#;
    let policy = format!(
        "apiVersion: hermes/v1\nkind: Policy\nmetadata: {{ name: c }}\nspec: {{ rules: [{rule}] }}\n"
    );
    let tree = tree(&format!("{b}---\n{c}---\n{policy}"));
    let documents = documents(&tree);
    let network = network(&documents);
    let get = |user, host| fate(&network, "border", SupposedExchange::get(user, host));
    get("bob@c.hermes.internal", "video.demo.hermes.internal").unwrap();
    get("bob@b.hermes.internal", "video.demo.hermes.internal").unwrap();
    get("bob@c.hermes.internal", "db.b.hermes.internal").unwrap_err();
    get("bob@b.hermes.internal", "db.c.hermes.internal").unwrap_err();
    get("bob@b.hermes.internal", "db.b.hermes.internal").unwrap_err();
    let alice = SupposedExchange::get("alice", "db.b.hermes.internal");
    fate(&network, "hub", alice).unwrap();
}

/// The judgement of a node about a certificate that names a user.
fn judged(
    network: &Network<'_>,
    at: &str,
    certificate: &str,
    exchange: SupposedExchange<'_>,
) -> Result<(), String> {
    let node = network.node(&at.parse().unwrap()).unwrap();
    let judged = node.judge(certificate, exchange, &mut RemovedFields::default());
    judged.map(drop)
}

#[test]
fn a_node_of_another_overlay_speaks_for_no_user_of_ours() {
    let tree = tree(&two());
    let documents = documents(&tree);
    let network = network(&documents);
    let hub = "spiffe://b.hermes.internal/node/hub";
    let video = "video.demo.hermes.internal";
    let ask = |certificate: &str, user, host| {
        judged(
            &network,
            "border",
            certificate,
            SupposedExchange::get(user, host),
        )
    };
    ask(hub, "alice", video).unwrap();
    ask("spiffe://b.hermes.internal/node/spare", "alice", video).unwrap();
    // Without a user, rules for everybody would mean it.
    ask(hub, "", video).unwrap_err();
    for user in ["alice@demo.hermes.internal", "alice@c.hermes.internal"] {
        let claimed = format!("{user}@b.hermes.internal");
        let exchange = SupposedExchange::get(user, video);
        judged(&network, "border", hub, exchange).unwrap();
        // It is their user of that odd name, and no one else.
        assert!(claimed.ends_with(OTHER));
        ask(hub, user, "video").unwrap_err();
    }
    for certificate in [
        "spiffe://b.hermes.internal/node/other",
        "spiffe://b.hermes.internal/user/alice/laptop",
        "spiffe://b.hermes.internal/node/border",
        "spiffe://demo.hermes.internal/node/spare",
    ] {
        ask(certificate, "alice", video).unwrap_err();
        ask(certificate, "alice", "video").unwrap_err();
    }
    // One who enters by a listener of a node's own is no user of another overlay, whatever a token says.
    let edge = network.node(&"edge".parse().unwrap()).unwrap();
    let rules = edge.document.policy.as_ref().unwrap();
    let text = serde_json::to_string(rules).unwrap();
    assert!(text.contains("peering/b/forged"), "{text}");
}

#[test]
fn names_and_users_of_another_overlay_are_no_ones_here() {
    for (part, other, said) in [
        (
            "name: VIDEO,",
            "name: video.b.hermes.internal,",
            "is a name of another overlay",
        ),
        (
            "name: VIDEO,",
            "name: '*.b.hermes.internal',",
            "is a name of another overlay",
        ),
        (
            "name: VIDEO,",
            "name: video.demo.hermes.internal,",
            "ask for names as NAME",
        ),
        (
            "name: VIDEO,",
            "name: 10.0.0.0/8,",
            "cannot be told from names there",
        ),
        (
            "name: VIDEO,",
            "name: '*',",
            "cannot be told from names there",
        ),
        (
            "domain: b.hermes.internal",
            "domain: demo.hermes.internal",
            "the domain of this overlay itself",
        ),
        (
            "domain: b.hermes.internal",
            "domain: 'B b'",
            "is no domain of certificates",
        ),
        ("at: [border]", "at: [bordr]", "did you mean `border`"),
        (
            "at: [border]",
            "at: []",
            "none of our nodes is at the border",
        ),
        (
            "accepts: [x-hermes-priority]",
            "accepts: [\"*\"]",
            "users are taken by `speaksFor`",
        ),
        (
            "accepts: [x-hermes-priority]",
            "accepts: [user]",
            "users are taken by `speaksFor`",
        ),
        (
            "to: [bob,",
            "to: [bob@b.hermes.internal,",
            "without its domain",
        ),
        (
            "to: [bob,",
            "to: [\"group:ops\",",
            "no user of the other overlay",
        ),
        (
            "{ name: wiki, to",
            "{ name: video, to",
            "is exported already",
        ),
        (
            "- { name: video }",
            "- { name: vidio }",
            "did you mean `video`",
        ),
        (
            "-----BEGIN CERTIFICATE",
            "-----BEGIN RUBBISH",
            "not valid PEM",
        ),
    ] {
        let found = mistakes(part, other);
        assert!(found.contains(said), "{other}: {found}");
    }

    let more = |text: &str| {
        let text = format!("{}---\napiVersion: hermes/v1\n{text}", two());
        check(&tree(&text))
            .err()
            .map_or_else(String::new, |findings| findings.to_string())
    };
    let user =
        more("kind: User\nmetadata: { name: alice }\nspec: { names: [\"al@b.hermes.internal\"] }");
    assert!(user.contains("a user of another overlay"), "{user}");
    let tenant = more(
        "kind: Tenant\nmetadata: { name: red }\nspec: { members: [\"al@b.hermes.internal\"] }",
    );
    assert!(tenant.contains("a user of another overlay"), "{tenant}");
    let again = two();
    let again = again
        .split("---\n")
        .last()
        .unwrap()
        .replace("name: b }", "name: c }");
    let again = again.replacen("apiVersion: hermes/v1\n", "", 1);
    let twice = more(&again);
    assert!(twice.contains("is of this domain already"), "{twice}");
    let tenants = more(
        "kind: Tenant\nmetadata: { name: red }\nspec: { members: [al] }\n---\napiVersion: hermes/v1\nkind: Peering\nmetadata: { name: c, tenant: red }\nspec: { domain: c.test, bundle: /etc/c.pem, at: [hub], border: [{ node: a }] }",
    );
    assert!(tenants.contains("is for the whole overlay"), "{tenants}");
}

#[test]
fn access_of_another_overlay_is_gained_and_lost_like_that_of_users() {
    let with = tree(&two());
    let mut without = with.clone();
    without.remove(&"Peering/b".parse().unwrap());
    let documents = [documents(&with), documents(&without)];
    let [with, without] =
        [(&with, &documents[0]), (&without, &documents[1])].map(|(tree, documents)| Accessible {
            tree,
            network: network(documents),
        });
    let users = || ["alice".to_owned()];
    let changes = access_changes(&with, &without, users(), 0);
    let lost: Vec<String> = changes
        .lost
        .iter()
        .map(|lost| format!("{} {} {}", lost.user, lost.target, lost.services.join("+")))
        .collect();
    insta::assert_snapshot!("lost_with_a_peering", lost.join("\n"));
    assert!(changes.gained.is_empty());
    let changes = access_changes(&without, &with, users(), 0);
    assert_eq!(changes.gained.len(), lost.len());
}

/// Names that a random overlay exports, by their targets, each to some users.
struct Exports {
    spec: Json,
    names: Vec<(String, Vec<&'static str>, Key)>,
    at: Vec<String>,
}

impl Exports {
    fn random(tree: &Tree, random: &mut Rng) -> Self {
        let nodes = tree.proxies().filter(|(_, node)| node.listen.is_some());
        let nodes: Vec<String> = nodes.map(|(key, _)| key.name.to_string()).collect();
        let at = nodes[random.usize(0..nodes.len())].clone();
        let mut names: Vec<(String, Vec<&'static str>, Key)> = Vec::new();
        let mut exports = Vec::new();
        for resource in tree.of_kind(Kind::Name) {
            let Spec::Name(name) = resource.spec() else {
                continue;
            };
            let target = resource.written()["name"].as_str().unwrap().to_owned();
            if random.bool() || names.iter().any(|(known, ..)| *known == target) {
                continue;
            }
            let users: Vec<&str> = USERS.into_iter().filter(|_| random.bool()).collect();
            let key = resource.key();
            match users.is_empty() {
                true => exports.push(json!({ "name": key.name })),
                false => exports.push(json!({ "name": key.name, "to": users })),
            }
            let users = if users.is_empty() {
                USERS.to_vec()
            } else {
                users
            };
            names.push((target, users, key.sibling(Kind::Service, &name.service)));
        }
        let spec = json!({
            "domain": OTHER, "bundle": "/etc/b.pem", "border": [{ "node": "hub", "reach": ["b.example.org:8443"] }],
            "at": [at], "exports": exports,
        });
        Self {
            spec,
            names,
            at: vec![at],
        }
    }
}

#[test]
fn nothing_but_what_is_exported_is_reached_from_another_overlay() {
    let mut fates = [0_u32; 2];
    for seed in seeds() {
        let mut random = Rng::with_seed(seed);
        let (sketch, plain) = overlay(&mut random);
        let exports = Exports::random(&plain, &mut random);
        let mut tree = plain.clone();
        adder("default", &mut tree)(Kind::Peering, "b".to_owned(), exports.spec.clone());
        let Ok(compiler) = Compiler::new(&tree, DOMAIN) else {
            continue;
        };
        assert!(is_sound(&compiler, &tree), "seed {seed}");
        let documents = documents(&tree);
        let network = network(&documents);

        for (user, target) in USERS
            .into_iter()
            .flat_map(|user| TARGETS.map(|target| (user, target)))
        {
            let foreign = format!("{user}@{OTHER}");
            let host = format!("{target}.{DOMAIN}");
            let at = &exports.at[0];
            let export = exports
                .names
                .iter()
                .find(|(name, users, _)| name == target && users.contains(&user));
            let end = fate(&network, at, SupposedExchange::get(&foreign, &host));
            match (export, sketch.denies_all(target)) {
                (Some((_, _, service)), false) => {
                    assert_eq!(
                        end,
                        Ok(format!("service-{}", service.name)),
                        "seed {seed}: {user} {target}"
                    );
                    fates[0] += 1;
                }
                _ => {
                    let refusal = end.expect_err("a refusal");
                    assert!(refusal.starts_with("0 "), "seed {seed}: {refusal}");
                    fates[1] += 1;
                }
            }
            // Neither by our own word for it, nor at another node, nor under the name of a user of ours.
            for node in 0..sketch.nodes.len() {
                let node = format!("n{node}");
                for host in [target, &host] {
                    let exchange = SupposedExchange::get(&foreign, host);
                    if node != *at || host == target {
                        fate(&network, &node, exchange).expect_err("a refusal");
                    }
                }
            }
            // Our users reach the same names as before.
            let ingresses = sketch
                .nodes
                .iter()
                .enumerate()
                .filter(|(_, node)| node.ingress);
            for (ingress, _) in ingresses {
                let end = fate(
                    &network,
                    &format!("n{ingress}"),
                    SupposedExchange::get(user, target),
                );
                let expected = match sketch.fate(user, target) {
                    Fate::Reaches(service) => Some(format!("service-s{service}")),
                    Fate::Refused => None,
                };
                assert_eq!(end.ok(), expected, "seed {seed}: {user} {target}");
            }
        }
    }
    assert!(fates.iter().all(|count| *count > 50), "{fates:?}");
}

#[test]
fn a_peering_changes_no_document_of_devices_and_leaves_nothing_behind() {
    for seed in seeds() {
        let mut random = Rng::with_seed(seed);
        let (_, plain) = overlay(&mut random);
        let exports = Exports::random(&plain, &mut random);
        let mut tree = plain.clone();
        adder("default", &mut tree)(Kind::Peering, "b".to_owned(), exports.spec);
        let Ok(with) = Compiler::new(&tree, DOMAIN) else {
            continue;
        };
        for (recipient, before) in documents(&plain) {
            let text = String::from_utf8(before.blob()).unwrap();
            assert!(!text.contains(OTHER) && !text.contains("peering"), "{text}");
            if recipient == Recipient::Devices {
                let after = with.document(&recipient).unwrap();
                assert_eq!(after.blob(), before.blob(), "seed {seed}");
            }
        }
    }
}

#[test]
fn placements_are_kept_and_change_no_document() {
    let text = two();
    let before = documents(&tree(&text));
    let text = format!(
        "{text}---\napiVersion: hermes/v1\nkind: Placement\nmetadata: {{ name: fast }}\n\
         spec: {{ objective: fast-video, for: \"group:friends\", service: video, at: [edge], because: \"p99 80 ms\" }}\n"
    );
    let with = tree(&text);
    let placement = with.resource(&"Placement/fast".parse().unwrap()).unwrap();
    assert!(matches!(placement.spec(), Spec::Placement(placement) if placement.at.len() == 1));
    let touched = Compiler::new(&with, DOMAIN).unwrap();
    let touched = touched.touched(&tree(&two()), &[placement.key().clone()]);
    for ((recipient, before), (_, after)) in before.iter().zip(&documents(&with)) {
        assert_eq!(before.blob(), after.blob(), "{recipient:?}");
        assert!(!touched.concerns(recipient, &before.reads));
    }
}
