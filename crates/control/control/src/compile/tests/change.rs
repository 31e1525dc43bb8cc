//! A change spreads over a random overlay, node by node, while exchanges go on.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use hermes_api::Name;

use super::super::{
    Compiled, Compiler, Documents, Network, Recipient, SupposedExchange, Turn, between, has_order,
    is_partible, mixed, turns, way_points,
};
use super::overlay::{Fate, Sketch, TARGETS, USERS};
use super::walk::{follow, is_sound, overlay, seeds};
use super::{DOMAIN, tree};
use crate::resources::Tree;

/// The documents of all nodes.
pub(super) fn compiled(tree: &Tree) -> Option<BTreeMap<String, Compiled>> {
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
fn assert_fates(network: &Network<'_>, states: [&Sketch; 2], said: &str) {
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
            let exchange = SupposedExchange::get(user, target);
            let end = follow(network, &format!("n{ingress}"), exchange);
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

fn documents(state: &BTreeMap<String, Compiled>) -> Documents<'_> {
    let recipient = |name: &String| Recipient::Node(name.parse().unwrap());
    let documents = state.iter();
    documents
        .map(|(name, compiled)| (recipient(name), compiled))
        .collect()
}

pub(super) type State = BTreeMap<String, Compiled>;

/// The turns of a change; `None` if there is no order.
pub(super) fn ordered(before: &State, after: &State) -> Option<Vec<Turn>> {
    let mut steps = turns(&documents(before), &documents(after));
    if steps.is_empty() {
        steps.push(Turn {
            has_order: true,
            ..Turn::default()
        });
    }
    steps.iter().all(|turn| turn.has_order).then_some(steps)
}

/// Gives nodes their documents, one after the other, through all turns of a change.
pub(super) fn spread(
    before: &State,
    after: &State,
    steps: &[Turn],
    give: &mut dyn FnMut(&String, &Compiled, &str),
) {
    let mut earlier = before.clone();
    for (index, turn) in steps.iter().enumerate() {
        let mix = |(name, after): (&String, &Compiled)| {
            let before = before.get(name).unwrap_or(after);
            (name.clone(), mixed(before, after, &turn.decided))
        };
        let next: State = match index + 1 == steps.len() {
            true => after.clone(),
            false => after.iter().map(mix).collect(),
        };

        let rank = |name: &String| match turn.ranks.is_empty() {
            true => next[name].rank,
            false => {
                let name: Name = name.parse().unwrap();
                turn.ranks.get(&name).copied().unwrap_or(0)
            }
        };
        let mut nodes: Vec<&String> = next.keys().collect();
        nodes.sort_by_key(|name| rank(name));
        // A node that is new has its next document from the beginning.
        let old = |name: &String| earlier.get(name).unwrap_or(&next[name]).clone();
        for name in next.keys() {
            give(name, &between(&next[name], &old(name)), "takes both");
        }
        // Receivers first.
        for name in nodes {
            give(name, &between(&old(name), &next[name]), "decides anew");
        }
        for name in next.keys() {
            give(name, &next[name], "has the next");
        }
        earlier = next;
    }
}

fn network(state: &State) -> Network<'static> {
    let mut network = Network::new(DOMAIN, []);
    for (name, compiled) in state {
        network.replace(&name.parse().unwrap(), &compiled.document);
    }
    network
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
        let Some(steps) = ordered(&before, &after) else {
            continue;
        };
        let mut network = network(&before);
        spread(&before, &after, &steps, &mut |name, compiled, stage| {
            let proof = compiled.prove(&tree);
            proof.unwrap_or_else(|findings| {
                panic!("seed {seed}: {name}: {findings}\n{}", compiled.document)
            });
            network.replace(&name.parse().unwrap(), &compiled.document);
            assert_fates(
                &network,
                [&sketch, &next],
                &format!("seed {seed}: {name} {stage}"),
            );
        });
        changes += 1;
    }
    assert!(changes > 5, "{changes}");
}

