//! What in a sound document is probably not meant: it holds, and does nothing.

use hermes_config::child;
use hermes_config::model::{Chain, Document};

use crate::chains::{chain_of, named};
use crate::lint::Finding;

/// Everything that does nothing, by subject.
pub fn warn(document: &Document) -> Vec<Finding> {
    unused_upstreams(document)
        .chain(expose_to(document))
        .collect()
}

fn unused_upstreams(document: &Document) -> impl Iterator<Item = Finding> {
    let mut used = named(document);
    used.extend(
        document
            .routes
            .iter()
            .filter_map(chain_of)
            .flat_map(Chain::hops)
            .cloned(),
    );

    let attaching = document
        .listeners
        .values()
        .filter_map(|listener| listener.attach.as_ref());
    used.extend(attaching.map(|attach| attach.upstream().to_owned()));
    document
        .upstreams
        .keys()
        .filter(move |name| !used.contains(*name))
        .map(|name| {
            let remedy = "name it in a route, or remove it";
            finding(
                child("upstreams", name),
                "nothing uses this upstream",
                remedy,
            )
        })
}

/// Only an origin is shown less than the whole.
fn expose_to(document: &Document) -> impl Iterator<Item = Finding> {
    let useless = document
        .routes
        .iter()
        .enumerate()
        .filter(|(_, route)| !route.expose.is_empty() && route.terminate.is_none());
    useless.map(|(index, route)| {
        let reason = match &route.to {
            Some(_) => "`expose` does nothing beside `to`: the next proxy sees every overlay field",
            None => "`expose` does nothing here: there is no origin that could see a field",
        };
        finding(
            format!("routes[{index}].expose"),
            reason,
            "remove it; it belongs where the overlay ends (`terminate`)",
        )
    })
}

fn finding(path: String, reason: &str, remedy: &str) -> Finding {
    Finding {
        path,
        reason: reason.to_owned(),
        remedy: Some(remedy.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_nothing_is_found_and_nothing_else() {
        let upstream = json!({ "endpoints": ["a:1"] });
        let document: Document = serde_json::from_value(json!({
            "version": 1,
            "listeners": { "reach": { "attach": "joined" } },
            "authorize": [{ "name": "asks", "upstream": "asked" }],
            "routes": [
                { "to": ["first", "second"], "expose": ["user"] },
                { "to": { "heavy": 1, "light": 1 } },
                { "terminate": "end", "expose": ["user"] },
                { "terminate": true, "expose": ["user"], "broadcast": { "users": ["a"], "upstreams": ["copied"] } },
                { "respond": { "status": 200 }, "expose": ["user"] },
            ],
            "upstreams": {
                "first": upstream, "second": upstream, "heavy": upstream, "light": upstream, "end": upstream, "copied": upstream,
                "joined": { "endpoints": ["a:1"], "via": "proxy" }, "proxy": upstream, "asked": upstream, "unused": upstream,
            },
        }))
        .unwrap();
        let paths: Vec<String> = warn(&document)
            .into_iter()
            .map(|finding| finding.path)
            .collect();
        assert_eq!(
            paths,
            ["upstreams.unused", "routes[0].expose", "routes[4].expose"]
        );
    }
}
