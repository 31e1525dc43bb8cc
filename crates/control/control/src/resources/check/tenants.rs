//! Tenants: what is theirs, and what they may use.

use std::collections::BTreeMap;

use hermes_api::Name;
use hermes_config::model::{HostMatch, TargetMatch, UserMatch};

use super::report::Report;
use crate::resources::key::DEFAULT_TENANT;
use crate::resources::{Key, Kind, NameSpec, Resource, Spec, TenantSpec};

/// Kinds that belong to the overlay as a whole.
const OPERATORS: [Kind; 4] = [Kind::Overlay, Kind::User, Kind::Tenant, Kind::Peering];

pub(super) fn tenants(report: &mut Report<'_>) {
    let tree = report.tree;
    for resource in tree.resources() {
        let key = resource.key();
        if let Spec::Tenant(tenant) = resource.spec() {
            members(key, tenant, report);
        }
        if key.is_operators() {
            continue;
        }
        if tree.tenant(&key.tenant).is_none() {
            let known = |_: &Report<'_>| {
                let known = tree.of_kind(Kind::Tenant);
                let known = known.map(|tenant| tenant.key().name.as_str());
                known.collect::<Vec<_>>()
            };
            let remedy = report.instead(key.tenant.as_str(), Kind::Tenant, known);
            let reason = format!("there is no tenant `{}`", key.tenant);
            report.add(key, "metadata.tenant", reason, remedy);
        }
        if OPERATORS.contains(&key.kind) {
            let reason = format!(
                "a resource of the kind {} is for the whole overlay",
                key.kind
            );
            report.add(key, "metadata.tenant", reason, "remove the key");
        }
    }
}

/// Users are known by name: who belongs to two tenants has to be certain.
fn members(key: &Key, tenant: &TenantSpec, report: &mut Report<'_>) {
    if key.name.as_str() == DEFAULT_TENANT {
        let reason = "`default` is the overlay's operator, whose names every user may ask for";
        report.add(key, "metadata.name", reason, "choose another name");
    }
    for (index, member) in tenant.members.iter().enumerate() {
        if member.exact().is_none() || member.is_certified_user() {
            let reason = format!("`{member}` is not one user");
            let field = format!("spec.members[{index}]");
            report.add(key, &field, reason, "list users by name");
        }
    }
}

/// Nodes have one name in the whole overlay, and users enter it by the operator's.
pub(super) fn nodes(report: &mut Report<'_>) {
    let tree = report.tree;
    let mut first: BTreeMap<&Name, &Key> = BTreeMap::new();
    // The operator's first: the name is theirs.
    let (operators, others): (Vec<&Resource>, Vec<_>) = tree
        .of_kind(Kind::Node)
        .partition(|node| node.key().is_operators());
    for resource in operators.into_iter().chain(others) {
        let Spec::Node(node) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        let owner = *first.entry(&key.name).or_insert(key);
        if owner != key {
            let reason = format!("the name is taken: {}", report.whereabouts(owner));
            let remedy = "choose another name: certificates of nodes name no tenant";
            report.add(key, "metadata.name", reason, remedy);
        }
        for (index, tenant) in node.tenants.iter().enumerate() {
            report.refers(key, &format!("spec.tenants[{index}]"), Kind::Tenant, tenant);
        }
        if key.is_operators() {
            continue;
        }
        let given = [
            ("spec.ingress", node.ingress),
            ("spec.user", node.user.is_some()),
            ("spec.tenants", !node.tenants.is_empty()),
        ];
        for (field, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            let reason = "the key is for nodes of the overlay's operator";
            report.add(key, field, reason, "remove it, or `metadata.tenant`");
        }
    }
}

/// A condition on users within a tenant is about its members.
pub(super) fn member(key: &Key, field: &str, user: &UserMatch, report: &mut Report<'_>) {
    if key.is_operators() {
        return;
    }
    let tenant_key = Key::new(Kind::Tenant, key.tenant.clone());
    let Some(tenant) = report.tree.tenant(&key.tenant) else {
        return;
    };
    let reason = match user {
        UserMatch::Pattern(pattern) if pattern.claim_group().is_none() => {
            let Some(user) = pattern
                .exact()
                .filter(|_| !tenant.members.contains(pattern))
            else {
                return;
            };
            format!(
                "`{user}` is no member of {}",
                report.whereabouts(&tenant_key)
            )
        }
        other => format!("`{other}` may mean users of other tenants"),
    };
    report.add(
        key,
        field,
        reason,
        "name members, a group of the tenant, or `*` for all of them",
    );
}

/// Names of a tenant are hosts and prefixes, and none looks like a name of another tenant.
pub(super) fn names(report: &mut Report<'_>) {
    let tree = report.tree;
    for resource in tree.resources() {
        let key = resource.key();
        match resource.spec() {
            Spec::Name(name) => {
                for target in targets(key, name) {
                    suffix(key, &target, report);
                    plain(key, "spec.name", &target, report);
                }
            }
            Spec::Route(route) => {
                for target in route.matches.target.iter().flatten() {
                    plain(key, "spec.match.target", target, report);
                }
            }
            Spec::Policy(policy) => {
                for (index, rule) in policy.rules.iter().enumerate() {
                    for target in rule.matches.target.iter().flatten() {
                        let field = format!("spec.rules[{index}].match.target");
                        plain(key, &field, target, report);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The targets of a name.
pub(super) fn targets(key: &Key, name: &NameSpec) -> Vec<TargetMatch> {
    let own = || key.name.as_str().parse().ok().into_iter().collect();
    name.name.as_ref().map_or_else(own, |names| names.0.clone())
}

/// `VIDEO.red` is the name VIDEO of the tenant `red`, for users who have several.
fn suffix(key: &Key, target: &TargetMatch, report: &mut Report<'_>) {
    let (HostMatch::Exact(host) | HostMatch::Suffix(host)) = &target.host else {
        return;
    };
    let last = host
        .rsplit_once('.')
        .and_then(|(_, last)| last.parse::<Name>().ok());
    let Some(tenant) = last.filter(|last| report.tree.tenant(last).is_some()) else {
        return;
    };
    let place = report.whereabouts(&Key::new(Kind::Tenant, tenant.clone()));
    let reason = format!("`{target}` would be a name of the tenant {place}");
    let remedy = match key.tenant == tenant {
        true => "leave the tenant away: users may add it",
        false => "choose another name",
    };
    report.add(key, "spec.name", reason, remedy);
}

/// Whether two expressions meet cannot be told, so a tenant has none.
fn plain(key: &Key, field: &str, target: &TargetMatch, report: &mut Report<'_>) {
    let is_plain = !matches!(target.host, HostMatch::Regex(_) | HostMatch::Service(_));
    if !key.is_operators() && !is_plain {
        let reason = format!("`{target}` may mean names of other tenants");
        report.add(key, field, reason, "write hosts or prefixes of addresses");
    }
}