/// Two nodes by which devices enter, services at one node each, and these resources.
fn two_nodes(services: [(&str, &str); 2], rest: &str) -> Tree {
    let node = |name: &str, address: &str| {
        format!(
            "apiVersion: hermes/v1\nkind: Node\nmetadata: {{ name: {name} }}\nspec: {{ listen: 0.0.0.0:8443, reach: [{address}:8443], ingress: true }}\n---\n"
        )
    };
    let services = services.map(|(name, at)| {
        format!("apiVersion: hermes/v1\nkind: Service\nmetadata: {{ name: {name} }}\nspec: {{ at: [{{ node: {at}, address: 127.0.0.1:8000 }}] }}\n---\n")
    });
    let nodes = [node("a", "10.0.0.1"), node("b", "10.0.0.2")];
    tree(&[&nodes.concat(), &services.concat(), rest].concat())
}

/// Each of two names with a service at one node.
fn two(video: &str, mail: &str) -> Tree {
    let rest = "apiVersion: hermes/v1
kind: Name
metadata: { name: video }
spec: { service: video }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: mail }
spec: { service: mail }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: all }
spec: { rules: [{ match: { user: alice }, allow: true }] }
";
    two_nodes([("video", video), ("mail", mail)], rest)
}

#[test]
fn services_that_change_places_between_two_nodes_move_in_two_turns() {
    let (tree, next) = (two("a", "b"), two("b", "a"));
    let (before, after) = (compiled(&tree).unwrap(), compiled(&next).unwrap());
    let steps = ordered(&before, &after).unwrap();
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert_eq!(steps[0].decided, BTreeSet::from(["mail".to_owned()]));

    let mut network = network(&before);
    spread(&before, &after, &steps, &mut |name, compiled, stage| {
        compiled.prove(&next).unwrap();
        network.replace(&name.parse().unwrap(), &compiled.document);
        for (at, target) in ["a", "b"]
            .into_iter()
            .flat_map(|at| ["video", "mail"].map(|target| (at, target)))
        {
            let end = follow(&network, at, SupposedExchange::get("alice", target));
            assert!(end.is_ok(), "{name} {stage}: {target} at {at}: {end:?}");
        }
    });
    // All at once there is no order: one of them would turn in a circle.
    let once = [Turn::default()];
    let mut network = self::network(&before);
    let mut failed = false;
    spread(&before, &after, &once, &mut |name, compiled, _| {
        network.replace(&name.parse().unwrap(), &compiled.document);
        for target in ["video", "mail"] {
            failed |= ["a", "b"]
                .into_iter()
                .any(|at| follow(&network, at, SupposedExchange::get("alice", target)).is_err());
        }
    });
    assert!(failed);
}

/// One name with a service at one node, and for Bob with another service.
fn by_user(first: &str, second: &str) -> Tree {
    let rest = "apiVersion: hermes/v1
kind: Name
metadata: { name: video }
spec: { service: first }
---
apiVersion: hermes/v1
kind: Route
metadata: { name: of-bob }
spec: { match: { target: video, user: bob }, to: second }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: all }
spec: { rules: [{ match: { user: [alice, bob] }, allow: true }] }
";
    two_nodes([("first", first), ("second", second)], rest)
}

/// Whether a change has an order, as a whole or in turns.
fn is_ordered(one: &Tree, other: &Tree) -> bool {
    match (compiled(one), compiled(other)) {
        (Some(one), Some(other)) => has_order(&documents(&one), &documents(&other)),
        _ => false,
    }
}

