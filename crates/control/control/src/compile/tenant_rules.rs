//! Rules of tenants besides the operator: each about its own users and names alone.
//!
//! The list of a node has first the rules about names with their tenant, such as `VIDEO.red`, then refusals of names that mean two
//! things for a user of two tenants, then the rules about plain names. What no rule of a tenant allows is refused, whatever the operator's
//! rules say that come after them.

use std::collections::BTreeSet;

use hermes_api::Name;
use hermes_config::model::TargetMatch;
use serde_json::{Value as Json, json};

use super::plan::Plan;
use super::policy::{Asked, WrittenRule, named, policies, rule_name};
use super::routes::{json_of, with_qualified};
use super::targets::meet;
use super::tenants::{NamedGroup, TenantPlan};

/// A tenant at a node.
struct Known<'a, 't> {
    tenant: &'a TenantPlan<'t>,
    /// The targets of its names that lead through the node.
    targets: Vec<TargetMatch>,
    /// Whether some of its users are of another tenant, too.
    has_shared_users: bool,
}

/// The rules of all tenants about names that a node knows.
pub(super) fn rules<'t>(plan: &Plan<'t>, node: &Name) -> Vec<Asked<'t>> {
    let here = plan
        .others()
        .map(|tenant| (tenant, targets_at(plan, tenant, node)));
    let here: Vec<_> = here
        .filter(|(tenant, targets)| !targets.is_empty() && !is_empty(tenant))
        .collect();
    // Only tenants that the node knows count: a tenant's own node knows no other, and others change nothing there.
    let is_shared = |tenant: &TenantPlan<'t>| {
        let others = here.iter().filter(|(other, _)| other.name != tenant.name);
        others
            .into_iter()
            .any(|(other, _)| !tenant.shared_with(other).is_empty())
    };
    let known: Vec<Known<'_, 't>> = here
        .iter()
        .map(|(tenant, targets)| Known {
            tenant,
            targets: targets.clone(),
            has_shared_users: is_shared(tenant),
        })
        .collect();

    let mut rules = Vec::new();
    for known in known.iter().filter(|known| known.has_shared_users) {
        let form = |targets: Vec<TargetMatch>| known.tenant.qualified(&targets);
        let named = block(plan, node, known, form).into_iter();
        rules.extend(named.map(Asked::renamed));
    }
    for (index, one) in known.iter().enumerate() {
        rules.extend(
            known[index + 1..]
                .iter()
                .filter_map(|other| ambiguous(one, other)),
        );
    }
    for known in &known {
        rules.extend(block(plan, node, known, |targets| {
            match known.has_shared_users {
                true => targets,
                false => with_qualified(known.tenant, targets),
            }
        }));
    }
    rules
}

impl Asked<'_> {
    /// The same rule about names with their tenant: a node has no two rules of one name.
    fn renamed(mut self) -> Self {
        let name = self.json["name"].as_str().unwrap_or_default();
        self.json["name"] = format!("{name}.{}", self.tenant).into();
        self
    }
}

fn is_empty(tenant: &TenantPlan<'_>) -> bool {
    tenant.members.as_ref().is_none_or(BTreeSet::is_empty)
}

/// The targets of a tenant's names and routes that lead through a node.
pub(super) fn targets_at(
    plan: &Plan<'_>,
    tenant: &TenantPlan<'_>,
    node: &Name,
) -> Vec<TargetMatch> {
    let names = plan.names_at(node);
    let names = names.filter(|(name, _)| name.key.tenant == *tenant.name);
    let mut targets: Vec<TargetMatch> = names.flat_map(|(name, _)| name.targets.clone()).collect();
    let detours = plan.detours.iter();
    let here = detours
        .filter(|detour| detour.key.tenant == *tenant.name && detour.steps.contains_key(node));
    for detour in here {
        let own = plan.targets_of(tenant);
        targets.extend(tenant.narrowed(detour.spec.matches.target.as_deref(), &own));
    }
    let mut known = Vec::new();
    for target in targets {
        if !known.contains(&target) {
            known.push(target);
        }
    }
    known
}

/// The rules of a tenant's policies about these targets, in the form that `form` gives them, and the end of them all.
fn block<'t>(
    plan: &Plan<'t>,
    node: &Name,
    known: &Known<'_, 't>,
    form: impl Fn(Vec<TargetMatch>) -> Vec<TargetMatch>,
) -> Vec<Asked<'t>> {
    let tenant = known.tenant;
    let mut rules = Vec::new();
    let policies = policies(plan, node).into_iter();
    for (resource, policy) in policies.filter(|(resource, _)| resource.key().tenant == *tenant.name)
    {
        let written = &resource.written()["rules"];
        for (index, rule) in policy.rules.iter().enumerate() {
            let targets = form(tenant.narrowed(rule.matches.target.as_deref(), &known.targets));
            let users = tenant.users(rule.matches.user.as_deref());
            if targets.is_empty() || users.texts.is_empty() {
                continue;
            }
            let mut json = named(rule_name(resource, policy, index), &written[index]);
            json["match"]["target"] = json_of(&targets);
            json["match"]["user"] = users.json();
            let source = Some(WrittenRule { resource, index });
            rules.extend(asked(tenant.name, json, source, users.groups));
        }
    }

    // Otherwise the operator's rules would decide, who does not know of these names.
    let users = tenant.users(None);
    let targets = form(known.targets.clone());
    if !targets.is_empty() {
        let reason = format!("no rule of the tenant {} allows it", tenant.name);
        let rest = json!({
            "name": format!("{}/rest", tenant.name),
            "match": { "target": json_of(&targets), "user": users.json() },
            "deny": { "reason": reason },
        });
        rules.extend(asked(tenant.name, rest, None, users.groups));
    }
    rules
}

/// The refusal of names that two tenants have, for users of both.
fn ambiguous<'t>(one: &Known<'_, 't>, other: &Known<'_, 't>) -> Option<Asked<'t>> {
    let users = one.tenant.shared_with(other.tenant);
    let mut targets: Vec<TargetMatch> = Vec::new();
    for own in &one.targets {
        let met = other.targets.iter().filter_map(|other| meet(own, other));
        for target in met {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    if users.is_empty() || targets.is_empty() {
        return None;
    }
    let [one, other] = [one.tenant.name, other.tenant.name];
    let reason = format!(
        "the tenants {one} and {other} both have this name: add `.{one}` or `.{other}` to it"
    );
    let rule = json!({
        "name": format!("{one}+{other}"),
        "match": { "target": json_of(&targets), "user": users },
        "deny": { "reason": reason },
    });
    asked(one, rule, None, BTreeSet::new())
}

fn asked<'t>(
    tenant: &'t Name,
    json: Json,
    source: Option<WrittenRule<'t>>,
    groups: BTreeSet<NamedGroup>,
) -> Option<Asked<'t>> {
    let rule = serde_json::from_value(json.clone()).ok()?;
    Some(Asked {
        json,
        rule,
        tenant,
        source,
        border: None,
        groups,
    })
}
