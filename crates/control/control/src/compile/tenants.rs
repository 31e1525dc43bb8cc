//! Tenants: whose exchanges are whose.
//!
//! A node asks by user and target whose an exchange is. So every condition of a tenant is narrowed to its members and to the targets of
//! its names, and the operator's conditions come last. A user of two tenants says `VIDEO.red` where both have a name VIDEO.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hermes_api::Name;
use hermes_config::model::{HostMatch, TargetMatch, UserMatch, UserPattern};
use serde_json::{Value as Json, json};

use super::targets::meet;
use crate::resources::{Graph, Key, Kind, Spec, Tree};

/// A tenant: the operator, or one beside others.
pub(super) struct TenantPlan<'t> {
    pub(super) name: &'t Name,
    /// The nodes and links that its exchanges may take.
    pub(super) graph: Graph<'t>,
    /// `None`: every user, as of the operator.
    pub(super) members: Option<BTreeSet<&'t str>>,
}

/// A group that a document names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum NamedGroup {
    /// That of a resource.
    Resource(Key),
    /// All members of a tenant.
    Members(Name),
}

/// Users in the language of a document.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedUsers {
    pub(super) texts: Vec<Json>,
    pub(super) groups: BTreeSet<NamedGroup>,
}

impl fmt::Display for NamedGroup {
    /// Names of resources have no dots, so no two groups have one name.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(key) if key.is_operators() => key.name.fmt(out),
            Self::Resource(key) => write!(out, "{}.{}", key.tenant, key.name),
            Self::Members(tenant) => write!(out, "tenant.{tenant}.members"),
        }
    }
}

impl NamedUsers {
    /// As a condition says them.
    pub(super) fn json(&self) -> Json {
        match self.texts.as_slice() {
            [only] => only.clone(),
            several => several.into(),
        }
    }

    fn group(&mut self, group: NamedGroup) {
        self.texts.push(format!("group:{group}").into());
        self.groups.insert(group);
    }
}

/// All tenants that have resources, and the operator.
pub(super) fn tenants(tree: &Tree) -> BTreeMap<&Name, TenantPlan<'_>> {
    let names: BTreeSet<&Name> = tree.iter().map(|(key, _)| &key.tenant).collect();
    let plan = |name| {
        let members = tree.tenant(name).map(|tenant| {
            let members = tenant.members.iter();
            members.filter_map(UserPattern::exact).collect()
        });
        let graph = Graph::of(tree, name);
        (
            name,
            TenantPlan {
                name,
                graph,
                members,
            },
        )
    };
    names.into_iter().map(plan).collect()
}

impl<'t> TenantPlan<'t> {
    /// Users of a condition of this tenant, or all of its members; none if the condition means no member.
    pub(super) fn users(&self, written: Option<&[UserMatch]>) -> NamedUsers {
        let mut users = NamedUsers::default();
        let Some(members) = &self.members else {
            return users;
        };
        let all = || NamedGroup::Members(self.name.clone());
        let Some(written) = written else {
            users.group(all());
            return users;
        };
        for user in written {
            let UserMatch::Pattern(pattern) = user else {
                continue;
            };
            match (pattern.group(), pattern.exact()) {
                (Some(group), _) => {
                    let name = group.parse().ok();
                    let key = name.map(|name| self.key(Kind::Group, name));
                    key.into_iter()
                        .for_each(|key| users.group(NamedGroup::Resource(key)));
                }
                (None, Some(exact)) if members.contains(exact) => users.texts.push(exact.into()),
                (None, Some(_)) => {}
                (None, None) if members.iter().all(|member| pattern.matches(member)) => {
                    users.group(all());
                }
                (None, None) => {
                    let meant = members.iter().filter(|member| pattern.matches(member));
                    users.texts.extend(meant.map(|member| Json::from(*member)));
                }
            }
        }
        users
    }

    /// Who is in a group of this tenant, or of all its members.
    pub(super) fn members_of(&self, tree: &'t Tree, group: &NamedGroup) -> Json {
        let members = self.members.iter().flatten();
        let NamedGroup::Resource(key) = group else {
            return members.copied().collect();
        };
        let Some(Spec::Group(group)) = tree.resource(key).map(|group| group.spec()) else {
            return json!([]);
        };
        let is_in = |member: &&&str| group.members.iter().any(|pattern| pattern.matches(member));
        members.filter(is_in).copied().collect()
    }

    /// Members of this tenant who are of another one, too.
    pub(super) fn shared_with(&self, other: &Self) -> Vec<&'t str> {
        let (Some(own), Some(others)) = (&self.members, &other.members) else {
            return Vec::new();
        };
        own.intersection(others).copied().collect()
    }

    /// Those of these targets that are of the tenant's names, which are `own`.
    pub(super) fn narrowed(
        &self,
        written: Option<&[TargetMatch]>,
        own: &[TargetMatch],
    ) -> Vec<TargetMatch> {
        let Some(written) = written else {
            return own.to_vec();
        };
        let mut narrowed = Vec::new();
        for written in written {
            let plain = self.unqualified(written);
            let met = own.iter().filter_map(|own| meet(own, &plain));
            for target in met {
                if !narrowed.contains(&target) {
                    narrowed.push(target);
                }
            }
        }
        narrowed
    }

    /// The names by which users of several tenants say which they mean: `VIDEO.red`.
    pub(super) fn qualified(&self, targets: &[TargetMatch]) -> Vec<TargetMatch> {
        let qualified = targets.iter().filter_map(|target| match &target.host {
            HostMatch::Exact(host) if !is_address(host) && self.members.is_some() => {
                Some(TargetMatch {
                    host: HostMatch::Exact(format!("{host}.{}", self.name)),
                    port: target.port,
                })
            }
            _ => None,
        });
        qualified.collect()
    }

    fn unqualified(&self, target: &TargetMatch) -> TargetMatch {
        let suffix = format!(".{}", self.name);
        match &target.host {
            HostMatch::Exact(host) if host.ends_with(&suffix) => TargetMatch {
                host: HostMatch::Exact(host[..host.len() - suffix.len()].to_owned()),
                port: target.port,
            },
            _ => target.clone(),
        }
    }

    fn key(&self, kind: Kind, name: Name) -> Key {
        Key {
            tenant: self.name.clone(),
            ..Key::new(kind, name)
        }
    }
}

fn is_address(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok()
}
