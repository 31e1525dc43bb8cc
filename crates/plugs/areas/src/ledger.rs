//! The paths of a place, and who has asked for them.

use std::collections::{BTreeMap, BTreeSet};

use hermes_plan::{Plan, Usage};
use serde::{Deserialize, Serialize};

/// Paths of a place.
#[doc(alias = "bound")]
pub(crate) const PATHS: usize = 1_000;

/// Paths that one user has at a place.
#[doc(alias = "bound")]
pub(crate) const PATHS_OF_USER: usize = 100;

/// Paths with their users; a change makes another one, which is put in force when its routes are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ledger {
    paths: BTreeMap<String, AreaPath>,
}

/// A path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AreaPath {
    pub(crate) plan: Plan,
    /// Who has asked for it: it ends when the last of them withdraws it.
    pub(crate) users: BTreeSet<String>,
    /// It has no routes here any more, and some other place was not told yet.
    #[serde(default)]
    pub(crate) ending: bool,
}

/// There are as many paths as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Place,
    User,
}

impl Ledger {
    pub(crate) fn path(&self, name: &str) -> Option<&AreaPath> {
        self.paths.get(name)
    }

    /// A path of this user: others are as if they did not exist.
    pub(crate) fn path_of(&self, name: &str, user: &str) -> Option<&AreaPath> {
        self.path(name).filter(|path| path.users.contains(user))
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = (&String, &AreaPath)> {
        self.paths.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    /// With a path of a user. The same one again changes nothing.
    pub(crate) fn joined(&self, name: &str, plan: &Plan, user: &str) -> Result<Self, Full> {
        let mut next = self.clone();
        if self.path_of(name, user).is_none() {
            let of_user = self.paths.values().filter(|path| path.users.contains(user));
            if of_user.count() >= PATHS_OF_USER {
                return Err(Full::User);
            }
            if self.path(name).is_none() && self.len() >= PATHS {
                return Err(Full::Place);
            }
        }

        let path = next.paths.entry(name.to_owned());
        let path = path.or_insert_with(|| AreaPath {
            plan: plan.clone(),
            users: BTreeSet::new(),
            ending: false,
        });
        path.users.insert(user.to_owned());
        if path.ending {
            path.ending = false;
            path.plan = plan.clone();
        }
        Ok(next)
    }

    /// Without the claim of a user. The path of the last one is kept as ending, so that other places can be told again.
    pub(crate) fn left(&self, name: &str, user: &str) -> Self {
        let mut next = self.clone();
        if let Some(path) = next.paths.get_mut(name) {
            match path.users.len() {
                // It stays his while it ends: he may ask again.
                1 if path.users.contains(user) => path.ending = true,
                _ => {
                    path.users.remove(user);
                }
            }
        }
        next
    }

    /// Without this path.
    pub(crate) fn without(&self, name: &str) -> Self {
        let mut next = self.clone();
        next.paths.remove(name);
        next
    }

    /// The claims that are still good; paths without any are gone.
    pub(crate) fn kept(&self, is_good: impl Fn(&Plan, &str) -> bool) -> Self {
        let mut next = self.clone();
        for path in next.paths.values_mut() {
            let plan = &path.plan;
            path.users.retain(|user| is_good(plan, user));
        }
        next.paths.retain(|_, path| !path.users.is_empty());
        next
    }

    /// The plans of paths that have routes.
    pub(crate) fn plans(&self) -> Vec<Plan> {
        let paths = self.paths.values().filter(|path| !path.ending);
        paths.map(|path| path.plan.clone()).collect()
    }

    /// How these paths use functions.
    pub(crate) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for path in self.paths.values().filter(|path| !path.ending) {
            usage.add(&path.plan);
        }
        usage
    }
}
