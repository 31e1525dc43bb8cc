//! The chains of filters of a listener, chosen by the name of the TLS handshake (SNI).
//!
//! A listener has one certificate here, so chains become one listener if they differ in their names and routes alone. Their routes then
//! match the names, where Envoy asks the handshake.

use serde_json::{Value as Json, json};

use super::address::Address;
use super::cluster::Clusters;
use super::extension::{config, kind};
use super::listener::secure;
use super::scope::Scope;
use super::{http, matcher};
use crate::draft::Draft;
use crate::source::Node;

/// The chains that become a listener, of which the first says how it is spoken to.
pub(super) struct Chains<'a> {
    pub(super) first: &'a Node,
    pub(super) further: Vec<&'a Node>,
}

impl<'a> Chains<'a> {
    /// The chains of a listener, in the order in which Envoy looks for a name; `None` if there are
    /// none.
    pub(super) fn of(listener: &'a Node) -> Option<Self> {
        let mut all: Vec<&Node> = listener.list("filter_chains").iter().collect();
        all.extend(listener.field("default_filter_chain"));
        let default = listener.peek("default_filter_chain");
        all.sort_by_key(|chain| {
            let is_default = default.is_some_and(|default| std::ptr::eq(default, *chain));
            (is_default, specificity(chain))
        });
        // Where one is for HTTP, others that are not have no place beside it.
        let first = all.iter().position(|chain| manager(chain).is_some());
        if all.is_empty() {
            return None;
        }
        let first = all.remove(first.unwrap_or(0));
        Some(Self {
            first,
            further: all,
        })
    }
}

/// Names before longer suffixes before shorter ones before any.
fn specificity(chain: &Node) -> (u8, usize) {
    let names = peek_names(chain);
    let rank = |name: &&str| match name.strip_prefix('*') {
        Some(suffix) => (1, usize::MAX - suffix.len()),
        None => (0, 0),
    };
    names.iter().map(rank).max().unwrap_or((2, 0))
}

fn peek_names(chain: &Node) -> Vec<&str> {
    let matched = chain.peek("filter_chain_match");
    let names = matched.and_then(|matched| matched.peek("server_names"));
    names.map_or_else(Vec::new, |names| {
        names.items().iter().filter_map(Node::as_text).collect()
    })
}

/// The names of a chain, in our words.
///
/// # Errors
/// Why it takes fewer connections than those of its names.
pub(super) fn names(chain: &Node) -> Result<Vec<String>, String> {
    let Some(matched) = chain.field("filter_chain_match") else {
        return Ok(Vec::new());
    };
    matched.skip(&["transport_protocol", "application_protocols"]);
    let names: Vec<String> = peek_names(chain)
        .iter()
        .map(|name| name.to_ascii_lowercase())
        .collect();
    matched.skip(&["server_names"]);
    let other = matched.entries().map(|(key, _)| key).find(|key| {
        let key = key.to_ascii_lowercase();
        !key.contains("protocol") && !key.contains("names")
    });
    match other {
        Some(key) => Err(format!("connections are not told apart by `{key}`")),
        None => Ok(names),
    }
}

/// The connection manager of a chain that has no other filter.
fn manager(chain: &Node) -> Option<&Node> {
    let [filter] = chain.peek("filters")?.items() else {
        return None;
    };
    kind(filter)
        .ends_with("HttpConnectionManager")
        .then(|| config(filter))
}

/// The listener that a further chain is added to.
pub(super) struct Joined<'a> {
    pub(super) scope: &'a Scope,
    pub(super) first: &'a Node,
    pub(super) address: &'a Address,
}

/// Adds the routes of a further chain to the listener of the first, or says why that cannot be.
pub(super) fn join(chain: &Node, joined: &Joined<'_>, clusters: &mut Clusters, draft: &mut Draft) {
    if let Err(reason) = joinable(chain, joined, clusters, draft) {
        chain.skip_all();
        let reason = format!(
            "{reason}; listen at another address than {} for this chain of filters",
            joined.address.text()
        );
        draft.left_out(chain.line, joined.scope.subject.clone(), reason);
    }
}

