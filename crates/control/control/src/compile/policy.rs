//! The policy of a proxy: the rules about all that it knows.

use hermes_api::Name;
use hermes_config::model::{HostMatch, PolicyRule, TargetMatch};
use serde_json::{Map, Value as Json, json};

use super::draft::Draft;
use super::plan::Plan;
use super::proxy::OVERLAY;
use super::routes::note_groups;
use super::source_map::SourceField;
use crate::resources::{Kind, PolicySpec, Resource, Spec};

/// Adds the policy of a node, which denies everything that no rule allows.
pub(super) fn add(plan: &Plan<'_>, node: &Name, draft: &mut Draft) {
    let mut rules: Vec<(Json, Option<SourceField>)> = Vec::new();
    if plan
        .graph
        .node(node)
        .is_some_and(|spec| spec.listen.is_some())
    {
        rules.push((strangers(), None));
    }

    let known = known_targets(plan, node);
    for (resource, policy) in policies(plan, node) {
        let written = &resource.written()["rules"];
        for (index, rule) in policy.rules.iter().enumerate() {
            if !concerns(rule, known.as_deref()) {
                continue;
            }
            let name = rule_name(resource, policy, index);
            let json = named(name, &written[index]);
            // Two policies may say the same; the second one would be a rule that never decides.
            if rules.iter().any(|(other, _)| is_alike(other, &json)) {
                continue;
            }
            note_groups(rule.matches.user.as_deref().unwrap_or_default(), draft);
            let source = SourceField::copied(resource.key(), format!("spec.rules[{index}]"));
            rules.push((json, Some(source)));
        }
    }

    let mut list = Vec::with_capacity(rules.len());
    for (rule, source) in rules {
        draft.source(format!("policy.rules[{}]", list.len()), source);
        list.push(rule);
    }
    draft.set("policy", json!({ "rules": list }), None);
}

/// A certificate of the overlay that is no peer here names a user that rules do not mean.
fn strangers() -> Json {
    let reason = "the certificate is neither of a node that sends here nor of a user's device that enters here";
    json!({
        "name": "strangers",
        "match": { "listener": OVERLAY, "user": "~^spiffe://" },
        "deny": { "reason": reason },
    })
}

/// The policies that a node asks, in their order.
fn policies<'t>(plan: &Plan<'t>, node: &Name) -> Vec<(&'t Resource, &'t PolicySpec)> {
    let policies = plan.tree.of_kind(Kind::Policy);
    let policies = policies.filter_map(|resource| match resource.spec() {
        Spec::Policy(policy) => Some((resource, policy)),
        _ => None,
    });
    let mut asked: Vec<_> = policies
        .filter(|(_, policy)| policy.at.is_empty() || policy.at.contains(node))
        .collect();
    asked.sort_by_key(|(_, policy)| policy.order);
    asked
}

/// The targets that a node knows; `None` where it may meet any.
fn known_targets(plan: &Plan<'_>, node: &Name) -> Option<Vec<TargetMatch>> {
    let is_on_a_detour = plan
        .detours
        .iter()
        .any(|detour| detour.steps.contains_key(node));
    let names = plan
        .names_at(node)
        .flat_map(|(name, _)| name.targets.clone());
    (!is_on_a_detour).then(|| names.collect())
}

/// Whether a rule may be about one of these targets. A node needs no rules about names that it does not know.
fn concerns(rule: &PolicyRule, known: Option<&[TargetMatch]>) -> bool {
    match (&rule.matches.target, known) {
        (Some(targets), Some(known)) => targets
            .iter()
            .any(|target| known.iter().any(|other| may_meet(target, other))),
        _ => true,
    }
}

/// Whether an exchange may be for both. Only that two different hosts are none is certain.
fn may_meet(one: &TargetMatch, other: &TargetMatch) -> bool {
    match (&one.host, &other.host) {
        (HostMatch::Exact(one), HostMatch::Exact(other)) => one == other,
        (HostMatch::Exact(host), pattern) | (pattern, HostMatch::Exact(host)) => {
            pattern.matches(host) || matches!(pattern, HostMatch::Net(_) | HostMatch::Service(_))
        }
        _ => true,
    }
}

/// The name of a rule in reasons and records.
fn rule_name(resource: &Resource, policy: &PolicySpec, index: usize) -> String {
    let policy_name = &resource.key().name;
    match (&policy.rules[index].name, policy.rules.len()) {
        (Some(name), _) => format!("{policy_name}/{name}"),
        (None, 1) => policy_name.to_string(),
        (None, _) => format!("{policy_name}/{index}"),
    }
}

/// A rule under another name, which stands first.
fn named(name: String, rule: &Json) -> Json {
    let mut named = Map::from_iter([("name".to_owned(), Json::from(name))]);
    let others = rule.as_object().into_iter().flatten();
    let others = others.filter(|(key, _)| *key != "name");
    named.extend(others.map(|(key, value)| (key.clone(), value.clone())));
    Json::Object(named)
}

/// Whether two rules differ in their names alone.
fn is_alike(one: &Json, other: &Json) -> bool {
    let unnamed = |rule: &Json| {
        let mut rule = rule.clone();
        rule["name"] = Json::Null;
        rule
    };
    unnamed(one) == unnamed(other)
}
