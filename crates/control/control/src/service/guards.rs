//! Bounds on the harm of one change: what has to be forced, because it is more often a mistake than meant.

use std::collections::BTreeSet;
use std::sync::Arc;

use hermes_config::model::{Document, Percent};
use hermes_net::clock::unix_seconds;
use hermes_rules::{RESTART_SECTIONS, needs_restart};
use serde_json::{Map, Value as Json};

use super::controller::Controller;
use super::difference::Difference;
use super::outcome::How;
use super::published::Published;
use crate::compile::{Accessible, Compiled, Loss, losses, only_moves};
use crate::resources::{Key, Kind, Spec, Tree};

/// A change that takes away more than one resource in so many has to be forced.
const SHRINKS: usize = 10;

/// Resources that may be taken away from an overlay of any size.
const FEW: usize = 2;

/// Reasons of one kind that are told.
const TOLD: usize = 10;

impl Controller {
    /// Why a change has to be forced; nothing if it was, or need not be.
    pub(super) fn guarded(
        &self,
        before: &Published,
        next: &Published,
        difference: &Difference,
        how: &How,
    ) -> Vec<String> {
        if how.force {
            return Vec::new();
        }
        let mut reasons: Vec<String> = Vec::new();
        reasons.extend(shrinks(difference, before.tree.len()));
        reasons.extend(spreads(before, next));
        reasons.extend(emptied(&before.tree, &next.tree).take(TOLD));
        let keys = difference.keys();
        // Where every exchange ends as before, no walk is made: there are as many as users and names.
        if !only_moves(&before.tree, &next.tree, &keys.iter().collect::<Vec<_>>()) {
            let domain = &self.about.trust_domain;
            let [before, next] = [before, next].map(|state| state.accessible(domain));
            reasons.extend(lost(&before, &next, difference, self.attending_users()));
        }
        reasons
    }

    /// The users of devices that have attended.
    fn attending_users(&self) -> BTreeSet<String> {
        let fleet = self.fleet.lock();
        let users = fleet.nodes().values();
        let users = users.filter_map(|record| record.user.as_ref());
        users.map(ToString::to_string).collect()
    }
}

fn shrinks(difference: &Difference, had: usize) -> Option<String> {
    let removed = &difference.removed;
    if removed.len() <= FEW || removed.len() * SHRINKS <= had {
        return None;
    }
    Some(format!(
        "it removes {} of {had} resources: {}",
        removed.len(),
        listed(removed)
    ))
}

/// Whether more nodes would change than the overlay in force allows.
fn spreads(before: &Published, next: &Published) -> Option<String> {
    let (key, overlay) = before.tree.overlay()?;
    let bound: Percent = overlay.guards.max_changed?;
    let all = before.documents.len();
    let differing = next.differing(before).into_iter();
    let changed = differing
        .filter(|recipient| before.documents.contains_key(recipient))
        .count();
    let allowed = bound.of(u64::try_from(all).unwrap_or(u64::MAX));
    if u64::try_from(changed).is_ok_and(|changed| changed <= allowed) {
        return None;
    }
    Some(format!(
        "{key}: spec.guards.maxChanged: it changes {changed} of {all} documents, more than {bound}"
    ))
}

/// Names whose services have no server any more.
fn emptied(before: &Tree, after: &Tree) -> impl Iterator<Item = String> {
    let has_server = |tree: &Tree, service: &Key| {
        let resource = tree.resource(service);
        resource.is_some_and(|resource| match resource.spec() {
            Spec::Service(service) => !service.at.is_empty(),
            _ => false,
        })
    };
    let names = after.of_kind(Kind::Name);
    names.filter_map(move |resource| {
        let Spec::Name(name) = resource.spec() else {
            return None;
        };
        let key = resource.key();
        let service = key.sibling(Kind::Service, &name.service);
        let is_emptied = has_server(before, &service) && !has_server(after, &service);
        is_emptied.then(|| format!("{key}: {service} has no server any more"))
    })
}

/// Names that no one reaches any more, and users who reach nothing any more.
fn lost(
    before: &Accessible<'_>,
    next: &Accessible<'_>,
    difference: &Difference,
    members: BTreeSet<String>,
) -> Vec<String> {
    let found = losses(before, next, members, unix_seconds());
    let by: Vec<Key> = difference.keys().into_iter().collect();
    let told = found.iter().take(TOLD).map(|loss| match loss {
        Loss::Name(key) => format!("{key}: no user reaches it any more ({})", listed(&by)),
        Loss::Export { peering, target } => format!(
            "{peering}: no user there reaches {target} any more ({})",
            listed(&by)
        ),
        Loss::User { user, reached } => format!(
            "user {user} reaches nothing any more, {reached} among it ({})",
            listed(&by)
        ),
    });
    told.collect()
}

