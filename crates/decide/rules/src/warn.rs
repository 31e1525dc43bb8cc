//! Parts of a sound document that are probably not intended: they are valid, and have no effect or
//! a bad one.

use std::collections::HashSet;

use hermes_config::model::{
    AcmeChallenge, Chain, Document, Endpoint, EndpointAddress, HostMatch, ListenAddress, Listener,
    Match, PolicyDefault, PolicyRule, TlsChoice, Upstream,
};
use hermes_config::{Problem, child};

use crate::chains::{chain_of, named};
use crate::lint::{each_match, each_user};
use crate::tcp_in_tcp::tcp_in_tcp;

/// Everything that does nothing, or nothing well, by subject.
pub fn warn(document: &Document) -> Vec<Problem> {
    unused_upstreams(document)
        .chain(expose_to(document))
        .chain(hidden_credentials(document))
        .chain(unused_names(document))
        .chain(users_that_are_groups(document))
        .chain(one_sided(document))
        .chain(tcp_in_tcp(document))
        .chain(one_sided_packets(document))
        .chain(unanswered_challenges(document))
        .chain(clear_credentials(document))
        .collect()
}

/// Tokens that an authority asks for at port 80, where no listener of this node is.
fn unanswered_challenges(document: &Document) -> impl Iterator<Item = Problem> {
    let answers = |listener: &Listener| {
        listener
            .http()
            .is_some_and(|http| http.tls.is_none() && matches!(http.address, ListenAddress::Ip(_)))
    };
    let is_answered = document.listeners.values().any(answers);
    let asked = document.listeners.iter().filter(move |(_, listener)| {
        let acme = listener.tls().and_then(|tls| tls.acme.as_deref());
        !is_answered && acme.is_some_and(|acme| acme.challenge == AcmeChallenge::Http01)
    });
    asked.map(|(name, _)| {
        Problem::new(
            format!("{}.tls.acme.challenge", child("listeners", name)),
            "no listener without TLS can answer the authority, which asks at port 80",
        )
        .remedy("add one: `http: 0.0.0.0:80`, with `public: true` and `gateway: true`")
    })
}

fn unused_upstreams(document: &Document) -> impl Iterator<Item = Problem> {
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
        .filter_map(|listener| listener.attach());
    used.extend(attaching.map(|attach| attach.upstream().to_owned()));
    document
        .upstreams
        .keys()
        .filter(move |name| !used.contains(*name))
        .map(|name| {
            let remedy = "name it in a route, or remove it";
            Problem::new(child("upstreams", name), "nothing uses this upstream").remedy(remedy)
        })
}

/// Only an origin is shown less than the whole.
fn expose_to(document: &Document) -> impl Iterator<Item = Problem> {
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
        Problem::new(format!("routes[{index}].expose"), reason)
            .remedy("remove it; it belongs where the overlay ends (`terminate`)")
    })
}

/// Credentials among the overlay fields, which the origins of a route do not see: what a client, a rule or an authorisation server says in
/// them is said in vain there.
fn hidden_credentials(document: &Document) -> impl Iterator<Item = Problem> {
    const CREDENTIALS: [&str; 2] = ["authorization", "cookie"];
    let ends = || {
        let routes = document.routes.iter();
        routes.filter(|route| route.terminate.is_some())
    };
    let hides =
        move |name: &str| ends().any(|route| !route.expose.iter().any(|field| field.matches(name)));

    let fields = document.fields.iter().enumerate();
    fields.flat_map(move |(index, field)| {
        let hidden = CREDENTIALS
            .into_iter()
            .filter(move |name| field.matches(name) && hides(name));
        hidden.map(move |name| {
            Problem::new(format!("fields[{index}]"), format!(
                    "`{name}` is an overlay field here: clients cannot say it, and origins do not see it, though a rule or a filter sets it"
                )).remedy(format!(
                    "leave it out of `fields`: `set` and `allow_fields` work without; or let routes `expose: [{name}]`"
                ))
        })
    })
}