fn joinable(
    chain: &Node,
    joined: &Joined<'_>,
    clusters: &mut Clusters,
    draft: &mut Draft,
) -> Result<(), String> {
    let Some(manager) = manager(chain) else {
        return Err("it has filters for another protocol than HTTP".to_owned());
    };
    let is_same = spoken(chain, joined.scope, draft) == spoken(joined.first, joined.scope, draft);
    if !is_same {
        let reason = "a listener has one certificate and asks all clients for the same: those of the first chain";
        return Err(reason.to_owned());
    }
    let names = names(chain)?;
    chain.skip(&["name", "filters", "transport_socket_connect_timeout"]);

    let scope = Scope {
        name: joined.scope.name.clone(),
        subject: joined.scope.subject.clone(),
        names,
        ..*joined.scope
    };
    let mut listener = json!({});
    http::convert(manager, &scope, &mut listener, clusters, draft);
    tell_other_keys(chain, &scope, &listener, draft);
    Ok(())
}

/// How the connections of a chain are secured, with the files that it has.
fn spoken(chain: &Node, scope: &Scope, draft: &Draft) -> Option<(Json, String)> {
    let mut trial = draft.trial();
    let mut json = json!({});
    secure(chain, scope, &mut json, &mut trial)?;
    let refuses = !trial.denials.is_empty();
    Some((json, format!("{refuses} {:?}", trial.files)))
}

/// Settings of connections that the manager of a further chain has otherwise than that of the first.
fn tell_other_keys(chain: &Node, scope: &Scope, wanted: &Json, draft: &mut Draft) {
    let present = draft.listeners.get(&scope.name).unwrap_or(&Json::Null);
    let differing: Vec<&str> = ["limits", "set", "client_address"]
        .into_iter()
        .filter(|key| wanted.get(key) != present.get(key))
        .collect();
    if !differing.is_empty() {
        let reason = format!(
            "`{}` of the listener is as the first chain has it",
            differing.join("`, `")
        );
        draft.differs(chain.line, scope.subject.clone(), reason);
    }
}

/// The domains of a virtual host that a chain with these names can be asked for; `None` if there
/// are none.
pub(super) fn narrowed(host: &Node, names: &[String]) -> Option<Vec<Json>> {
    let domains = matcher::domains(host);
    if names.is_empty() {
        return Some(domains);
    }
    if domains.is_empty() {
        return Some(names.iter().map(|name| json!(name)).collect());
    }
    let mut both: Vec<Json> = Vec::new();
    for domain in domains.iter().filter_map(Json::as_str) {
        for name in names {
            let narrower = narrower(domain, name).map(|found| json!(found));
            both.extend(narrower.filter(|found| !both.contains(found)));
        }
    }
    (!both.is_empty()).then_some(both)
}

/// Of a domain and a name, the one that lies in the other.
fn narrower<'a>(domain: &'a str, name: &'a str) -> Option<&'a str> {
    let host = domain
        .rsplit_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok())
        .map_or(domain, |(host, _)| host);
    if host == name || covers(name, host) {
        return Some(domain);
    }
    covers(host, name).then_some(name)
}

/// Whether a pattern takes all that another one takes.
fn covers(pattern: &str, other: &str) -> bool {
    if let Some(expression) = pattern.strip_prefix('~') {
        let is_name = !other.starts_with(['*', '~']);
        return is_name && regex::Regex::new(expression).is_ok_and(|regex| regex.is_match(other));
    }
    let suffix = pattern.strip_prefix('*');
    suffix.is_some_and(|suffix| {
        other.trim_start_matches('*').ends_with(suffix) && !other.starts_with('~')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::read;

    fn of(domains: &str, names: &[&str]) -> Option<Vec<Json>> {
        let host = read(&format!("domains: [{domains}]")).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        narrowed(&host, &names)
    }

    #[test]
    fn a_host_is_reached_by_the_names_of_its_chain() {
        let both = |domains, names| of(domains, names).unwrap();
        assert_eq!(both("'*'", &[]), Vec::<Json>::new());
        assert_eq!(both("'*'", &["a.example"]), [json!("a.example")]);
        assert_eq!(both("a.example", &["*.example"]), [json!("a.example")]);
        assert_eq!(
            both("a.example:443", &["a.example"]),
            [json!("a.example:443")]
        );
        assert_eq!(both("'*.example'", &["a.example"]), [json!("a.example")]);
        assert_eq!(
            both("'*.a.example'", &["*.example"]),
            [json!("*.a.example")]
        );
        assert_eq!(both("'www.*'", &["www.a"]), [json!("www.a")]);
        assert_eq!(of("b.example", &["a.example", "*.c.example"]), None);
    }
}
