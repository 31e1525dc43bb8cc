//! Rules about users of other overlays.
//!
//! A rule of the operator means users of another overlay if it denies, or if it names them. What none of them decides is allowed as it is
//! exported, and everything else is refused.

use std::collections::BTreeSet;

use hermes_api::Name;
use hermes_config::element;
use hermes_config::model::{PolicyRule, TargetMatch, UserMatch, UserPattern};
use serde_json::{Value as Json, json};

use super::peerings::{ExportPlan, PeeringPlan};
use super::plan::Plan;
use super::policy::{Asked, named, policies, rule_name};
use super::routes::json_of;
use super::source_map::SourceField;
use super::targets::meet;
use crate::resources::{Key, Kind, Spec, Tree, exported};

/// The rules of a node about users of other overlays.
pub(super) fn rules<'t>(plan: &Plan<'t>, node: &Name) -> Vec<Asked<'t>> {
    let mut rules = Vec::new();
    for peering in &plan.peerings {
        rules.extend(forged(plan, node, peering));
        if peering.comes_to(node) {
            rules.extend(written(plan, node, peering));
            rules.extend(
                peering
                    .exports_at(node)
                    .filter_map(|export| allowed(plan, peering, export)),
            );
            rules.extend(rest(peering));
        }
    }
    rules
}

/// The refusal of users who come by a listener of the node's own under a name of the other overlay's.
fn forged<'t>(plan: &Plan<'t>, node: &Name, peering: &PeeringPlan<'t>) -> Option<Asked<'t>> {
    let listeners = &plan.graph.node(node)?.listeners;
    let names: Vec<&String> = listeners.keys().collect();
    if names.is_empty() {
        return None;
    }
    let key = peering.key;
    let reason = format!(
        "users of {} come by its own nodes alone",
        peering.spec.domain
    );
    let rule = json!({
        "name": format!("peering/{}/forged", key.name),
        "match": { "listener": names, "user": peering.spec.everyone() },
        "deny": { "reason": reason },
    });
    asked(peering, rule, SourceField::made(key, "spec.domain"))
}

/// The exports.
fn allowed<'t>(
    plan: &Plan<'t>,
    peering: &PeeringPlan<'t>,
    export: &ExportPlan<'t>,
) -> Option<Asked<'t>> {
    let targets = export.targets(&plan.domain);
    let rule = json!({
        "name": format!("peering/{}/{}", peering.key.name, export.name.name),
        "match": { "target": json_of(&targets), "user": peering.spec.exported_to(export.export) },
        "allow": true,
    });
    let field = element("spec.exports", export.index);
    asked(peering, rule, SourceField::made(peering.key, field))
}

/// The end of the rules about users of another overlay: those for everybody do not mean them.
fn rest<'t>(peering: &PeeringPlan<'t>) -> Option<Asked<'t>> {
    let key = peering.key;
    let rule = json!({
        "name": format!("peering/{}/rest", key.name),
        "match": { "user": peering.spec.everyone() },
        "deny": { "reason": format!("the name is not exported to this user of {}", peering.spec.domain) },
    });
    asked(peering, rule, SourceField::made(key, "spec.exports"))
}

/// The operator's rules that mean users of another overlay, about the names that are exported to it.
fn written<'t>(plan: &Plan<'t>, node: &Name, peering: &PeeringPlan<'t>) -> Vec<Asked<'t>> {
    let mut rules = Vec::new();
    let policies = policies(plan, node).into_iter();
    for (resource, policy) in policies.filter(|(resource, _)| resource.key().is_operators()) {
        let json = &resource.written()["rules"];
        for (index, rule) in policy.rules.iter().enumerate() {
            let meant = ForeignUsers::of(plan.tree, rule, peering);
            let users = match rule.allow {
                Some(true) => meant.named,
                _ => meant.all(),
            };
            let targets = targets(plan, node, rule, peering);
            if users.is_empty() || targets.is_empty() {
                continue;
            }
            let name = rule_name(resource, policy, index);
            let mut copy = named(format!("peering/{}/{name}", peering.key.name), &json[index]);
            copy["match"]["target"] = targets.into();
            copy["match"]["user"] = json!(users);
            let source = SourceField::copied(resource.key(), element("spec.rules", index));
            rules.extend(asked(peering, copy, source));
        }
    }
    rules
}

/// The exported targets that a rule is about, as users of another overlay ask for them.
fn targets(
    plan: &Plan<'_>,
    node: &Name,
    rule: &PolicyRule,
    peering: &PeeringPlan<'_>,
) -> Vec<String> {
    let mut found: Vec<TargetMatch> = Vec::new();
    for export in peering.exports_at(node) {
        let asked = export.targets(&plan.domain);
        let Some(written) = rule.matches.target.as_deref() else {
            found.extend(asked);
            continue;
        };
        // Some write a name as it is here, others as it is asked for there.
        for written in written {
            let own = export.own.iter().filter_map(|own| meet(own, written));
            found.extend(own.filter_map(|target| exported(&target, &plan.domain)));
            found.extend(asked.iter().filter_map(|asked| meet(asked, written)));
        }
    }
    let texts: BTreeSet<String> = found.iter().map(ToString::to_string).collect();
    texts.into_iter().collect()
}

/// The users of another overlay whom a condition means.
#[derive(Debug, Default)]
struct ForeignUsers {
    /// Those whom it names as such.
    named: BTreeSet<String>,
    /// Those whom it means besides.
    others: BTreeSet<String>,
}

impl ForeignUsers {
    fn of(tree: &Tree, rule: &PolicyRule, peering: &PeeringPlan<'_>) -> Self {
        let mut found = Self::default();
        let everyone = peering.spec.everyone();
        let Some(users) = rule.matches.user.as_deref() else {
            found.others.insert(everyone);
            return found;
        };
        for user in users {
            match user {
                UserMatch::Pattern(pattern) => found.add(tree, pattern, &everyone[1..]),
                // Whether an expression means them cannot be told: it counts against them.
                UserMatch::Regex(_) => drop(found.others.insert(everyone.clone())),
                UserMatch::Unknown => {}
            }
        }
        found
    }

    /// `suffix` ends the names of users of the other overlay, and of no one else.
    fn add(&mut self, tree: &Tree, pattern: &UserPattern, suffix: &str) {
        let text = pattern.to_string();
        if let Some(group) = pattern.group() {
            let key = group.parse().ok().map(|name| Key::new(Kind::Group, name));
            let group = key.and_then(|key| tree.resource(&key));
            if let Some(Spec::Group(group)) = group.map(|group| group.spec()) {
                let members = group
                    .members
                    .iter()
                    .filter(|member| member.group().is_none());
                members.for_each(|member| self.add(tree, member, suffix));
            }
        } else if pattern.claim_group().is_some() {
            self.others.insert(format!("*{suffix}"));
        } else if text.ends_with(suffix) {
            self.named.insert(text);
        } else if let Some((prefix, end)) = text.split_once('*')
            && suffix.ends_with(end)
        {
            self.others.insert(format!("{prefix}*{suffix}"));
        }
    }

    fn all(self) -> BTreeSet<String> {
        self.named.into_iter().chain(self.others).collect()
    }
}

fn asked<'t>(peering: &PeeringPlan<'t>, json: Json, source: SourceField) -> Option<Asked<'t>> {
    let rule = serde_json::from_value(json.clone()).ok()?;
    Some(Asked {
        json,
        rule,
        tenant: &peering.key.name,
        source: None,
        border: Some(source),
        groups: BTreeSet::new(),
    })
}
