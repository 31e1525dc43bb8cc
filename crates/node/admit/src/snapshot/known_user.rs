//! The user of an exchange at a listener.

use hermes_identity::AuthContext;

use super::ListenerRules;
use crate::filter::KnownUser;

impl ListenerRules {
    /// A user, with the groups that the token claims if it names this user: a peer or a filter may have named another.
    pub fn known_user<'a>(&self, auth: &'a AuthContext, user: Option<&'a str>) -> KnownUser<'a> {
        let claimed = auth.claimed(self.config.auth(), user, &self.aliases);
        KnownUser { user, claimed }
    }
}
