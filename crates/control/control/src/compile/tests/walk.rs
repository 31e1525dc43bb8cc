//! Exchanges walk through random overlays, hop by hop, as each node would judge them.

use std::collections::BTreeMap;

use fastrand::Rng;
use hermes_config::model::ExchangeKind;
use hermes_rules::judge::RemovedFields;

use super::super::{Compiled, Compiler, Network, Recipient, SupposedExchange};
use super::overlay::{Fate, Sketch, TARGETS, USERS};
use super::{DOMAIN, documents};
use crate::resources::{Resource, Tree};

/// Random overlays, or as many as `HERMES_OVERLAYS` says.
pub(super) fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("HERMES_OVERLAYS").ok();
    0..count.and_then(|count| count.parse().ok()).unwrap_or(20)
}

/// A random overlay whose resources fit together; many have nodes that no way leads to.
pub(super) fn overlay(random: &mut Rng) -> (Sketch, Tree) {
    loop {
        let sketch = Sketch::random(random);
        let tree = sketch.tree();
        let Ok(compiler) = Compiler::new(&tree, DOMAIN) else {
            continue;
        };
        if is_sound(&compiler, &tree) {
            return (sketch, tree);
        }
    }
}

/// Whether nodes would take all documents. A rule after another one that decides all that it would is a mistake of the operator, and
/// the only one here.
pub(super) fn is_sound(compiler: &Compiler<'_>, tree: &Tree) -> bool {
    compiler.recipients().iter().all(|recipient| {
        let compiled = compiler.document(recipient).unwrap();
        let Err(findings) = compiled.prove(tree) else {
            return true;
        };
        let mut others = findings.0.iter();
        assert!(
            others.all(|finding| finding.problem.reason.contains("can never match")),
            "{findings}\n{}",
            compiled.document
        );
        false
    })
}

/// Follows an exchange that enters at a node; returns the upstreams where it ends, and after how many hops at most.
pub(super) fn follow(
    network: &Network<'_>,
    at: &str,
    exchange: SupposedExchange<'_>,
) -> Result<BTreeMap<String, usize>, String> {
    let walk = network.walk(&at.parse().unwrap(), exchange);
    assert!(
        walk.hops.iter().all(|hop| hop.depth < 8),
        "it turns in a circle at {at}"
    );
    match walk.refusal() {
        Some(hop) => Err(format!("{} {}: {}", hop.depth, hop.node, hop.said)),
        None => {
            let ends = walk.ends().unwrap().into_iter();
            Ok(ends.map(|(end, hops)| (end.to_owned(), hops)).collect())
        }
    }
}

/// The nodes of these documents.
pub(super) fn network(documents: &[(Recipient, Compiled)]) -> Network<'_> {
    let documents = documents.iter();
    Network::new(
        DOMAIN,
        documents.map(|(recipient, compiled)| (recipient, &compiled.document)),
    )
}

#[test]
fn allowed_exchanges_reach_their_service_and_others_end_where_they_enter() {
    let mut fates = [0_u32; 2];
    let mut far = 0;
    for seed in seeds() {
        let (sketch, tree) = overlay(&mut Rng::with_seed(seed));
        let documents = documents(&tree);
        let network = network(&documents);
        let ingresses = sketch
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.ingress);
        let ingresses: Vec<String> = ingresses.map(|(index, _)| format!("n{index}")).collect();
        for (user, target) in USERS
            .into_iter()
            .flat_map(|user| TARGETS.map(|target| (user, target)))
        {
            for ingress in &ingresses {
                let end = follow(&network, ingress, SupposedExchange::get(user, target));
                match sketch.fate(user, target) {
                    Fate::Reaches(service) => {
                        let end = end.unwrap_or_else(|refusal| {
                            panic!("seed {seed}: {user} {target} {refusal}")
                        });
                        let services: Vec<_> = end.keys().collect();
                        assert_eq!(
                            services,
                            [&format!("service-s{service}")],
                            "seed {seed}: {user} {target}"
                        );
                        fates[0] += 1;
                        far += u32::from(end.into_values().any(|hops| hops > 1));
                    }
                    Fate::Refused => {
                        let refusal = end.expect_err("a refusal");
                        assert!(
                            refusal.starts_with("0 "),
                            "seed {seed}: {user} {target} {refusal}"
                        );
                        fates[1] += 1;
                    }
                }
            }
        }
    }
    assert!(fates.iter().all(|count| *count > 100), "{fates:?}");
    assert!(far > 8, "{far} went through a relay");
}

