//! The names of an overlay, for shells that complete them.

use std::collections::BTreeSet;
use std::str::FromStr;

use serde_json::Value as Json;

use super::controller::Controller;
use crate::compile::users_of;
use crate::resources::{Key, Kind, Resource, Tree};

/// Names that are told at once: more are no help to who completes one.
#[doc(alias = "bound")]
const MOST: usize = 10_000;

/// Kinds of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// Members of the overlay, and nodes that it describes.
    Nodes,
    /// Users whom a resource, a device or a token names, and groups as `group:NAME`.
    Users,
    /// Tokens that count, by their identifiers.
    Tokens,
    /// Keys of resources.
    Keys,
    /// The names that users may ask for.
    Targets,
}

impl NameKind {
    /// Every kind and its word.
    const WORDS: [(Self, &'static str); 5] = [
        (Self::Nodes, "nodes"),
        (Self::Users, "users"),
        (Self::Tokens, "tokens"),
        (Self::Keys, "keys"),
        (Self::Targets, "targets"),
    ];

    /// The word by which it is asked for.
    pub fn word(self) -> &'static str {
        let known = Self::WORDS.iter().find(|(kind, _)| *kind == self);
        known.map_or("", |(_, word)| word)
    }
}

/// No kind of names is called so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no names are called {0}: nodes, users, tokens, keys, targets")]
pub struct UnknownNames(String);

impl FromStr for NameKind {
    type Err = UnknownNames;

    fn from_str(word: &str) -> Result<Self, UnknownNames> {
        let known = Self::WORDS.iter().find(|(_, known)| *known == word);
        known
            .map(|(kind, _)| *kind)
            .ok_or_else(|| UnknownNames(word.to_owned()))
    }
}

impl Controller {
    /// The names of one kind, in their order.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn names(&self, kind: NameKind) -> Result<Vec<String>, String> {
        let tree = self.in_force.lock().published.tree.clone();
        let mut names = match kind {
            NameKind::Nodes => keys_of(&tree, Kind::Node),
            NameKind::Users => users(&tree),
            NameKind::Tokens => BTreeSet::new(),
            NameKind::Keys => tree.iter().map(|(key, _)| key.to_string()).collect(),
            NameKind::Targets => tree.of_kind(Kind::Name).flat_map(targets).collect(),
        };
        match kind {
            NameKind::Nodes => names.extend(self.nodes()?.into_iter().map(|view| view.node)),
            NameKind::Users => {
                names.extend(self.nodes()?.into_iter().filter_map(|view| view.user));
                let tokens = self.tokens()?.into_iter();
                names.extend(tokens.filter_map(|token| Some(token.user?.to_string())));
            }
            NameKind::Tokens => names.extend(self.tokens()?.into_iter().map(|token| token.id)),
            NameKind::Keys | NameKind::Targets => {}
        }
        Ok(names.into_iter().take(MOST).collect())
    }
}

fn keys_of(tree: &Tree, kind: Kind) -> BTreeSet<String> {
    let resources = tree.of_kind(kind);
    resources
        .map(|resource| resource.key().name.to_string())
        .collect()
}

fn users(tree: &Tree) -> BTreeSet<String> {
    let groups = keys_of(tree, Kind::Group);
    let groups = groups.into_iter().map(|group| format!("group:{group}"));
    users_of(tree).into_iter().chain(groups).collect()
}

/// The targets of a name. Of other tenants they are told in full, as every user may write them.
fn targets(name: &Resource) -> Vec<String> {
    let key = name.key();
    let written = match &name.written()["name"] {
        Json::String(one) => vec![one.clone()],
        Json::Array(several) => {
            let several = several.iter().filter_map(Json::as_str);
            several.map(str::to_owned).collect()
        }
        _ => vec![key.name.to_string()],
    };
    written
        .into_iter()
        .map(|target| in_full(key, target))
        .collect()
}

fn in_full(key: &Key, target: String) -> String {
    if key.is_operators() {
        return target;
    }
    match target.split_once(':') {
        Some((host, port)) => format!("{host}.{}:{port}", key.tenant),
        None => format!("{target}.{}", key.tenant),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_asked_for_by_its_word() {
        for (kind, word) in NameKind::WORDS {
            assert_eq!((kind.word(), word.parse()), (word, Ok(kind)));
        }
        assert!("secrets".parse::<NameKind>().is_err());
    }

    #[test]
    fn targets_of_a_tenant_are_told_in_full() {
        let of = |tenant: &str, target: &str| {
            let mut key = Key::new(Kind::Name, "x".parse().unwrap());
            key.tenant = tenant.parse().unwrap();
            in_full(&key, target.to_owned())
        };
        assert_eq!(of("red", "DB:5432"), "DB.red:5432");
        assert_eq!(of("red", "VIDEO"), "VIDEO.red");
        let own = Key::new(Kind::Name, "x".parse().unwrap());
        assert_eq!(in_full(&own, "VIDEO".to_owned()), "VIDEO");
    }
}
