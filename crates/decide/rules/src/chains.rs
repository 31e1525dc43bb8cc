//! Chains of next proxies: `to: [a, b]` means `b`, reached through `a`.

use std::collections::HashSet;

use hermes_config::model::{Chain, Document, Hops, Route, Terminate, Upstream};

/// Hops of a chain, and proxies that one connection passes on its way through `via`.
#[doc(alias = "bound")]
pub const MOST: usize = 4;

/// Gives the document an upstream for each hop of a chain as it is reached there: `a > b` is `b` with `via: a`. One that a
/// chain alone mentions, after its first hop, is not reached directly and goes.
pub fn expand(document: &mut Document) {
    let chains: Vec<Chain> = document
        .routes
        .iter()
        .filter_map(chain_of)
        .cloned()
        .collect();

    let mut behind = HashSet::new();
    for (hop, way, name) in chains.iter().flat_map(Chain::links) {
        let Some(hop) = document.upstreams.get_key_value(hop) else {
            continue;
        };
        let reached = Upstream {
            via: Some(way),
            ..hop.1.clone()
        };

        let hop = hop.0.clone();
        behind.insert(hop);
        document.upstreams.insert(name, reached);
    }

    let direct = named(document);
    let only_behind: Vec<String> = behind
        .into_iter()
        .filter(|name| !direct.contains(name))
        .collect();

    for name in only_behind {
        document.upstreams.shift_remove(&name);
    }
}

/// The chain that a route goes through.
pub(crate) fn chain_of(route: &Route) -> Option<&Chain> {
    match &route.to {
        Some(Hops::Chain(chain)) => Some(chain),
        _ => None,
    }
}

/// The upstreams that are reached as the file says.
pub(crate) fn named(document: &Document) -> HashSet<String> {
    let routes = document.routes.iter().flat_map(|route| {
        let to: Vec<&String> = match &route.to {
            Some(Hops::One(name)) => vec![name],
            Some(Hops::Split(split)) => split.keys().collect(),
            Some(Hops::Chain(chain)) => chain.hops().first().into_iter().collect(),
            None => Vec::new(),
        };

        let end = match &route.terminate {
            Some(Terminate::Upstream(name)) => Some(name),
            _ => None,
        };

        let copied = route
            .broadcast
            .iter()
            .flat_map(|broadcast| &broadcast.upstreams)
            .flat_map(|names| names.iter());

        to.into_iter().chain(end).chain(copied)
    });

    let via = document
        .upstreams
        .values()
        .filter_map(|upstream| upstream.via.as_ref());
    let asked = document
        .authorize
        .iter()
        .filter_map(|authorize| authorize.upstream.as_ref());

    routes.chain(via).chain(asked).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hop_behind_others_is_reached_through_them_only() {
        let to = |to| json!({ "to": to });
        let mut document: Document = serde_json::from_value(json!({
            "version": 1,
            "listeners": {},
            "routes": [to(json!(["a", "b", "c"])), to(json!("c")), to(json!(["a"]))],
            "upstreams": {
                "a": { "endpoints": ["a:1"] }, "b": { "endpoints": ["b:1"] },
                "c": { "endpoints": ["c:1"] }, "unused": { "endpoints": ["d:1"] },
            },
        }))
        .unwrap();
        expand(&mut document);
        let ways: Vec<_> = document
            .upstreams
            .iter()
            .map(|(name, upstream)| (name.as_str(), upstream.via.as_deref()))
            .collect();
        let expected = [
            ("a", None),
            ("c", None),
            ("unused", None),
            ("a > b", Some("a")),
            ("a > b > c", Some("a > b")),
        ];
        assert_eq!(ways, expected);
    }
}