/// Groups and services that nothing names.
fn unused_names(document: &Document) -> impl Iterator<Item = Problem> {
    let mut groups = HashSet::new();
    let mut services = HashSet::new();
    each_user(document, |_, pattern, _| {
        groups.extend(pattern.group().map(str::to_owned));
    });
    each_match(document, |_, matches| {
        for target in matches.target.iter().flatten() {
            if let HostMatch::Service(name) = &target.host {
                services.insert(name.clone());
            }
        }
    });

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
        Problem::new(path, "nothing names this").remedy("name it in a `match`, or remove it")
    })
}

/// Users who are called as a group is, which is probably meant: `user: dba` where there is `group:dba` alone.
fn users_that_are_groups(document: &Document) -> impl Iterator<Item = Problem> {
    let mut members: HashSet<&str> = document.users.keys().map(String::as_str).collect();
    let listed = document.groups.values().flatten();
    members.extend(listed.filter_map(|pattern| pattern.exact()));

    let mut found = Vec::new();
    each_user(document, |path, pattern, _| {
        let name = pattern.exact().unwrap_or_default();
        if document.groups.contains_key(name) && !members.contains(name) {
            let reason = format!("this means a user called {name}; there is a group of that name");
            let remedy = format!("write group:{name} for its members");
            found.push(Problem::new(path, reason).remedy(remedy));
        }
    });
    found.into_iter()
}

/// A policy that decides the same about everything.
fn one_sided(document: &Document) -> Option<Problem> {
    let policy = document.policy.as_ref()?;
    let allows = |rule: &&PolicyRule| rule.allow == Some(true);
    let is_any = |rule: &PolicyRule| rule.matches == Match::default() && rule.hours.is_none();
    let denies = policy.rules.iter().any(|rule| rule.denial().is_some());

    // The policy is about packets alone.
    if policy.packets.is_some() && policy.rules.is_empty() && policy.default == PolicyDefault::Allow
    {
        return None;
    }
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
            "the policy permits everything: one of its rules allows every exchange",
            "give that rule a `match`",
        ),
        _ => return None,
    };

    Some(Problem::new("policy", reason).remedy(remedy))
}

/// Rules on packets that decide the same about everything.
fn one_sided_packets(document: &Document) -> Option<Problem> {
    let packets = document.policy.as_ref()?.packets.as_ref()?;
    let allows = packets.rules.iter().any(|rule| rule.allow == Some(true));
    let denies = packets.rules.iter().any(|rule| rule.deny == Some(true));
    let (reason, remedy) = match packets.default {
        PolicyDefault::Deny if !allows => (
            "the rules on packets permit nothing",
            "add a rule with `allow: true`, or write `default: allow`",
        ),
        PolicyDefault::Allow if !denies && packets.rego.is_none() => (
            "the rules on packets permit everything",
            "add a rule with `deny: true`, or write `default: deny`",
        ),
        _ => return None,
    };
    Some(Problem::new("policy.packets", reason).remedy(remedy))
}

/// Passwords that everyone on the way can read.
fn clear_credentials(document: &Document) -> impl Iterator<Item = Problem> {
    let is_clear = |upstream: &Upstream| {
        let has_tls = !matches!(&upstream.tls, None | Some(TlsChoice::Switch(false)));
        upstream.credentials.is_some() && !has_tls && upstream.attached.is_none()
    };
    let is_remote = |upstream: &Upstream| upstream.endpoints.iter().any(|end| !is_local(end));
    let clear = document
        .upstreams
        .iter()
        .filter(move |(_, upstream)| is_clear(upstream) && is_remote(upstream));
    clear.map(|(name, _)| {
        Problem::new(
            format!("{}.credentials", child("upstreams", name)),
            "the password leaves this machine in the clear",
        )
        .remedy("add `tls` if these endpoints speak it")
    })
}

