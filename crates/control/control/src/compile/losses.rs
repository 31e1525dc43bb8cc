//! Access that a change takes away in whole, for who makes the change and may not mean it.

use std::collections::{BTreeMap, BTreeSet};

use hermes_api::Name;

use super::access::{Accessible, AskedName, abroad, asked_as, examples, users_of};
use crate::resources::{Key, Kind, Tree};

/// Walks about one change. A large overlay is looked at in part.
#[doc(alias = "bound")]
const WALKS: usize = 20_000;

/// A change that takes something away from users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// A name that stays, and that no user reaches any more.
    Name(Key),
    /// A name that stays exported, and that no user of the other overlay reaches any more.
    Export {
        /// The peering.
        peering: Key,
        /// The name, as users there ask for it.
        target: String,
    },
    /// A user who reaches nothing any more, and a name that he reached.
    User {
        /// The user.
        user: String,
        /// A target that he reached.
        reached: String,
    },
}

/// The access that is lost in whole from one state to the next, at a time in Unix seconds. `members` are users beside those whom resources
/// name.
pub fn losses(
    before: &Accessible<'_>,
    after: &Accessible<'_>,
    members: BTreeSet<String>,
    now: u64,
) -> Vec<Loss> {
    let mut users = members;
    users.extend(users_of(before.tree));
    // Exports decide about users of other overlays.
    users.retain(|user| before.tree.peering_of(user).is_none());
    let was = names_by_key(before.tree);
    let is = names_by_key(after.tree);
    let mut search = Search {
        before,
        after,
        now,
        left: WALKS,
    };
    let mut losses = Vec::new();

    for (key, old) in &was {
        // The name may be written in another way by now.
        let Some(new) = is.get(key) else {
            continue;
        };
        if search
            .lost(pairs(&users, old), pairs(&users, new))
            .is_some()
        {
            losses.push(Loss::Name((*key).clone()));
        }
    }
    losses.extend(search.lost_exports());
    for user in &users {
        let old = was.values().flatten().map(|name| (user.as_str(), name));
        let new = is.values().flatten().map(|name| (user.as_str(), name));
        if let Some(name) = search.lost(old, new) {
            losses.push(Loss::User {
                user: user.clone(),
                reached: name.to_string(),
            });
        }
    }
    losses
}

/// Each name with every user.
fn pairs<'n>(
    users: &'n BTreeSet<String>,
    names: &'n [AskedName],
) -> impl Iterator<Item = (&'n str, &'n AskedName)> {
    let of_user = move |user: &'n String| names.iter().map(|name| (user.as_str(), name));
    users.iter().flat_map(of_user)
}

fn names_by_key(tree: &Tree) -> BTreeMap<&Key, Vec<AskedName>> {
    let names = tree.of_kind(Kind::Name);
    let names = names.map(|name| (name.key(), asked_as(name)));
    let others = tree.peerings();
    let others = others.map(|(key, peering)| (key, abroad(peering).into_iter().collect()));
    names.chain(others).collect()
}

/// Exported names with the users to whom they are exported, by the peering and the name.
fn exports<'t>(state: &Accessible<'t>) -> BTreeMap<[&'t Name; 2], ExportedTo<'t>> {
    let mut found = BTreeMap::new();
    for (key, peering) in state.tree.peerings() {
        for export in &peering.exports {
            let exported = ExportedTo {
                peering: key,
                users: examples(peering, export).into_iter().collect(),
                names: state.exported_as(key, export),
            };
            found.insert([&key.name, &export.name], exported);
        }
    }
    found
}

struct ExportedTo<'t> {
    peering: &'t Key,
    users: BTreeSet<String>,
    names: Vec<AskedName>,
}

struct Search<'a> {
    before: &'a Accessible<'a>,
    after: &'a Accessible<'a>,
    now: u64,
    /// Walks that may still be made.
    left: usize,
}

impl Search<'_> {
    /// Exports of both states that no one reaches any more.
    fn lost_exports(&mut self) -> Vec<Loss> {
        let was = exports(self.before);
        let is = exports(self.after);
        let mut losses = Vec::new();
        for (key, old) in &was {
            let Some(new) = is.get(key) else {
                continue;
            };
            let before = pairs(&old.users, &old.names);
            let lost = self.lost(before, pairs(&new.users, &new.names));
            losses.extend(lost.map(|name| Loss::Export {
                peering: old.peering.clone(),
                target: name.to_string(),
            }));
        }
        losses
    }

    /// A name of one of the pairs `before` that was reached, if none of those `after` is.
    fn lost<'n>(
        &mut self,
        before: impl Iterator<Item = (&'n str, &'n AskedName)>,
        after: impl Iterator<Item = (&'n str, &'n AskedName)>,
    ) -> Option<&'n AskedName> {
        // Mostly the first one reaches something: then the state before does not matter.
        for (user, name) in after {
            self.left = self.left.checked_sub(1)?;
            if self.after.is_reached(user, name, self.now) {
                return None;
            }
        }
        for (user, name) in before {
            self.left = self.left.checked_sub(1)?;
            if self.before.is_reached(user, name, self.now) {
                return Some(name);
            }
        }
        None
    }
}
