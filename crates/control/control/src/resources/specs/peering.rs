//! `Peering`: another operator's overlay.

use std::net::IpAddr;

use hermes_api::Name;
use hermes_config::model::{
    DataSource, FieldPattern, HostMatch, HostPort, OneOrMany, TargetMatch, UserPattern,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Another operator's overlay: its users reach the names that are exported to them, and ours ask for its names as `NAME.DOMAIN`. Its
/// user `alice` is known here as `alice@DOMAIN`, and is no user of this overlay.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeeringSpec {
    /// Its trust domain: that of its certificates.
    pub domain: String,
    /// PEM certificates of its authorities, all generations that count: `{ inline: TEXT }`, or the path of a file that our nodes at the
    /// border have. They are believed about its own members alone.
    pub bundle: DataSource,
    /// Its nodes at the border: the only ones that may send to us, and those that we send to.
    #[serde(default)]
    pub border: Vec<BorderNode>,
    /// Our nodes at the border; at least one.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub at: Vec<Name>,
    /// Overlay fields, fields about the source and of traces that are taken from it; all others are removed at the border. Default: none.
    #[serde(default)]
    pub accepts: Vec<FieldPattern>,
    /// Its users whom it may speak for, as it calls them: names, and patterns with one star. Default: all of them.
    #[serde(rename = "speaksFor", default)]
    pub speaks_for: Option<OneOrMany<UserPattern>>,
    /// Our names that its users may ask for. Default: none.
    #[serde(default)]
    pub exports: Vec<ExportedName>,
}

/// A node of another overlay, where that one ends.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BorderNode {
    /// Its name there.
    #[schemars(with = "String")]
    pub node: Name,
    /// Addresses by which our nodes reach it. Default: none, it only sends to us.
    #[serde(default)]
    pub reach: Vec<HostPort>,
}

/// A name of ours that users of another overlay may ask for.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportedName {
    /// The resource of the kind Name.
    #[schemars(with = "String")]
    pub name: Name,
    /// The users, as the other overlay calls them: names, and patterns with one star. Default: all whom it may speak for.
    #[serde(default)]
    pub to: Option<OneOrMany<UserPattern>>,
}

impl PeeringSpec {
    /// The name that this overlay has for users of the other one.
    pub fn local(&self, user: &UserPattern) -> String {
        format!("{user}@{}", self.domain)
    }

    /// All users of the other overlay.
    pub fn everyone(&self) -> String {
        format!("*@{}", self.domain)
    }

    /// The users whom it may speak for, as this overlay knows them.
    pub fn speaks_for(&self) -> Vec<String> {
        self.local_users(self.speaks_for.as_ref())
    }

    /// The users to whom a name is exported, as this overlay knows them.
    pub fn exported_to(&self, export: &ExportedName) -> Vec<String> {
        self.local_users(export.to.as_ref())
    }

    fn local_users(&self, users: Option<&OneOrMany<UserPattern>>) -> Vec<String> {
        match users {
            Some(users) => users.iter().map(|user| self.local(user)).collect(),
            None => vec![self.everyone()],
        }
    }
}

/// The target by which users of another overlay ask for one of the overlay with this trust domain; `None` for addresses and
/// expressions, which cannot be told from their own, and for every host.
pub(crate) fn exported(target: &TargetMatch, domain: &str) -> Option<TargetMatch> {
    let host = match &target.host {
        HostMatch::Exact(host) if host.parse::<IpAddr>().is_err() => {
            HostMatch::Exact(format!("{host}.{domain}"))
        }
        HostMatch::Suffix(suffix) if !suffix.is_empty() => {
            HostMatch::Suffix(format!("{suffix}.{domain}"))
        }
        _ => return None,
    };
    Some(TargetMatch {
        host,
        port: target.port,
    })
}
