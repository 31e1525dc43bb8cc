//! Groups, and policies that name them.

use hermes_config::model::{UserMatch, UserPattern};

use super::report::Report;
use super::tenants::member;
use crate::resources::specs::PolicySpec;
use crate::resources::{Key, Kind, Spec};

pub(super) fn groups(report: &mut Report<'_>) {
    let tree = report.tree;
    for resource in tree.of_kind(Kind::Group) {
        let Spec::Group(group) = resource.spec() else {
            continue;
        };
        for (index, listed) in group.members.iter().enumerate() {
            let is_group = listed.group().is_some() || listed.claim_group().is_some();
            if is_group || listed.is_certified_user() {
                let reason = format!("`{listed}` is no user");
                let field = format!("spec.members[{index}]");
                report.add(resource.key(), &field, reason, "list users");
            }
            let field = format!("spec.members[{index}]");
            member(
                resource.key(),
                &field,
                &UserMatch::Pattern(listed.clone()),
                report,
            );
        }
    }
}

pub(super) fn policies(report: &mut Report<'_>) {
    let tree = report.tree;
    for resource in tree.of_kind(Kind::Policy) {
        let Spec::Policy(policy) = resource.spec() else {
            continue;
        };
        let key = resource.key();
        for (index, node) in policy.at.iter().enumerate() {
            report.refers_to_proxy(key, &format!("spec.at[{index}]"), node);
        }
        for (index, rule) in policy.rules.iter().enumerate() {
            let field = format!("spec.rules[{index}].match");
            let users = rule.matches.user.as_deref().unwrap_or_default();
            users_of(key, &format!("{field}.user"), users, report);
            of_one_node(key, policy, index, report);
        }
    }
}

/// A proxy sees the one before it as the source, and each has listeners of its own.
fn of_one_node(key: &Key, policy: &PolicySpec, index: usize, report: &mut Report<'_>) {
    let matches = &policy.rules[index].matches;
    let given = [
        ("source", matches.source.is_some()),
        ("listener", matches.listener.is_some()),
    ];
    for (condition, is_given) in given {
        if is_given && policy.at.is_empty() {
            let reason = "the condition holds at one node, and every node asks this policy";
            let field = format!("spec.rules[{index}].match.{condition}");
            report.add(key, &field, reason, "name the nodes in `at`");
        }
    }
}

/// Groups that conditions name.
pub(super) fn users_of(key: &Key, field: &str, users: &[UserMatch], report: &mut Report<'_>) {
    for (index, user) in users.iter().enumerate() {
        member(key, &format!("{field}[{index}]"), user, report);
        let UserMatch::Pattern(pattern) = user else {
            continue;
        };
        if pattern.is_certified_user() {
            let field = format!("{field}[{index}]");
            report.add(key, &field, "`{user}` stands for no one here", "name users");
        }
        group_of(key, field, pattern, report);
    }
}

fn group_of(key: &Key, field: &str, pattern: &UserPattern, report: &mut Report<'_>) {
    let Some(name) = pattern.group() else { return };
    // A name that no resource can have is none of a group, either.
    let is_known = name.parse().is_ok_and(|name| {
        report
            .tree
            .resource(&key.sibling(Kind::Group, &name))
            .is_some()
    });
    if !is_known {
        let remedy = report.instead(name, Kind::Group, |report| report.known(key, Kind::Group));
        report.add(key, field, format!("there is no group `{name}`"), remedy);
    }
}
