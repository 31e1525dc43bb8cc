//! The results of authentication.
//!
//! Credentials are verified once. The user that follows is a decision of `hermes-rules`, and is
//! decided again for an open tunnel when the configuration changes.

use std::sync::Arc;

use hermes_config::model::{Auth, Bearer, FieldPattern};
use hermes_http::RequestHead;
use hermes_http::fields::Fields;
use hermes_rules::judge::Authenticated;
use hermes_rules::{ClaimedGroups, UserAliases};
use tokio::time::Instant;

use crate::authenticator::Identity;
use crate::proof::Proof;

/// Why an exchange is taken for a user's.
pub struct AuthContext {
    /// The authenticated user.
    authenticated: Option<String>,
    /// The proof behind it.
    pub proof: Proof,
    /// Unix time in seconds at which the credential ends.
    pub expires: Option<u64>,
    /// Whether a peer proxy handed it over.
    pub peer: bool,
    /// The user before any filter changed it.
    pub user: Option<String>,
    /// Credentials that a filter is to see. They are nowhere else.
    pub credentials: Fields,
    /// The request without credentials, before any of its claims was accepted; kept for possible
    /// tunnels.
    pub arrived: Option<Arc<RequestHead>>,
    /// Until when the filters' decisions count.
    pub authorized: Option<Instant>,
}

impl AuthContext {
    /// The identity, and the credentials for filters; the caller fills in the rest as it learns it.
    #[must_use]
    pub fn new(identity: Identity, credentials: Fields, peer: bool) -> Self {
        Self {
            authenticated: identity.user,
            proof: identity.proof,
            expires: identity.expires,
            peer,
            user: None,
            credentials,
            arrived: None,
            authorized: None,
        }
    }

    /// The same for an exchange within an open tunnel; `arrived` is the request for it. Decisions
    /// of filters about the tunnel do not apply to it.
    #[must_use]
    pub fn within(&self, arrived: Arc<RequestHead>) -> Self {
        Self {
            user: None,
            arrived: Some(arrived),
            ..self.on_behalf()
        }
    }

    /// The same for an exchange that is opened on behalf of this one: its user was decided, and no
    /// request for it has arrived.
    #[must_use]
    pub fn on_behalf(&self) -> Self {
        Self {
            authenticated: self.authenticated.clone(),
            proof: self.proof.clone(),
            expires: self.expires,
            peer: self.peer,
            user: self.user.clone(),
            credentials: self.credentials.clone(),
            arrived: None,
            authorized: None,
        }
    }

    /// The result of authentication, for the rules; [`Self::claimed`] has a token's claims.
    #[must_use]
    pub fn authenticated(&self) -> Authenticated<'_> {
        Authenticated {
            user: self.authenticated.as_deref(),
            claimed: ClaimedGroups::default(),
            by_certificate: self.proof == Proof::Certificate,
        }
    }

    /// The groups that the token claims, if this is the user it names, by any of this user's names;
    /// `auth` is how the listener authenticates now.
    #[must_use]
    pub fn claimed<'a>(
        &'a self,
        auth: Option<&Auth>,
        user: Option<&str>,
        aliases: &UserAliases,
    ) -> ClaimedGroups<'a> {
        let Some(claims) = self.proof.claims() else {
            return ClaimedGroups::default();
        };
        let named = self.authenticated.as_deref();
        if user.is_none() || user != named.map(|name| aliases.user_of(name)) {
            return ClaimedGroups::default();
        }

        let groups_claim = match (&self.proof, auth) {
            (Proof::Supposed(token), _) => Some(token.groups_claim.as_str()),
            (_, Some(Auth::Methods(methods))) => methods.bearer.as_ref().map(Bearer::groups_claim),
            _ => None,
        };
        ClaimedGroups(groups_claim.and_then(|name| claims.get(name)))
    }
}

/// Whether a filter's `send` names this field in full; a star never means credentials.
#[must_use]
pub fn is_sent(send: &[FieldPattern], name: &str) -> bool {
    send.iter()
        .any(|pattern| !pattern.wildcard && pattern.matches(name))
}
