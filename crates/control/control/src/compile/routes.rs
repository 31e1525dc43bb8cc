//! Routes of a proxy: detours first, then names.

use std::collections::BTreeSet;

use hermes_api::Name;
use hermes_config::model::{Route, TargetMatch, UserMatch};
use hermes_rules::shadow::shadows;
use serde_json::{Value as Json, json};

use super::Read;
use super::detour::{Detour, Step};
use super::draft::Draft;
use super::plan::{NamePlan, Plan, ServicePlan};
use super::source_map::SourceField;
use super::tenant_rules::targets_at;
use super::tenants::{NamedGroup, TenantPlan};
use super::upstreams::{self, Hops};
use super::{peerings, slices};
use crate::resources::{Key, Kind};

/// Adds the routes of a node, and the upstreams that they name.
pub(super) fn add(plan: &Plan<'_>, node: &Name, draft: &mut Draft) {
    peerings::add_routes(plan, node, draft);
    slices::add_routes(plan, node, draft);
    let mut made = Vec::new();
    // A tenant's users mean its names before those of the operator.
    for is_operators in [false, true] {
        for detour in &plan.detours {
            let step = detour.steps.get(node);
            if let Some(step) = step.filter(|_| detour.key.is_operators() == is_operators) {
                made.extend(of_detour(plan, node, detour, step, draft));
            }
        }
        let names = plan.names_at(node);
        for (name, service) in names.filter(|(name, _)| name.key.is_operators() == is_operators) {
            made.extend(of_name(plan, node, name, service, draft));
        }
        if !is_operators {
            made.extend(tenant_ends(plan, node, draft));
        }
    }
    for route in without_hidden(made) {
        draft.push("routes", route.json, Some(route.source));
    }

    // A document needs a route, and a client a reason.
    if draft.lacks("routes") {
        draft.push("routes", nothing(), None);
    }
}

/// The route of a node that knows no name.
pub(super) fn nothing() -> Json {
    let respond =
        json!({ "status": 404, "body": "no name of the overlay leads through this node\n" });
    json!({ "name": "nothing", "respond": respond })
}

/// A route in the making.
struct MadeRoute {
    json: Json,
    source: SourceField,
}

/// Routes without those that another tenant's routes hide: their author cannot know, and their users mean the others.
fn without_hidden(mut routes: Vec<MadeRoute>) -> Vec<MadeRoute> {
    let tenant = |route: &MadeRoute| route.source.key.tenant.clone();
    if routes
        .windows(2)
        .all(|pair| tenant(&pair[0]) == tenant(&pair[1]))
    {
        return routes;
    }
    let typed = routes
        .iter()
        .map(|route| serde_json::from_value(route.json.clone()));
    let typed: Vec<Route> = typed.collect::<Result<_, _>>().unwrap_or_default();
    let hidden = shadows(&typed).into_iter();
    let is_made = |index: usize| routes[index].source.key.kind == Kind::Tenant;
    let hidden = hidden.filter(|shadow| {
        is_made(shadow.dead) || tenant(&routes[shadow.dead]) != tenant(&routes[shadow.by])
    });
    let hidden: BTreeSet<usize> = hidden.map(|shadow| shadow.dead).collect();
    let mut index = 0..;
    routes.retain(|_| index.next().is_none_or(|index| !hidden.contains(&index)));
    routes
}

/// The ends of tenants' routes. A name that means something for some members would mean the operator's for the others, whom the rules
/// of the tenant let pass.
fn tenant_ends(plan: &Plan<'_>, node: &Name, draft: &mut Draft) -> Vec<MadeRoute> {
    let mut ends = Vec::new();
    for tenant in plan.others() {
        let names = plan.names_at(node).map(|(name, _)| name);
        let own = names.filter(|name| name.key.tenant == *tenant.name);
        let all: Vec<&TargetMatch> = own
            .filter(|name| name.spec.users.is_none())
            .flat_map(|name| &name.targets)
            .collect();
        let mut targets = targets_at(plan, tenant, node);
        targets.retain(|target| !all.contains(&target));
        let users = tenant.users(None);
        if targets.is_empty() || users.texts.is_empty() {
            continue;
        }
        let reason = format!("no name of the tenant {} is for you here\n", tenant.name);
        draft.groups.extend(users.groups.clone());
        ends.push(MadeRoute {
            json: json!({
                "name": format!("{}/rest", tenant.name),
                "match": { "target": json_of(&with_qualified(tenant, targets)), "user": users.json() },
                "respond": { "status": 404, "body": reason },
            }),
            source: SourceField::made(&Key::new(Kind::Tenant, tenant.name.clone()), "spec"),
        });
    }
    ends
}

/// The name of a route in reasons and records.
fn route_name(key: &Key, name: &str) -> String {
    match key.is_operators() {
        true => name.to_owned(),
        false => format!("{}/{name}", key.tenant),
    }
}