/// The first of them.
fn listed(keys: &[Key]) -> String {
    /// Keys that are written out.
    const LISTED: usize = 3;
    let mut words: Vec<String> = keys.iter().take(LISTED).map(Key::to_string).collect();
    if keys.len() > LISTED {
        words.push(format!("{} more", keys.len() - LISTED));
    }
    words.join(", ")
}

/// Keys that are in force at a node only after a restart, each with its node.
pub(super) fn restarts(before: &Published, next: &Published) -> Vec<String> {
    let mut told = Vec::new();
    for (recipient, document) in &next.documents {
        let Some(known) = before.document(recipient) else {
            continue;
        };
        if Arc::ptr_eq(known, document) || known.part.hash == document.part.hash {
            continue;
        }
        let sections = [known, document].map(|document| sections(&document.compiled));
        // The others are long, and a process follows all of them.
        if sections[0] == sections[1] {
            continue;
        }
        let typed = sections.map(serde_json::from_value::<Document>);
        if let [Ok(old), Ok(new)] = typed {
            let keys = needs_restart(&old, &new).into_iter();
            told.extend(keys.map(|key| format!("{recipient}: {key}")));
        }
    }
    told
}

fn sections(compiled: &Compiled) -> Json {
    let names = RESTART_SECTIONS.into_iter().chain(["version"]);
    let sections = names.filter_map(|name| {
        let section = compiled.document.get(name)?;
        Some((name.to_owned(), section.clone()))
    });
    Json::Object(Map::from_iter(sections))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hermes_api::Revision;

    use super::super::in_force::compiled;
    use super::super::published::Part;
    use super::*;
    use crate::resources::{Source, read};

    const OVERLAY: &str = "apiVersion: hermes/v1
kind: Overlay
metadata: { name: o }
spec: { guards: { maxChanged: 50% } }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: edge }
spec: { listen: 127.0.0.1:8443, reach: [127.0.0.1:8443], ingress: true }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: s }
spec: { at: [{ node: edge, address: 127.0.0.1:8000 }] }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: video }
spec: { name: VIDEO, service: s }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: mail }
spec: { name: MAIL, service: s }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: p }
spec:
  rules:
    - { match: { user: alice, target: VIDEO }, allow: true }
    - { match: { user: bob, target: [MAIL, VIDEO] }, allow: true }
";

    fn published(text: &str) -> Published {
        let source = Source {
            name: "t.yaml".as_ref(),
            text,
        };
        let tree = read(&[source]).unwrap();
        Published {
            revision: Revision::FIRST,
            documents: compiled(&tree, "t.test", None).unwrap(),
            tree: Arc::new(tree),
            authorities: Part::new(b"a".to_vec()),
            revoked: Part::new(b"r".to_vec()),
            confirm: None,
            endorsements: Arc::default(),
        }
    }

    fn lost_by(change: &str, to: &str) -> Vec<String> {
        let before = published(OVERLAY);
        let next = published(&OVERLAY.replace(change, to));
        let difference = Difference::between(&before.tree, &next.tree);
        let [before, next] = [&before, &next].map(|state| state.accessible("t.test"));
        lost(&before, &next, &difference, BTreeSet::new())
    }

    #[test]
    fn a_user_who_loses_everything_is_told_with_the_resource() {
        assert_eq!(lost_by("[MAIL, VIDEO]", "MAIL"), Vec::<String>::new());
        assert_eq!(
            lost_by("user: alice", "user: carol"),
            ["user alice reaches nothing any more, VIDEO among it (Policy/default/p)"]
        );
        assert_eq!(
            lost_by("[MAIL, VIDEO]", "VIDEO"),
            ["Name/default/mail: no user reaches it any more (Policy/default/p)"]
        );
    }

    #[test]
    fn a_change_of_more_documents_than_the_overlay_allows_is_told() {
        let before = published(OVERLAY);
        let next = published(&OVERLAY.replace("user: alice", "user: carol"));
        // The node's document, and not that of all devices.
        assert_eq!(spreads(&before, &next), None);
        let next = published(&OVERLAY.replace("8443", "9443"));
        let told = spreads(&before, &next).unwrap();
        assert!(told.contains("changes 2 of 2 documents"), "{told}");
    }

    #[test]
    fn an_overlay_that_shrinks_is_told() {
        let key = |name: &str| Key::new(Kind::Name, name.parse().unwrap());
        let removed = Difference {
            removed: ["a", "b", "c", "d"].map(key).into(),
            ..Difference::default()
        };
        assert_eq!(shrinks(&removed, 40), None);
        assert_eq!(
            shrinks(&removed, 39).as_deref(),
            Some(
                "it removes 4 of 39 resources: Name/default/a, Name/default/b, Name/default/c, 1 more"
            )
        );
    }
}