#[test]
fn certificates_that_send_nothing_to_a_node_are_refused_there() {
    let mut refused = 0;
    for seed in seeds() {
        let (sketch, tree) = overlay(&mut Rng::with_seed(seed));
        let documents = documents(&tree);
        let network = network(&documents);
        for (index, node) in sketch.nodes.iter().enumerate() {
            let name = format!("n{index}");
            let judging = network.node(&name.parse().unwrap()).unwrap();
            // Only the nodes that it has chosen itself send to a node that attaches.
            if node.attach.is_some() {
                continue;
            }
            let mut certificates = vec![
                format!("spiffe://{DOMAIN}/node/elsewhere"),
                format!("spiffe://{DOMAIN}/user/alice"),
            ];
            if !node.ingress {
                certificates.push(format!("spiffe://{DOMAIN}/user/alice/laptop"));
            }
            let nodes = (0..sketch.nodes.len()).map(|other| format!("n{other}"));
            let strangers = nodes.filter(|other| {
                !judging
                    .document
                    .peers
                    .contains_key(&format!("node-{other}"))
            });
            certificates.extend(strangers.map(|other| format!("spiffe://{DOMAIN}/node/{other}")));
            for certificate in certificates {
                for target in TARGETS {
                    let judged = judging.judge(
                        &certificate,
                        SupposedExchange::get("alice", target),
                        &mut RemovedFields::default(),
                    );
                    assert!(judged.is_err(), "seed {seed}: {certificate} at {name}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn a_device_that_joins_changes_no_document() {
    for seed in seeds() {
        let (_, tree) = overlay(&mut Rng::with_seed(seed));
        let mut joined = tree.clone();
        let json = serde_json::json!({
            "apiVersion": "hermes/v1", "kind": "Node", "metadata": { "name": "laptop" }, "spec": { "user": "alice" },
        });
        let device = Resource::from_json(&json).unwrap();
        joined.insert(device.clone(), None).unwrap();
        let after: BTreeMap<_, _> = documents(&joined).into_iter().collect();
        let compiler = Compiler::new(&joined, DOMAIN).unwrap();
        let touched = compiler.touched(&tree, &[device.key().clone()]);
        for (recipient, compiled) in documents(&tree) {
            assert_eq!(
                after[&recipient].blob(),
                compiled.blob(),
                "seed {seed}: {recipient:?}"
            );
            assert!(
                !touched.concerns(&recipient, &compiled.reads),
                "{recipient:?}"
            );
        }
    }
}

#[test]
fn a_node_is_attached_under_its_own_name_and_asks_for_nothing_else() {
    let tree = super::tree(super::golden::ATTACHED);
    let documents = documents(&tree);
    let hub = network(&documents).node(&"hub".parse().unwrap()).unwrap();
    let mut steps = RemovedFields::default();
    let attaching = SupposedExchange {
        kind: ExchangeKind::Upgrade,
        ..SupposedExchange::get("", "hub")
    };
    let mut attach = |certificate: &str| {
        let certificate = format!("spiffe://{DOMAIN}/{certificate}");
        let judged = hub.judge_protocol(Some("ptth"), &certificate, attaching, &mut steps);
        judged.map(|route| serde_json::to_value(route.attach).unwrap())
    };
    assert_eq!(attach("node/cabin").unwrap(), serde_json::json!("cabin"));
    assert_eq!(attach("node/boat").unwrap(), serde_json::json!("boat"));
    assert!(attach("node/elsewhere").is_err());
    assert!(attach("user/alice/cabin").is_err());
    let get = hub.judge(
        &format!("spiffe://{DOMAIN}/node/cabin"),
        SupposedExchange::get("", "video"),
        &mut RemovedFields::default(),
    );
    assert!(get.is_err());
}
