//! A document without what could not be read, such that nothing false follows from what is not there.
//!
//! What is null goes: a key, an element of a list. Entries that have a name or a position keep it, so that others can
//! refer to them, and where something would be concluded from an absence, a stand-in prevents that.

use serde_json::{Map, Value as Json, json};

use crate::lost::Lost;
use crate::path::{child, element};
use crate::schema::keep_said;

/// Keys of a route that say what it does.
const ACTIONS: [&str; 4] = ["to", "terminate", "respond", "redirect"];

/// Mends the JSON of a document whose `lost` parts became null.
pub(crate) fn mend(root: &mut Map<String, Json>, lost: &Lost) {
    root.insert("version".to_owned(), json!(1));
    for (section, stand_in) in [
        ("listeners", json!({})),
        ("upstreams", json!({ "endpoints": [] })),
        ("peers", json!({ "certificate": [] })),
    ] {
        for (_, entry) in root
            .get_mut(section)
            .and_then(Json::as_object_mut)
            .into_iter()
            .flatten()
        {
            fill(entry, &stand_in);
        }
    }

    for (name, listener) in root
        .get_mut("listeners")
        .and_then(Json::as_object_mut)
        .into_iter()
        .flatten()
    {
        mend_listener(listener, &child("listeners", name), lost);
    }

    for (index, route) in root
        .get_mut("routes")
        .and_then(Json::as_array_mut)
        .into_iter()
        .flatten()
        .enumerate()
    {
        fill(route, &json!({}));
        mend_route(route, &element("routes", index), lost);
    }

    root.retain(|_, value| keep_said(value));
}

fn fill(value: &mut Json, stand_in: &Json) {
    if value.is_null() {
        *value = stand_in.clone();
    }
}

/// Whether authentication is configured is unknown while its key is unreadable.
fn mend_listener(listener: &mut Json, path: &str, lost: &Lost) {
    if ["public", "auth"]
        .into_iter()
        .any(|key| lost.touches(&child(path, key)))
    {
        listener["public"] = json!(true);
    }
}

/// If a route's action or conditions could not be read, no one knows whether it does nothing, or
/// takes what another would: it gets some action, and a condition of its own that no other route
/// implies.
fn mend_route(route: &mut Json, path: &str, lost: &Lost) {
    let is_lost = |key: &str| lost.touches(&child(path, key));
    let acts = ACTIONS
        .into_iter()
        .any(|key| route.get(key).is_some_and(|action| !action.is_null()));
    if !acts && ACTIONS.into_iter().any(is_lost) {
        route["terminate"] = json!(true);
    }

    if is_lost("match") {
        if !route["match"].is_object() {
            route["match"] = json!({});
        }
        route["match"]["protocol"] = json!(path);
    }
}
