//! One route of a virtual host.

use serde_json::{Value as Json, json};

use super::cluster::Clusters;
use super::fields::FieldChanges;
use super::matcher::{self, Condition, Unmatched};
use super::scope::{Scope, Tunnels};
use super::{action, redirect};
use crate::draft::{Draft, Rank, one_or_many, put};
use crate::source::Node;

/// The context of a route.
pub(super) struct Surroundings<'a> {
    pub(super) scope: &'a Scope,
    pub(super) table: &'a Node,
    pub(super) host: &'a Node,
    /// Targets of its requests; empty for any.
    pub(super) domains: Vec<Json>,
    /// Tunnels of the connection manager.
    pub(super) tunnels: Tunnels,
    pub(super) upgrades: Vec<&'a str>,
}

/// The result of converting a route.
pub(super) struct ConvertedRoute {
    pub(super) has_websocket: bool,
    /// No request of its host passes it.
    pub(super) is_everything: bool,
}

pub(super) fn convert(
    route: &Node,
    around: &Surroundings<'_>,
    clusters: &mut Clusters,
    draft: &mut Draft,
) -> ConvertedRoute {
    route.skip(&["metadata", "stat_prefix"]);
    let acting = route.field("route");
    let own = acting.map_or(&[][..], |action| action.list("upgrade_configs"));
    let own_tunnels = Tunnels::of(own);
    let tunnels = match own.is_empty() {
        true => around.tunnels,
        false => own_tunnels,
    };

    let empty = route.field("match").is_none();
    let condition = matcher::convert(route.field("match").unwrap_or(route), tunnels);
    let mut json = json!({});
    if let Some(name) = route.text("name").filter(|name| !name.is_empty()) {
        json["name"] = json!(draft.name(name));
    }
    let matched = whole_condition(&condition, around);
    if matched != json!({}) {
        json["match"] = matched;
    }
    let upgrades: Vec<&str> = Tunnels::others(own)
        .into_iter()
        .chain(around.upgrades.iter().copied())
        .collect();
    if acting.is_some() && !condition.is_tunnel && !upgrades.is_empty() {
        json["upgrades"] = json!(upgrades);
    }

    let acted = act(
        route,
        &condition,
        own_tunnels,
        around,
        &mut json,
        clusters,
        draft,
    );
    let mut missing = condition.missing;
    missing.extend(acted.err());
    if empty {
        missing.push(Unmatched::new(route, "it has no `match`"));
    }
    if !missing.is_empty() {
        refuse(&missing, around, &mut json, draft);
    }

    let rank = match condition.is_tunnel {
        true => Rank::Tunnel,
        false => Rank::Request,
    };
    draft.route(rank, route.line, json);
    ConvertedRoute {
        has_websocket: own_tunnels.websocket,
        is_everything: condition.is_everything && !condition.is_tunnel,
    }
}

fn whole_condition(condition: &Condition, around: &Surroundings<'_>) -> Json {
    let mut matched = around.scope.condition();
    if !around.domains.is_empty() {
        put(&mut matched, "target", one_or_many(around.domains.clone()));
    }
    if let Some(own) = condition.json.as_object() {
        for (key, value) in own {
            put(&mut matched, key, value.clone());
        }
    }
    matched
}

/// In place of a route that would let through more than Envoy does.
fn refuse(missing: &[Unmatched], around: &Surroundings<'_>, json: &mut Json, draft: &mut Draft) {
    for unmatched in missing {
        let reason = format!(
            "{}; the other requests of the route are answered with 501",
            unmatched.reason
        );
        draft.left_out(
            unmatched.line,
            format!("{} route", around.scope.subject),
            reason,
        );
    }
    let mut kept = json!({});
    for key in ["name", "match"] {
        if let Some(value) = json.get(key) {
            kept[key] = value.clone();
        }
    }
    kept["respond"] = json!({ "status": 501, "body": "this route was not carried over\n" });
    *json = kept;
}

/// Puts the action, and the changes that belong to it.
fn act(
    route: &Node,
    condition: &Condition,
    tunnels: Tunnels,
    around: &Surroundings<'_>,
    json: &mut Json,
    clusters: &mut Clusters,
    draft: &mut Draft,
) -> Result<(), Unmatched> {
    let changes = changes(route, around, draft);
    changes.answer.clone().put(json);

    if let Some(direct) = route.field("direct_response") {
        json["respond"] = redirect::respond(direct)?;
        return Ok(());
    }
    if let Some(node) = route.field("redirect") {
        let replaced = condition.replaced.as_ref();
        json["redirect"] = redirect::convert(node, replaced, around.scope.is_tls)?;
        return Ok(());
    }

    let Some(node) = route.field("route") else {
        return Err(Unmatched::new(
            route,
            "this kind of action has no counterpart",
        ));
    };
    changes.put(json);
    let mut acting = action::Acting {
        node,
        condition,
        tunnels,
        subject: &around.scope.subject,
        clusters,
        draft,
    };
    acting.convert(json)
}

/// The changes of fields that hold for all routes of a host.
fn changes(route: &Node, around: &Surroundings<'_>, draft: &mut Draft) -> FieldChanges {
    let mut changes = FieldChanges::default();
    for level in [route, around.host, around.table] {
        changes.add(level, draft);
    }
    changes
}