fn is_local(endpoint: &Endpoint) -> bool {
    match endpoint.address() {
        EndpointAddress::Unix(_) => true,
        EndpointAddress::Tcp(place) => {
            let address = place.host.parse::<std::net::IpAddr>();
            address.map_or(place.host == "localhost", |address| {
                address.to_canonical().is_loopback()
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_user_who_is_called_as_a_group_is_told_of() {
        let document: Document = serde_json::from_value(json!({
            "version": 1,
            "groups": { "dba": ["dave"], "ops": ["ops", "olga"], "staff": ["s*"] },
            "routes": [
                { "match": { "user": ["dba", "ops"] }, "respond": { "status": 200 } },
                { "match": { "user": ["group:dba", "group:ops", "group:staff", "dave"] }, "respond": { "status": 200 } },
            ],
        }))
        .unwrap();
        let said: Vec<_> = warn(&document)
            .into_iter()
            .map(|finding| (finding.path, finding.remedy))
            .collect();
        let remedy = Some("write group:dba for its members".to_owned());
        assert_eq!(said, [("routes[0].match.user[0]".to_owned(), remedy)]);
    }

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

    #[test]
    fn credentials_that_no_origin_would_see_are_told_of() {
        let warned = |fields: &[&str], expose: &[&str]| {
            let document: Document = serde_json::from_value(json!({
                "version": 1,
                "fields": fields,
                "authorize": [{ "name": "asks", "url": "http://127.0.0.1:1/", "allow_fields": ["authorization", "x-secure"] }],
                "routes": [
                    { "terminate": true, "expose": expose },
                    { "respond": { "status": 200 } },
                ],
            }))
            .unwrap();
            let findings = warn(&document).into_iter();
            findings.map(|finding| finding.path).collect::<Vec<_>>()
        };

        assert_eq!(warned(&["user", "authorization"], &[]), ["fields[1]"]);
        assert_eq!(warned(&["cookie"], &["authorization"]), ["fields[0]"]);
        assert_eq!(
            warned(&["user", "authorization"], &["authorization"]),
            [""; 0]
        );
        assert_eq!(warned(&["user", "x-secure"], &[]), [""; 0]);
    }

    /// The warning about a policy, with its path.
    fn of_policy(policy: serde_json::Value) -> Option<String> {
        let document =
            json!({ "version": 1, "policy": policy, "routes": [{ "respond": { "status": 200 } }] });
        let document: Document = serde_json::from_value(document).unwrap();
        let mut found = warn(&document).into_iter();
        let said = found.next().map(|finding| {
            assert!(["policy", "policy.packets"].contains(&&*finding.path));
            finding.reason
        });
        assert!(found.next().is_none(), "one policy is warned of once");
        said
    }

    #[test]
    fn a_policy_that_decides_the_same_about_everything_is_told_of() {
        let denies = json!({ "match": { "path": "/admin/*" }, "deny": true });
        let allows = json!({ "match": { "user": "alice" }, "allow": true });
        let by_day = json!({ "hours": "08:00-18:00", "allow": true });
        let sets = json!({ "set": { "service": "a" } });
        let nothing = "the policy permits nothing";
        let everything = "the policy permits everything";
        let one_rule = "the policy permits everything: one of its rules allows every exchange";

        for (policy, said) in [
            (json!({ "rules": [denies, sets] }), Some(nothing)),
            (json!({ "default": "deny", "rules": [] }), Some(nothing)),
            (
                json!({ "default": "allow", "rules": [allows, sets] }),
                Some(everything),
            ),
            (
                json!({ "rules": [allows, { "allow": true }] }),
                Some(one_rule),
            ),
            (json!({ "rules": [allows] }), None),
            (json!({ "rules": [by_day] }), None),
            (json!({ "rules": [denies, { "allow": true }] }), None),
            (json!({ "default": "allow", "rules": [denies] }), None),
            (
                json!({ "default": "allow", "packets": { "rules": [] } }),
                Some("the rules on packets permit nothing"),
            ),
            (
                json!({ "default": "allow", "packets": { "default": "allow", "rules": [{ "allow": true }] } }),
                Some("the rules on packets permit everything"),
            ),
            (
                json!({ "default": "allow", "packets": { "default": "allow", "rego": { "files": "a.rego", "query": "data.a.allow" } } }),
                None,
            ),
            (
                json!({ "default": "allow", "packets": { "rules": [{ "allow": true }] } }),
                None,
            ),
        ] {
            assert_eq!(of_policy(policy.clone()).as_deref(), said, "{policy}");
        }
    }
}
