//! Users who are found under several names.

use std::collections::HashMap;

use indexmap::IndexMap;

/// The other names of users: a certificate, a token and a password may each have another one for the same person.
#[derive(Debug, Clone, Default)]
pub struct UserAliases(HashMap<Box<str>, Box<str>>);

impl UserAliases {
    /// The aliases of a linted document: no alias is that of two users.
    pub fn new(users: &IndexMap<String, Vec<String>>) -> Self {
        let aliases = users.iter().flat_map(|(user, aliases)| {
            let alias = |alias: &String| (alias.as_str().into(), user.as_str().into());
            aliases.iter().map(alias)
        });
        Self(aliases.collect())
    }

    /// The user of this name: the owner of the alias, or the name itself.
    pub fn user_of<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, |user| user)
    }
}
