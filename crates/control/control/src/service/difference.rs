//! The resources that differ between two states of the overlay.

use std::collections::BTreeSet;

use hermes_api::Name;
use hermes_config::model::PolicyRule;
use serde_json::Value as Json;

use crate::resources::{Key, Kind, PeeringSpec, PolicySpec, Resource, Spec, Tree};

/// Keys that differ between two trees.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) added: Vec<Key>,
    pub(super) changed: Vec<Key>,
    pub(super) removed: Vec<Key>,
}

impl Difference {
    pub(super) fn between(before: &Tree, after: &Tree) -> Self {
        let mut difference = Self::default();
        for key in before.differing(after) {
            let list = match (before.resource(&key), after.resource(&key)) {
                (None, _) => &mut difference.added,
                (_, None) => &mut difference.removed,
                (Some(_), Some(_)) => &mut difference.changed,
            };
            list.push(key);
        }
        difference
    }

    pub(super) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    pub(super) fn keys(&self) -> BTreeSet<Key> {
        let lists = [&self.added, &self.changed, &self.removed];
        lists.into_iter().flatten().cloned().collect()
    }

    /// Whether other programs may run.
    pub(super) fn lists_programs(&self, before: &Tree, after: &Tree) -> bool {
        let listed = |tree: &Tree, key: &Key| match tree.resource(key).map(Resource::spec) {
            Some(Spec::Overlay(overlay)) => overlay.binaries.clone(),
            Some(Spec::Node(node)) => node.binaries.clone(),
            _ => Vec::new(),
        };
        let mut keys = self.keys().into_iter();
        keys.any(|key| listed(before, &key) != listed(after, &key))
    }

    /// Whether it certainly does nothing but take access away: policies that deny more or allow less, groups that lose members, and
    /// other overlays to which less is exported. Such a change waits for no one.
    pub(super) fn is_restriction(&self, before: &Tree, after: &Tree) -> bool {
        let old = |key: &Key| before.resource(key);
        let new = |key: &Key| after.resource(key);
        let keys = self.keys();
        !keys.is_empty()
            && keys.iter().all(|key| match (old(key), new(key)) {
                (Some(old), Some(new)) => is_restricted(old, new, before),
                (None, Some(new)) => policy(new).is_some_and(|new| new.rules.iter().all(denies)),
                // Neither its users nor ours have what they had by it.
                (Some(_), None) if key.kind == Kind::Peering => true,
                (Some(old), None) => policy(old).is_some_and(|old| old.rules.iter().all(allows)),
                (None, None) => true,
            })
    }
}

fn policy(resource: &Resource) -> Option<&PolicySpec> {
    match resource.spec() {
        Spec::Policy(policy) => Some(policy),
        _ => None,
    }
}

fn denies(rule: &PolicyRule) -> bool {
    rule.deny.is_some() && rule.allow.is_none()
}

fn allows(rule: &PolicyRule) -> bool {
    rule.allow == Some(true) && rule.deny.is_none()
}

fn is_restricted(old: &Resource, new: &Resource, before: &Tree) -> bool {
    match (old.spec(), new.spec()) {
        (Spec::Policy(old), Spec::Policy(new)) => {
            old.order == new.order && old.at == new.at && has_less(&old.rules, &new.rules)
        }
        (Spec::Group(was), Spec::Group(is)) => {
            let stays = |member| was.members.contains(member);
            is.members.iter().all(stays) && only_allows(before, &old.key().name)
        }
        (Spec::Peering(old), Spec::Peering(new)) => exports_less(old, new),
        _ => false,
    }
}

/// Whether a peering is the same with fewer exports, or fewer fields that are taken.
fn exports_less(old: &PeeringSpec, new: &PeeringSpec) -> bool {
    let alike = PeeringSpec {
        exports: old.exports.clone(),
        accepts: old.accepts.clone(),
        ..new.clone()
    };
    let is_exported = |export| old.exports.contains(export);
    let is_taken = |field| old.accepts.contains(field);
    alike == *old && new.exports.iter().all(is_exported) && new.accepts.iter().all(is_taken)
}

