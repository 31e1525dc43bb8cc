//! The policy of a proxy: the rules about all that it knows.

use std::collections::BTreeSet;

use hermes_api::Name;
use hermes_config::element;
use hermes_config::model::{HostMatch, PolicyRule};
use hermes_rules::shadow::{Shadow, shadowed_rules};
use serde_json::{Map, Value as Json, json};

use super::draft::{Draft, OVERLAY};
use super::plan::Plan;
use super::routes::groups_of;
use super::slices;
use super::source_map::SourceField;
use super::tenants::NamedGroup;
use super::{Read, attachments, foreign_rules, tenant_rules};
use crate::resources::{Kind, PolicySpec, Resource, Spec};

/// A rule of a node's policy.
pub(super) struct Asked<'t> {
    pub(super) json: Json,
    pub(super) rule: PolicyRule,
    /// The tenant that it decides for.
    pub(super) tenant: &'t Name,
    /// The rule that it was made of; `None` where no one wrote it.
    pub(super) source: Option<WrittenRule<'t>>,
    /// The place that a rule about users of another overlay comes from. These rules are asked before all others.
    pub(super) border: Option<SourceField>,
    pub(super) groups: BTreeSet<NamedGroup>,
}

/// A rule of a resource.
#[derive(Clone, Copy)]
pub(super) struct WrittenRule<'t> {
    pub(super) resource: &'t Resource,
    pub(super) index: usize,
}

/// Adds the policy of a node, which denies everything that no rule allows.
pub(super) fn add(plan: &Plan<'_>, node: &Name, draft: &mut Draft) {
    draft.reads.add(Read::Policies);
    draft.reads.add(Read::PoliciesAt(node.clone()));
    let mut list = Vec::new();
    if plan
        .graph
        .node(node)
        .is_some_and(|spec| spec.listen.is_some())
    {
        list.extend(attachments::rule(plan, node));
        list.push(strangers());
    }
    // Users of other overlays come first, so that no rule for everybody is about them; then names of tenants, so that no rule of the
    // operator decides about these.
    let mut asked = foreign_rules::rules(plan, node);
    if !asked.is_empty() {
        // Rules that name a group are about those of its members who are of another overlay.
        draft.reads.add(Read::Every(Kind::Group));
    }
    asked.extend(tenant_rules::rules(plan, node));
    asked.extend(rules(plan, node));
    let (foreign, own): (Vec<_>, Vec<_>) = needed(asked)
        .into_iter()
        .partition(|asked| asked.border.is_some());
    for asked in foreign {
        draft.source(element("policy.rules", list.len()), asked.border);
        list.push(asked.json);
    }
    slices::add_rules(plan, node, &mut list, draft);
    for asked in own {
        draft.groups.extend(asked.groups);
        let source = asked.source.map(|source| {
            let field = element("spec.rules", source.index);
            SourceField::copied(source.resource.key(), field)
        });
        draft.source(element("policy.rules", list.len()), source);
        list.push(asked.json);
    }
    draft.set("policy", json!({ "rules": list }), None);
}

/// The rules of the operator's policies about names that a node knows, in their order.
fn rules<'t>(plan: &Plan<'t>, node: &Name) -> Vec<Asked<'t>> {
    // None of the operator's names leads through a tenant's node, which is to know nothing of them.
    if !plan.tree.node_key(node).is_operators() {
        return Vec::new();
    }
    let known = KnownTargets::at(plan, node);
    let mut rules = Vec::new();
    let policies = policies(plan, node).into_iter();
    for (resource, policy) in policies.filter(|(resource, _)| resource.key().is_operators()) {
        let written = &resource.written()["rules"];
        for (index, rule) in policy.rules.iter().enumerate() {
            if known.concern(rule) {
                let name = rule_name(resource, policy, index);
                let users = rule.matches.user.as_deref().unwrap_or_default();
                rules.push(Asked {
                    json: named(name, &written[index]),
                    rule: rule.clone(),
                    tenant: &resource.key().tenant,
                    source: Some(WrittenRule { resource, index }),
                    border: None,
                    groups: groups_of(users).collect(),
                });
            }
        }
    }
    rules
}

