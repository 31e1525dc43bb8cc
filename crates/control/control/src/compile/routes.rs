//! Routes of a proxy: detours first, then names.

use hermes_api::Name;
use hermes_config::model::UserMatch;
use serde_json::{Value as Json, json};

use super::detour::{Detour, Step};
use super::draft::Draft;
use super::plan::{NamePlan, Plan, ServicePlan};
use super::source_map::SourceField;
use super::upstreams;

/// Adds the routes of a node, and the upstreams that they name.
pub(super) fn add(plan: &Plan<'_>, node: &Name, draft: &mut Draft) {
    for detour in &plan.detours {
        if let Some(step) = detour.steps.get(node) {
            add_detour(plan, node, detour, step, draft);
        }
    }
    for (name, service) in plan.names_at(node) {
        add_name(plan, node, name, service, draft);
    }

    // A document needs a route, and a client a reason.
    if draft.lacks("routes") {
        let respond =
            json!({ "status": 404, "body": "no name of the overlay leads through this node\n" });
        draft.push(
            "routes",
            json!({ "name": "nothing", "respond": respond }),
            None,
        );
    }
}

fn add_detour(
    plan: &Plan<'_>,
    node: &Name,
    detour: &Detour<'_>,
    step: &Step<'_>,
    draft: &mut Draft,
) {
    let written = detour.resource.written();
    let name = format!("route/{}", detour.key.name);
    let mut route = json!({ "name": name, "match": written["match"] });
    if let Some(timeouts) = written.get("timeouts") {
        route["timeouts"] = timeouts.clone();
    }
    // If every node on the way tried again, their attempts would multiply.
    let is_ingress = plan.graph.node(node).is_some_and(|node| node.ingress);
    if let Some(retry) = written.get("retry").filter(|_| is_ingress) {
        route["retry"] = retry.clone();
    }
    let service = plan.service(&detour.spec.to);
    match (step, service) {
        (Step::Forward(hops), _) => route["to"] = upstreams::next(plan, node, hops, draft).into(),
        (Step::Terminate, Some(service)) => terminate(service, node, &mut route, draft),
        (Step::Terminate, None) => return,
    }
    note_groups(
        detour.spec.matches.user.as_deref().unwrap_or_default(),
        draft,
    );
    // The keys of the route are those of the resource's spec, but for the name and the next hop.
    draft.push(
        "routes",
        route,
        Some(SourceField::copied(detour.key, "spec")),
    );
}

fn add_name(
    plan: &Plan<'_>,
    node: &Name,
    name: &NamePlan<'_>,
    service: &ServicePlan<'_>,
    draft: &mut Draft,
) {
    let mut matches = json!({ "target": targets(name) });
    if let Some(users) = name.resource.written().get("for") {
        matches["user"] = users.clone();
        note_groups(name.spec.users.as_deref().unwrap_or_default(), draft);
    }
    let mut route = json!({ "name": name.key.name, "match": matches });
    if service.ways.is_goal(node) {
        terminate(service, node, &mut route, draft);
    } else {
        let hops = service.ways.hops(&plan.graph, node);
        route["to"] = upstreams::next(plan, node, &hops, draft).into();
    }
    draft.push("routes", route, Some(SourceField::made(name.key, "spec")));
}

fn targets(name: &NamePlan<'_>) -> Json {
    match name.targets.as_slice() {
        [only] => only.to_string().into(),
        several => several.iter().map(ToString::to_string).collect(),
    }
}

fn terminate(service: &ServicePlan<'_>, node: &Name, route: &mut Json, draft: &mut Draft) {
    route["terminate"] = upstreams::servers(service, node, draft).into();
    if let Some(expose) = service.resource.written().get("expose") {
        route["expose"] = expose.clone();
    }
}

/// Remembers the groups among users: the document has to say who is in them.
pub(super) fn note_groups(users: &[UserMatch], draft: &mut Draft) {
    let patterns = users.iter().filter_map(|user| match user {
        UserMatch::Pattern(pattern) => pattern.group(),
        UserMatch::Regex(_) | UserMatch::Unknown => None,
    });
    draft.groups.extend(patterns.map(str::to_owned));
}
