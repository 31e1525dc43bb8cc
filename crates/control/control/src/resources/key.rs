//! Names of resources: kind, tenant and name.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use hermes_api::Name;
use hermes_config::nearest;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The tenant of resources that name none.
pub const DEFAULT_TENANT: &str = "default";

/// Kinds of resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Properties of the whole.
    Overlay,
    /// A proxy, or a user's device with wishes of its own.
    Node,
    /// A node that opens connections to another one.
    Link,
    /// Servers behind nodes.
    Service,
    /// A target that users ask for, and its service.
    Name,
    /// A detour of some exchanges.
    Route,
    /// A user who has several names.
    User,
    /// Users under one name.
    Group,
    /// Who may do what.
    Policy,
    /// Users and resources that others do not see.
    Tenant,
    /// Addresses that some users reach by IP.
    Slice,
    /// A text that its nodes alone can read.
    Secret,
    /// Another operator's overlay.
    Peering,
    /// A decision of the planner.
    Placement,
}

/// The name of a resource, written as `Kind/tenant/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its tenant.
    pub tenant: Name,
    /// Its name among those of its kind and tenant.
    pub name: Name,
}

/// A text that names no resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no resource: write Kind/tenant/name or Kind/name")]
pub struct BadKey(String);

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Overlay,
        Self::Node,
        Self::Link,
        Self::Service,
        Self::Name,
        Self::Route,
        Self::User,
        Self::Group,
        Self::Policy,
        Self::Tenant,
        Self::Slice,
        Self::Secret,
        Self::Peering,
        Self::Placement,
    ];

    /// Kinds that the design knows and this version does not.
    pub(super) const LATER: [&str; 1] = ["Objective"];

    /// As it is written.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Overlay => "Overlay",
            Self::Node => "Node",
            Self::Link => "Link",
            Self::Service => "Service",
            Self::Name => "Name",
            Self::Route => "Route",
            Self::User => "User",
            Self::Group => "Group",
            Self::Policy => "Policy",
            Self::Tenant => "Tenant",
            Self::Slice => "Slice",
            Self::Secret => "Secret",
            Self::Peering => "Peering",
            Self::Placement => "Placement",
        }
    }

    /// The kind of this word, letter by letter.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// The remedy for a word that is no kind.
    pub(super) fn instead(word: &str) -> String {
        let words = Self::ALL.map(Self::word);
        match nearest(word, words.into_iter()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("kinds are {}", words.join(", ")),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

impl Key {
    /// The name of a resource of the default tenant.
    pub fn new(kind: Kind, name: Name) -> Self {
        Self {
            kind,
            tenant: default_tenant(),
            name,
        }
    }

    /// The key that no other one of its kind is before: no letter of a name is less than a zero, and hyphens are within names.
    pub(super) fn least(kind: Kind) -> Self {
        Self {
            kind,
            tenant: NAMES.least.clone(),
            name: NAMES.least.clone(),
        }
    }

    /// Its name with its tenant, unless that is the operator: `web`, `red.web`.
    pub fn short(&self) -> String {
        match self.is_operators() {
            true => self.name.to_string(),
            false => format!("{}.{}", self.tenant, self.name),
        }
    }

    /// Whether it is of the overlay's operator, and not of a tenant beside others.
    pub fn is_operators(&self) -> bool {
        self.tenant.as_str() == DEFAULT_TENANT
    }

    /// The name of another resource of the same tenant.
    pub fn sibling(&self, kind: Kind, name: &Name) -> Self {
        Self {
            kind,
            tenant: self.tenant.clone(),
            name: name.clone(),
        }
    }
}

/// Names that keys are made with again and again, and share.
struct SharedNames {
    default: Name,
    least: Name,
}

#[expect(
    clippy::expect_used,
    reason = "the constants are names, which a test shows"
)]
static NAMES: LazyLock<SharedNames> = LazyLock::new(|| SharedNames {
    default: DEFAULT_TENANT.parse().expect("a constant that is a name"),
    least: "0".parse().expect("a constant that is a name"),
});

/// The tenant of resources that name none.
pub(super) fn default_tenant() -> Name {
    NAMES.default.clone()
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}/{}", self.kind, self.tenant, self.name)
    }
}

impl FromStr for Key {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let bad = || BadKey(text.chars().take(200).collect());
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, tenant, name) = match parts.as_slice() {
            [kind, name] => (*kind, DEFAULT_TENANT, *name),
            [kind, tenant, name] => (*kind, *tenant, *name),
            _ => return Err(bad()),
        };
        Ok(Self {
            kind: Kind::of(kind).ok_or_else(bad)?,
            tenant: tenant.parse().map_err(|_| bad())?,
            name: name.parse().map_err(|_| bad())?,
        })
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_as_it_is_written() {
        for text in ["Node/default/hub", "Policy/red/p-1"] {
            assert_eq!(text.parse::<Key>().unwrap().to_string(), text);
        }
        let least = Key::least(Kind::Node);
        for text in ["Node/0/0", "Node/0/0-0", "Node/00/0", "Node/0-0/0"] {
            assert!(least <= text.parse().unwrap(), "{text}");
        }
        let short: Key = "Node/hub".parse().unwrap();
        assert_eq!(short, Key::new(Kind::Node, "hub".parse().unwrap()));
        for text in [
            "",
            "Node",
            "node/hub",
            "Node/default/hub/x",
            "Node/default/..",
            "Node//a",
        ] {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
    }
}
