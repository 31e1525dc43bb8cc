//! The claims of a supposed user's token.

use std::sync::Arc;

use hermes_config::model::{Auth, Bearer, Document, Listener};
use hermes_identity::{Proof, SupposedToken};
use hermes_rules::ClaimedGroups;
use serde_json::{Map, Value};

use super::question;

/// The claim of the user where a listener names none (RFC 7519, section 4.1.2).
const SUBJECT: &str = "sub";

/// The claim of the groups where a listener names none.
const GROUPS: &str = "groups";

/// The user and the token, as a person describes them.
#[derive(Debug, Clone, Copy)]
pub struct SaidOfUser<'a> {
    /// Whom authentication found.
    pub user: Option<&'a str>,
    /// Groups, without the name of their claim.
    pub groups: &'a [String],
    /// Claims.
    pub claims: &'a Map<String, Value>,
}

/// The claims of a token that is only supposed; none where nothing is said of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SupposedClaims {
    claims: Option<Map<String, Value>>,
    /// The claim of the groups.
    groups: String,
}

impl SupposedClaims {
    /// Of a token that was checked where the tunnel of a packet began: at this listener, or at one that takes claims by their usual names.
    ///
    /// # Errors
    /// There is no such listener, or the groups are said twice, in words.
    pub fn of_packet(
        document: &Document,
        listener: Option<&str>,
        said: SaidOfUser<'_>,
    ) -> Result<Self, String> {
        let listener = listener
            .map(|name| question::listener(document, Some(name)))
            .transpose()?;
        let config = listener.as_ref().map(|(_, config)| &**config);
        Self::new(config, said)
    }

    /// Of a token that this listener would have checked.
    ///
    /// # Errors
    /// The groups are said twice, in words.
    pub fn new(listener: Option<&Listener>, said: SaidOfUser<'_>) -> Result<Self, String> {
        let bearer = listener.and_then(bearer);
        let groups_claim = bearer.map_or(GROUPS, Bearer::groups_claim).to_owned();
        if said.groups.is_empty() && said.claims.is_empty() {
            return Ok(Self {
                claims: None,
                groups: groups_claim,
            });
        }

        let mut claims = said.claims.clone();
        if !said.groups.is_empty() {
            let groups = Value::from(said.groups);
            let before = claims.insert(groups_claim.clone(), groups);
            if before.is_some() {
                return Err(format!(
                    "the groups are the claim {groups_claim}: say either of them"
                ));
            }
        }

        // A token names its user.
        if let Some(user) = said.user {
            let named = bearer.and_then(|bearer| bearer.user_claim.as_deref());
            let named = claims.entry(named.unwrap_or(SUBJECT));
            named.or_insert_with(|| user.into());
        }
        Ok(Self {
            claims: Some(claims),
            groups: groups_claim,
        })
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> Option<&Map<String, Value>> {
        self.claims.as_ref()
    }

    /// The same as the proof of a client.
    #[must_use]
    pub fn proof(&self) -> Proof {
        match &self.claims {
            Some(claims) => Proof::Supposed(Arc::new(SupposedToken {
                claims: claims.clone(),
                groups_claim: self.groups.clone(),
            })),
            None => Proof::Nothing,
        }
    }

    /// The groups.
    #[must_use]
    pub fn groups(&self) -> ClaimedGroups<'_> {
        let claims = self.claims.as_ref();
        ClaimedGroups(claims.and_then(|claims| claims.get(&self.groups)))
    }
}

/// How a listener takes tokens.
fn bearer(listener: &Listener) -> Option<&Bearer> {
    match listener.auth() {
        Some(Auth::Methods(methods)) => methods.bearer.as_ref(),
        _ => None,
    }
}

/// A claim, `NAME=VALUE`: the value is JSON, or a text where it is none.
///
/// # Errors
/// There is no name, in words.
pub fn parse_claim(text: &str) -> Result<(String, Value), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            Ok((name.to_owned(), value))
        }
        _ => Err(format!("`{text}` is not a claim: write NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn listener(auth: &Value) -> Listener {
        serde_json::from_value(json!({ "http": "127.0.0.1:0", "auth": auth })).unwrap()
    }

    fn claims(said: &[&str]) -> Map<String, Value> {
        said.iter().map(|text| parse_claim(text).unwrap()).collect()
    }

    #[test]
    fn a_value_is_json_or_else_a_text() {
        for (text, name, value) in [
            ("tenant=blue", "tenant", json!("blue")),
            ("level=3", "level", json!(3)),
            ("level=\"3\"", "level", json!("3")),
            ("roles=[\"a\",\"b\"]", "roles", json!(["a", "b"])),
            ("query=a=b", "query", json!("a=b")),
            ("none=", "none", json!("")),
        ] {
            assert_eq!(parse_claim(text).unwrap(), (name.to_owned(), value));
        }
        assert!(parse_claim("tenant").is_err());
        assert!(parse_claim("=blue").is_err());
    }

    #[test]
    fn the_claims_have_the_names_that_the_listener_gives_them() {
        let bearer = json!({ "bearer": {
            "jwks_file": "keys.json", "issuer": "i", "audience": "a", "user_claim": "email", "groups_claim": "roles",
        } });
        let listener = listener(&bearer);
        let none = Map::new();
        let said = SaidOfUser {
            user: Some("alice"),
            groups: &["ops".to_owned()],
            claims: &none,
        };

        let supposed = SupposedClaims::new(Some(&listener), said).unwrap();
        let all = json!({ "email": "alice", "roles": ["ops"] });
        assert_eq!(json!(supposed.all()), all);
        assert!(supposed.groups().contains("ops"));

        let packet = SupposedClaims::new(None, said).unwrap();
        let all = json!({ "sub": "alice", "groups": ["ops"] });
        assert_eq!(json!(packet.all()), all);

        let written = claims(&["roles=ops", "email=al@corp"]);
        let said = SaidOfUser {
            groups: &[],
            claims: &written,
            ..said
        };
        let supposed = SupposedClaims::new(Some(&listener), said).unwrap();
        assert_eq!(supposed.all(), Some(&written));
        assert!(supposed.groups().contains("ops"));
    }

    #[test]
    fn groups_are_said_once_and_without_claims_there_is_no_token() {
        let written = claims(&["groups=[\"a\"]"]);
        let none = Map::new();
        let twice = SaidOfUser {
            user: None,
            groups: &["b".to_owned()],
            claims: &written,
        };
        assert!(SupposedClaims::new(None, twice).is_err());

        let nothing = SaidOfUser {
            user: Some("alice"),
            groups: &[],
            claims: &none,
        };
        let supposed = SupposedClaims::new(None, nothing).unwrap();
        assert_eq!(supposed.all(), None);
    }
}
