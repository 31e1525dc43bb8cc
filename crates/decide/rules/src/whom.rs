//! The users that a rule is about, named by names, patterns and groups.

use hermes_config::model::UserMatch;

use crate::route::{ClaimedGroups, Names};

/// A user, and the groups of this user.
#[derive(Debug, Clone, Default)]
pub struct Whom<'a> {
    user: Option<&'a str>,
    groups: Vec<&'a str>,
    claimed: ClaimedGroups<'a>,
}

impl<'a> Whom<'a> {
    /// A user, with the groups of the document and those that the user's token claims.
    pub fn new(names: &'a Names, user: Option<&'a str>, claimed: ClaimedGroups<'a>) -> Self {
        Self {
            user,
            groups: names.groups_of(user),
            claimed,
        }
    }

    /// Whether one of these means the user; an empty list means everyone.
    pub fn is_meant(&self, users: &[UserMatch]) -> bool {
        users.is_empty() || users.iter().any(|test| self.is_one(test))
    }

    fn is_one(&self, test: &UserMatch) -> bool {
        let pattern = match test {
            UserMatch::Regex(regex) => return self.user.is_some_and(|user| regex.is_match(user)),
            UserMatch::Pattern(pattern) => pattern,
            UserMatch::Unknown => return self.user.is_none(),
        };

        self.user.is_some_and(|user| pattern.matches(user))
            || pattern
                .group()
                .is_some_and(|group| self.groups.contains(&group))
            || pattern
                .claim_group()
                .is_some_and(|group| self.claimed.contains(group))
    }
}