fn of_detour(
    plan: &Plan<'_>,
    node: &Name,
    detour: &Detour<'_>,
    step: &Step<'_>,
    draft: &mut Draft,
) -> Option<MadeRoute> {
    draft.reads.way(detour.key, &detour.spec.to);
    let written = detour.resource.written();
    let name = route_name(detour.key, &format!("route/{}", detour.key.name));
    let mut route = json!({ "name": name, "match": written["match"] });
    let users = detour.spec.matches.user.as_deref();
    match plan.tenants.get(&detour.key.tenant) {
        Some(tenant) if tenant.members.is_some() => {
            let targets = own_targets(plan, tenant, detour, draft);
            let users = tenant.users(users);
            if targets.is_empty() || users.texts.is_empty() {
                return None;
            }
            route["match"]["target"] = json_of(&with_qualified(tenant, targets));
            route["match"]["user"] = users.json();
            draft.groups.extend(users.groups);
        }
        _ => note_groups(users.unwrap_or_default(), draft),
    }
    copy_attempts(plan, node, written, &mut route);
    let service = plan.service(detour.key, &detour.spec.to);
    match (step, service) {
        (Step::Forward(hops), service) => {
            let key = detour.key;
            route["to"] = upstreams::next(plan, node, &Hops { key, hops }, draft).into();
            if let Some(service) = service {
                hide_path(service, &mut route);
            }
        }
        (Step::Terminate, Some(service)) => terminate(service, node, &mut route, draft),
        (Step::Terminate, None) => return None,
    }
    Some(MadeRoute {
        json: route,
        // The keys of the route are those of the resource's spec, but for the name and the next hop.
        source: SourceField::copied(detour.key, "spec"),
    })
}

/// The time limits and the retries of a detour, as its resource has them.
fn copy_attempts(plan: &Plan<'_>, node: &Name, written: &Json, route: &mut Json) {
    if let Some(timeouts) = written.get("timeouts") {
        route["timeouts"] = timeouts.clone();
    }
    // If every node on the way tried again, their attempts would multiply.
    let is_ingress = plan.graph.node(node).is_some_and(|node| node.ingress);
    if let Some(retry) = written.get("retry").filter(|_| is_ingress) {
        route["retry"] = retry.clone();
    }
}

fn of_name(
    plan: &Plan<'_>,
    node: &Name,
    name: &NamePlan<'_>,
    service: &ServicePlan<'_>,
    draft: &mut Draft,
) -> Option<MadeRoute> {
    draft.reads.way(name.key, &name.spec.service);
    let mut matches = json!({ "target": json_of(&name.targets) });
    let written = name.spec.users.as_deref();
    match plan.tenants.get(&name.key.tenant) {
        Some(tenant) if tenant.members.is_some() => {
            let users = tenant.users(written);
            if users.texts.is_empty() {
                return None;
            }
            matches["target"] = json_of(&with_qualified(tenant, name.targets.clone()));
            matches["user"] = users.json();
            draft.groups.extend(users.groups);
        }
        _ => {
            if let Some(users) = name.resource.written().get("for") {
                matches["user"] = users.clone();
                note_groups(written.unwrap_or_default(), draft);
            }
        }
    }
    let mut route =
        json!({ "name": route_name(name.key, name.key.name.as_str()), "match": matches });
    if service.ways.is_goal(node) {
        terminate(service, node, &mut route, draft);
    } else {
        let hops = service.ways.hops(plan.graph_of(name.key), node);
        let hops = Hops {
            key: name.key,
            hops: &hops,
        };
        route["to"] = upstreams::next(plan, node, &hops, draft).into();
        hide_path(service, &mut route);
    }
    Some(MadeRoute {
        json: route,
        source: SourceField::made(name.key, "spec"),
    })
}

/// The targets of a tenant's detour: of its own names alone, whatever its condition says.
fn own_targets(
    plan: &Plan<'_>,
    tenant: &TenantPlan<'_>,
    detour: &Detour<'_>,
    draft: &mut Draft,
) -> Vec<TargetMatch> {
    draft.reads.add(Read::NamesOf(tenant.name.clone()));
    let own = plan.targets_of(tenant);
    tenant.narrowed(detour.spec.matches.target.as_deref(), &own)
}

/// Targets, and the names by which users of several tenants say whose they mean.
pub(super) fn with_qualified(
    tenant: &TenantPlan<'_>,
    targets: Vec<TargetMatch>,
) -> Vec<TargetMatch> {
    let qualified = tenant.qualified(&targets);
    targets.into_iter().chain(qualified).collect()
}

/// As a condition says them.
pub(super) fn json_of(targets: &[TargetMatch]) -> Json {
    match targets {
        [only] => only.to_string().into(),
        several => several.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn terminate(
    service: &ServicePlan<'_>,
    node: &Name,
    route: &mut Json,
    draft: &mut Draft,
) {
    if let Some(handle) = service.resource.written().get("handle") {
        draft.reads.resource(service.key);
        route["handle"] = handle.clone();
        return;
    }
    route["terminate"] = upstreams::servers(service, node, draft).into();
    if let Some(expose) = service.resource.written().get("expose") {
        route["expose"] = expose.clone();
    }
}

/// On the way to a part of a node paths may be secrets, as those of channels are.
pub(super) fn hide_path(service: &ServicePlan<'_>, route: &mut Json) {
    if service.spec.handle.is_some() {
        route["hide_path"] = true.into();
    }
}

/// Remembers the operator's groups among users: the document has to say who is in them.
fn note_groups(users: &[UserMatch], draft: &mut Draft) {
    draft.groups.extend(groups_of(users));
}

/// The operator's groups among users.
pub(super) fn groups_of(users: &[UserMatch]) -> impl Iterator<Item = NamedGroup> {
    let patterns = users.iter().filter_map(|user| match user {
        UserMatch::Pattern(pattern) => pattern.group(),
        UserMatch::Regex(_) | UserMatch::Unknown => None,
    });
    let names = patterns.filter_map(|name| name.parse().ok());
    names.map(|name| NamedGroup::Resource(Key::new(Kind::Group, name)))
}