/// The rules without those that allow what an earlier policy allows. Nodes refuse rules that never decide, and two policies may well
/// allow the same; a rule that could not deny stays, so that its author is told.
fn needed(mut rules: Vec<Asked<'_>>) -> Vec<Asked<'_>> {
    let only_allows = |rule: &PolicyRule| rule.allow == Some(true) && rule.set.is_empty();
    loop {
        let typed: Vec<PolicyRule> = rules.iter().map(|asked| asked.rule.clone()).collect();
        let shadows = shadowed_rules(&typed);
        let is_needless = |shadow: &&Shadow| {
            let dead = &rules[shadow.dead];
            let by = &rules[shadow.by];
            let (Some(one), Some(other)) = (dead.source, by.source) else {
                // No one wrote it, or what comes before it.
                return true;
            };
            // Of another tenant's rules no author can know.
            let are_strangers = dead.tenant != by.tenant;
            let are_apart = one.resource.key() != other.resource.key();
            let both_allow = only_allows(&dead.rule) && only_allows(&by.rule);
            are_strangers || (are_apart && both_allow)
        };
        let needless: BTreeSet<usize> = shadows
            .iter()
            .filter(is_needless)
            .map(|shadow| shadow.dead)
            .collect();
        if needless.is_empty() {
            return rules;
        }
        // The first rule to blame for another one may itself go: then the rule before it allows both.
        let mut index = 0..;
        rules.retain(|_| index.next().is_none_or(|index| !needless.contains(&index)));
    }
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
pub(super) fn policies<'t>(plan: &Plan<'t>, node: &Name) -> Vec<(&'t Resource, &'t PolicySpec)> {
    let policies = plan.tree.of_kind(Kind::Policy);
    let policies = policies.filter_map(|resource| match resource.spec() {
        Spec::Policy(policy) => Some((resource, policy)),
        _ => None,
    });
    let mut asked: Vec<_> = policies
        .filter(|(_, policy)| policy.at.is_empty() || policy.at.contains(node))
        .collect();
    // The sort is stable: policies of one order stay in the order of their names.
    asked.sort_by_key(|(_, policy)| policy.order);
    asked
}

/// The targets that a node knows.
struct KnownTargets {
    /// It may meet any other, too.
    has_all: bool,
    hosts: BTreeSet<String>,
    patterns: Vec<HostMatch>,
}

impl KnownTargets {
    fn at(plan: &Plan<'_>, node: &Name) -> Self {
        let mut known = Self {
            has_all: plan
                .detours
                .iter()
                .any(|detour| detour.key.is_operators() && detour.steps.contains_key(node)),
            hosts: BTreeSet::new(),
            patterns: Vec::new(),
        };
        let others = plan.peerings.iter();
        let others = others.filter(|peering| peering.passed.contains(node));
        known
            .patterns
            .extend(others.map(|peering| peering.names().host));
        let names = plan.names_at(node);
        for (name, _) in names.filter(|(name, _)| name.key.is_operators()) {
            for target in &name.targets {
                match &target.host {
                    HostMatch::Exact(host) => drop(known.hosts.insert(host.clone())),
                    pattern => known.patterns.push(pattern.clone()),
                }
            }
        }
        known
    }

    /// Whether a rule may be about one of them. A node needs no rules about names that it does not know.
    fn concern(&self, rule: &PolicyRule) -> bool {
        let mut targets = rule.matches.target.iter().flatten();
        self.has_all
            || rule.matches.target.is_none()
            || targets.any(|target| self.may_meet(&target.host))
    }

    /// Whether an exchange with one of them may be for this host. Only two different names are certain to be two hosts.
    fn may_meet(&self, host: &HostMatch) -> bool {
        let meets = |host: &str, pattern: &HostMatch| {
            pattern.matches(host) || matches!(pattern, HostMatch::Service(_))
        };
        match host {
            HostMatch::Exact(host) => {
                self.hosts.contains(host)
                    || self.patterns.iter().any(|pattern| meets(host, pattern))
            }
            pattern => {
                !self.patterns.is_empty() || self.hosts.iter().any(|host| meets(host, pattern))
            }
        }
    }
}

/// The name of a rule in reasons and records.
pub(super) fn rule_name(resource: &Resource, policy: &PolicySpec, index: usize) -> String {
    let key = resource.key();
    let policy_name = match key.is_operators() {
        true => key.name.to_string(),
        false => format!("{}/{}", key.tenant, key.name),
    };
    match (&policy.rules[index].name, policy.rules.len()) {
        (Some(name), _) => format!("{policy_name}/{name}"),
        (None, 1) => policy_name,
        (None, _) => format!("{policy_name}/{index}"),
    }
}

/// A rule under another name, which stands first.
pub(super) fn named(name: String, rule: &Json) -> Json {
    let mut named = Map::from_iter([("name".to_owned(), Json::from(name))]);
    let others = rule.as_object().into_iter().flatten();
    let others = others.filter(|(key, _)| *key != "name");
    named.extend(others.map(|(key, value)| (key.clone(), value.clone())));
    Json::Object(named)
}