/// Whether rules are others with some that deny added and some that allow removed. The first rule that decides counts: an exchange that
/// such a list allows was allowed before.
fn has_less(old: &[PolicyRule], new: &[PolicyRule]) -> bool {
    let mut old = old.iter().peekable();
    for rule in new {
        if denies(rule) && old.peek() != Some(&rule) {
            continue;
        }
        while old
            .peek()
            .is_some_and(|known| *known != rule && allows(known))
        {
            old.next();
        }
        if old.next() != Some(rule) {
            return false;
        }
    }
    old.all(allows)
}

/// Whether a group is meant by nothing but rules that allow: one that denies would let pass who leaves the group.
fn only_allows(tree: &Tree, name: &Name) -> bool {
    let group = format!("group:{name}");
    tree.resources().all(|resource| match resource.spec() {
        Spec::Policy(policy) => {
            let written = resource.written()["rules"].as_array();
            let written = written.into_iter().flatten();
            let mut rules = policy.rules.iter().zip(written);
            rules.all(|(rule, json)| allows(rule) || !mentions(json, &group))
        }
        _ => resource.key().kind == Kind::Group || !mentions(resource.written(), &group),
    })
}

fn mentions(json: &Json, text: &str) -> bool {
    match json {
        Json::String(own) => own == text,
        Json::Array(list) => list.iter().any(|one| mentions(one, text)),
        Json::Object(map) => map.values().any(|one| mentions(one, text)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::{Source, read};

    fn tree(rules: &str, members: &str) -> Tree {
        let text = format!(
            "apiVersion: hermes/v1\nkind: Policy\nmetadata: {{ name: p }}\nspec: {{ rules: [{rules}] }}\n---\n\
             apiVersion: hermes/v1\nkind: Group\nmetadata: {{ name: ops }}\nspec: {{ members: [{members}] }}\n"
        );
        let source = Source {
            name: "t.yaml".as_ref(),
            text: &text,
        };
        read(&[source]).unwrap()
    }

    #[test]
    fn only_what_takes_away_is_a_restriction() {
        let alice = "{ match: { user: alice }, allow: true }";
        let ops = "{ match: { user: 'group:ops' }, allow: true }";
        let not_bob = "{ match: { user: bob }, deny: true }";
        let not_ops = "{ match: { user: 'group:ops' }, deny: true }";
        let rules = |rules: &[&str]| rules.join(", ");
        let before = tree(&rules(&[alice, ops]), "carol, dave");
        let cases = [
            (rules(&[not_bob, alice, ops]), "carol, dave", true),
            (rules(&[alice]), "carol, dave", true),
            (rules(&[alice, ops]), "carol", true),
            (rules(&[not_bob, ops]), "carol", true),
            (rules(&[ops, alice]), "carol, dave", false),
            (
                rules(&[alice, ops, "{ allow: true }"]),
                "carol, dave",
                false,
            ),
            (rules(&[alice, ops]), "carol, dave, erin", false),
            (rules(&[alice, ops]), "carol, dave", false),
        ];
        for (rules, members, expected) in cases {
            let after = tree(&rules, members);
            let found = Difference::between(&before, &after).is_restriction(&before, &after);
            assert_eq!(found, expected, "{rules} {members}");
        }

        // Who leaves a group that is denied something gains by it.
        let before = tree(&rules(&[not_ops, alice]), "carol, dave");
        let after = tree(&rules(&[not_ops, alice]), "carol");
        assert!(!Difference::between(&before, &after).is_restriction(&before, &after));
        let after = tree(&rules(&[alice]), "carol, dave");
        assert!(!Difference::between(&before, &after).is_restriction(&before, &after));
    }
}