/// Asserts that a change has no order but by way points, that no exchange of Alice or Bob for `video` fails on the way, and that none of
/// Dave's passes. Returns the number of states.
fn assert_parted(tree: &Tree, next: &Tree) -> usize {
    assert!(!is_ordered(tree, next));
    let mut points = way_points(tree, next, &is_ordered);
    points.push(next.clone());

    let mut earlier = compiled(tree).unwrap();
    let mut network = network(&earlier);
    for point in &points {
        let later = compiled(point).unwrap();
        let steps = ordered(&earlier, &later).expect("an order");
        spread(&earlier, &later, &steps, &mut |name, compiled, stage| {
            compiled.prove(next).unwrap();
            network.replace(&name.parse().unwrap(), &compiled.document);
            for (at, user) in ["a", "b"]
                .into_iter()
                .flat_map(|at| ["alice", "bob"].map(|user| (at, user)))
            {
                let end = follow(&network, at, SupposedExchange::get(user, "video"));
                assert!(end.is_ok(), "{name} {stage}: {user} at {at}: {end:?}");
            }
            let end = follow(&network, "a", SupposedExchange::get("dave", "video"));
            assert!(end.is_err(), "{name} {stage}: {end:?}");
        });
        earlier = later;
    }
    points.len()
}

#[test]
fn a_name_that_goes_both_ways_for_different_users_moves_resource_by_resource() {
    let states = assert_parted(&by_user("a", "b"), &by_user("b", "a"));
    assert_eq!(states, 2);
}

#[test]
fn names_go_both_ways_beside_other_policies_nodes_and_many_services() {
    let others = |at: &str| {
        let services = (0..12).map(|index| {
            format!("apiVersion: hermes/v1\nkind: Service\nmetadata: {{ name: other-{index} }}\nspec: {{ at: [{{ node: {at}, address: 127.0.0.1:9000 }}] }}\n---\n")
        });
        services.collect::<String>()
    };
    let with = |first: &str, second: &str, users: &str, rest: &str| {
        let mut whole = by_user(first, second);
        let added = format!(
            "{}{rest}apiVersion: hermes/v1\nkind: Policy\nmetadata: {{ name: all }}\nspec: {{ rules: [{{ match: {{ user: [{users}] }}, allow: true }}] }}\n",
            others(first),
        );
        for resource in tree(&added).resources() {
            whole.insert(resource.clone(), None).unwrap();
        }
        whole
    };
    let node = "apiVersion: hermes/v1\nkind: Node\nmetadata: { name: c }\nspec: { listen: 0.0.0.0:8443, reach: [10.0.0.3:8443] }\n---\n";
    let before = with("a", "b", "alice, bob", "");
    let after = with("b", "a", "alice, bob, carol", node);
    assert_eq!(before.differing(&after).len(), 16);
    let states = assert_parted(&before, &after);
    assert!(states <= 3, "{states}");
}

/// Policies of one state with ways of the other would let pass whom neither lets pass.
#[test]
fn a_change_is_made_as_a_whole_where_nodes_have_policies_of_their_own() {
    let (before, mut after) = (by_user("a", "b"), by_user("b", "a"));
    let own = "apiVersion: hermes/v1\nkind: Policy\nmetadata: { name: all }\nspec: { at: [a], rules: [{ match: { user: [alice, bob] }, allow: true }] }\n";
    for resource in tree(own).resources() {
        after.insert(resource.clone(), None).unwrap();
    }
    let points = way_points(&before, &after, &|_, _| true);
    assert_eq!(points, Vec::<Tree>::new());
    assert!(!is_partible(&before, &after));
}

/// A route that is to lead Dave to the service too, and a policy that lets him pass no more.
#[test]
fn a_resource_that_leads_more_exchanges_than_before_does_not_go_ahead_of_other_policies() {
    let with = |user: &str, allowed: &str| {
        let mut whole = by_user("a", "b");
        let changed = format!(
            "apiVersion: hermes/v1\nkind: Route\nmetadata: {{ name: of-bob }}\nspec: {{ match: {{ target: video, user: {user} }}, to: second }}\n---\napiVersion: hermes/v1\nkind: Policy\nmetadata: {{ name: all }}\nspec: {{ rules: [{{ match: {{ user: [{allowed}] }}, allow: true }}] }}\n"
        );
        for resource in tree(&changed).resources() {
            whole.insert(resource.clone(), None).unwrap();
        }
        whole
    };
    let before = with("bob", "alice, bob, dave");
    assert!(!is_partible(&before, &with("dave", "alice, bob")));
    assert!(!is_partible(&before, &with("bob", "alice, bob")));
}
