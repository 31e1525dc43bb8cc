//! A change spreads over a random overlay, node by node, while exchanges go on.

use std::collections::BTreeMap;
use std::rc::Rc;

use fastrand::Rng;

use super::super::{Compiled, Compiler, Recipient, between};
use super::DOMAIN;
use super::overlay::{Fate, Sketch, TARGETS, USERS};
use super::walk::{JudgingNode, Network, Request, is_sound, overlay, seeds};
use crate::resources::Tree;

/// The documents of all nodes.
fn compiled(tree: &Tree) -> Option<BTreeMap<String, Compiled>> {
    let compiler = Compiler::new(tree, DOMAIN).ok()?;
    if !is_sound(&compiler, tree) {
        return None;
    }
    let documents = compiler.recipients().into_iter().filter_map(|recipient| {
        let compiled = compiler.document(&recipient).unwrap();
        match recipient {
            Recipient::Node(name) => Some((name.to_string(), compiled)),
            Recipient::Devices => None,
        }
    });
    Some(documents.collect())
}

/// Asserts what becomes of every exchange, between two states.
fn assert_fates(network: &Network, states: [&Sketch; 2], said: &str) {
    let ingresses = states[0]
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.ingress);
    for (ingress, _) in ingresses {
        for (user, target) in USERS
            .into_iter()
            .flat_map(|user| TARGETS.map(|target| (user, target)))
        {
            let certificate = format!("spiffe://{DOMAIN}/user/{user}/laptop");
            let end = network.follow(
                &format!("n{ingress}"),
                &certificate,
                Request { user, target },
                0,
            );
            let fates = states.map(|state| state.fate(user, target));
            let said = || format!("{said}: {user} {target} at n{ingress}: {end:?}, {fates:?}");
            match (&end, fates) {
                (Ok(_), fates) => assert_ne!(fates, [Fate::Refused; 2], "{}", said()),
                // Both states let it pass: so does each state on the way from one to the other.
                (Err(_), [Fate::Reaches(_), Fate::Reaches(_)]) => panic!("{}", said()),
                (Err(_), _) => {}
            }
        }
    }
}

/// Whether nodes send to each other, so that there is no order from receivers to senders.
fn turns(documents: &BTreeMap<String, Compiled>) -> bool {
    documents.values().any(|receiver| {
        let peers = receiver
            .document
            .get("peers")
            .and_then(serde_json::Value::as_object);
        let peers = peers.into_iter().flat_map(|peers| peers.keys());
        let mut senders = peers.filter_map(|peer| peer.strip_prefix("node-"));
        senders.any(|sender| documents[sender].rank <= receiver.rank)
    })
}

#[test]
fn an_exchange_that_both_states_let_pass_never_fails_while_a_change_spreads() {
    let mut changes = 0;
    for seed in seeds() {
        let mut random = Rng::with_seed(seed);
        let (sketch, tree) = overlay(&mut random);
        let next = sketch.changed(&mut random);
        let (Some(before), Some(after)) = (compiled(&tree), compiled(&next.tree())) else {
            continue;
        };
        if turns(&after) {
            continue;
        }
        let mut nodes: Vec<&String> = after.keys().collect();
        nodes.sort_by_key(|name| after[*name].rank);
        let node = |compiled: &Compiled| Rc::new(JudgingNode::of(compiled));
        let all = before
            .iter()
            .map(|(name, compiled)| (name.clone(), node(compiled)));
        let mut network = Network(all.collect());
        let mut give = |name: &String, compiled: &Compiled, stage: &str| {
            let proof = compiled.prove(&tree);
            proof.unwrap_or_else(|findings| {
                panic!("seed {seed}: {name}: {findings}\n{}", compiled.document)
            });
            network.0.insert(name.clone(), node(compiled));
            assert_fates(
                &network,
                [&sketch, &next],
                &format!("seed {seed}: {name} {stage}"),
            );
        };

        for name in before.keys() {
            give(name, &between(&after[name], &before[name]), "takes both");
        }
        // Receivers first.
        for name in &nodes {
            give(
                name,
                &between(&before[*name], &after[*name]),
                "decides as after",
            );
        }
        for name in after.keys() {
            give(name, &after[name], "has the next");
        }
        changes += 1;
    }
    assert!(changes > 5, "{changes}");
}
