//! What in a sound document is probably not meant: it holds, and does nothing.

use std::collections::HashSet;

use hermes_config::child;
use hermes_config::model::{
    Chain, Document, HostMatch, Match, PolicyDefault, PolicyRule, UserMatch,
};

use crate::chains::{chain_of, named};
use crate::lint::{Finding, each_match};

/// Everything that does nothing, by subject.
pub fn warn(document: &Document) -> Vec<Finding> {
    unused_upstreams(document)
        .chain(expose_to(document))
        .chain(unused_names(document))
        .chain(one_sided(document))
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

/// Groups and services that nothing names.
fn unused_names(document: &Document) -> impl Iterator<Item = Finding> {
    let mut groups = HashSet::new();
    let mut services = HashSet::new();
    each_match(document, |_, matches| {
        for user in matches.user.iter().flatten() {
            if let UserMatch::Pattern(pattern) = user {
                groups.extend(pattern.group().map(str::to_owned));
            }
        }
        for target in matches.target.iter().flatten() {
            if let HostMatch::Service(name) = &target.host {
                services.insert(name.clone());
            }
        }
    });

    let broadcasts = document
        .routes
        .iter()
        .filter_map(|route| route.broadcast.as_ref());
    let users = broadcasts.flat_map(|broadcast| &broadcast.users);
    let spoken_for = document.peers.values().flat_map(|peer| &peer.speaks_for);
    groups.extend(
        users
            .chain(spoken_for)
            .filter_map(|pattern| pattern.group().map(str::to_owned)),
    );

    let groups = document
        .groups
        .keys()
        .filter(move |name| !groups.contains(*name))
        .map(|name| child("groups", name));
    let services = document
        .services
        .keys()
        .filter(move |name| !services.contains(*name))
        .map(|name| child("services", name));
    groups.chain(services).map(|path| {
        finding(
            path,
            "nothing names this",
            "name it in a `match`, or remove it",
        )
    })
}

/// A policy that decides the same about everything.
fn one_sided(document: &Document) -> Option<Finding> {
    let policy = document.policy.as_ref()?;
    let allows = |rule: &&PolicyRule| rule.allow == Some(true);
    let is_any = |rule: &PolicyRule| rule.matches == Match::default() && rule.hours.is_none();
    let denies = policy.rules.iter().any(|rule| rule.denial().is_some());

    let (reason, remedy) = match policy.default {
        PolicyDefault::Deny if !policy.rules.iter().any(|rule| allows(&rule)) => (
            "the policy permits nothing",
            "add a rule with `allow: true`, or write `default: allow`",
        ),
        PolicyDefault::Allow if !denies => (
            "the policy permits everything",
            "add a rule with `deny: true`, or write `default: deny`",
        ),
        _ if !denies && policy.rules.iter().filter(allows).any(is_any) => (
            "the policy permits everything: one of its rules allows whatever comes",
            "give that rule a `match`",
        ),
        _ => return None,
    };

    Some(finding("policy".to_owned(), reason, remedy))
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
