//! Policy: who may do what, for exchanges of every kind.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{Hours, OneOrMany, Template};
use super::{Match, PacketPolicy};

/// Rules that every exchange meets after it was identified and tagged, before filters are asked and its route is chosen.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Exchanges that no rule allows or denies. Default: deny.
    #[serde(default)]
    pub default: PolicyDefault,
    /// The first rule that matches and has `allow` or `deny` decides.
    #[serde(default)]
    pub rules: Vec<PolicyRule>,
    /// Which packets may pass the tunnels of IP that end at a device of this node. Default: those of their addresses.
    #[serde(default)]
    pub packets: Option<PacketPolicy>,
}

/// The decision about exchanges and packets that no rule matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyDefault {
    /// Allowed.
    Allow,
    /// Refused with 403.
    #[default]
    Deny,
}

/// One rule. `allow` or `deny` makes it decide; `set` alone only adds fields, and the rules after it are asked.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRule {
    /// Name in reasons, metrics and logs. Default: its position, as `policy.rules[3]`.
    #[serde(default)]
    pub name: Option<String>,
    /// Conditions on the exchange. Default: any exchange.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// When the rule holds: `mon-fri 08:00-18:00`, of UTC; with `+02:00` of a clock ahead of it. Default: always.
    #[serde(default)]
    pub hours: Option<OneOrMany<Hours>>,
    /// `true`: the exchange may go on.
    #[serde(default)]
    pub allow: Option<bool>,
    /// Refuses the exchange: `true`, or a status and a reason.
    #[serde(default)]
    pub deny: Option<PolicyDeny>,
    /// Overlay fields that the exchange has from here on, if it is allowed; routes can match them.
    #[serde(default)]
    pub set: IndexMap<String, Template>,
}

/// How an exchange is refused.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum PolicyDeny {
    /// `true`: with 403.
    Plain(bool),
    /// With a status and a reason.
    Answer(PolicyAnswer),
}

/// The answer to an exchange that is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyAnswer {
    /// Status, 400 to 599. Default: 403.
    #[serde(default)]
    #[schemars(range(min = 400, max = 599))]
    pub status: Option<u16>,
    /// Why, in words for records and for clients who may know. Default: the name of the rule alone.
    #[serde(default)]
    pub reason: Option<String>,
}

impl PolicyRule {
    /// The answer where it denies; `None` where it does not.
    pub fn denial(&self) -> Option<PolicyAnswer> {
        match self.deny.as_ref()? {
            PolicyDeny::Plain(denies) => denies.then(PolicyAnswer::default),
            PolicyDeny::Answer(answer) => Some(answer.clone()),
        }
    }

    /// Whether it decides.
    pub fn decides(&self) -> bool {
        self.allow == Some(true) || self.denial().is_some()
    }
}
