//! Who a node is, as it was told when it joined.

use std::net::SocketAddr;

use hermes_api::{BadStatement, JoinAnswer, Name, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::controllers;

/// A node's place in its overlay; its key and certificate lie beside it ([`State`](crate::State)).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Membership {
    /// The overlay.
    pub overlay: Name,
    /// The domain of its SPIFFE IDs and DNS names.
    pub trust_domain: String,
    /// The node's name.
    pub node: Name,
    /// The user of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Name>,
    /// The key of statements, as [`VerifyingKey::to_text`].
    pub statement_key: String,
    /// The operator's key, without which no document is followed, as [`VerifyingKey::to_text`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_key: Option<String>,
    /// The controller, as `https://hub:7443`.
    pub controller: String,
    /// Others of the same overlay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<String>,
    /// Where programs of this machine speak to it, instead of where devices of the overlay listen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<SocketAddr>,
}

impl Membership {
    /// As an answer of this controller says.
    ///
    /// # Errors
    /// The answer has a name that is none: the controller is of another version.
    pub(crate) fn of(answer: &JoinAnswer, controller: String) -> Result<Self, String> {
        let name = |text: &str| text.parse::<Name>().map_err(|error| error.to_string());
        VerifyingKey::from_text(&answer.statement_key).map_err(|error| error.to_string())?;
        let user = Some(&answer.user).filter(|user| !user.is_empty());

        Ok(Self {
            overlay: name(&answer.overlay)?,
            trust_domain: answer.trust_domain.clone(),
            node: name(&answer.node)?,
            user: user.map(|user| name(user)).transpose()?,
            statement_key: answer.statement_key.clone(),
            controllers: controllers::told(&answer.controllers),
            operator_key: None,
            controller,
            web: None,
        })
    }

    /// The operator's key, if the node was told one.
    ///
    /// # Errors
    /// The file was changed, and holds none.
    pub fn operator_key(&self) -> Result<Option<VerifyingKey>, BadStatement> {
        let key = self.operator_key.as_deref();
        key.map(VerifyingKey::from_text).transpose()
    }

    /// The key of statements.
    ///
    /// # Errors
    /// The file was changed, and holds none.
    pub fn verifying_key(&self) -> Result<VerifyingKey, BadStatement> {
        VerifyingKey::from_text(&self.statement_key)
    }
}
