//! Users who are found under several names.

use std::collections::HashMap;

use indexmap::IndexMap;

/// The other names of users: a certificate, a token and a password may each have another one for the same person.
#[derive(Debug, Clone, Default)]
pub struct UserAliases(HashMap<Box<str>, Box<str>>);

impl UserAliases {
    /// Those of a document that was linted: no name is that of two users.
    pub fn new(users: &IndexMap<String, Vec<String>>) -> Self {
        let aliases = users.iter().flat_map(|(user, aliases)| {
            let alias = |alias: &String| (alias.as_str().into(), user.as_str().into());
            aliases.iter().map(alias)
        });
        Self(aliases.collect())
    }

    /// Who is found under this name: someone's, or the name itself.
    pub fn user_of<'a>(&'a self, name: &'a str) -> &'a str {
        self.0.get(name).map_or(name, |user| user)
    }
}
