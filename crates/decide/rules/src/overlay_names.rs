//! Which names are those of the overlay, to programs that ask by DNS.

use std::collections::HashSet;
use std::net::IpAddr;

use hermes_config::model::{Document, ExchangeKind, HostMatch, Match, SplitDns};

/// Names of the overlay, as a listener answers questions about them.
#[derive(Debug, Clone, Default)]
pub struct OverlayNames {
    exact: HashSet<String>,
    /// With their first dot.
    suffixes: HashSet<String>,
    expressions: Vec<HostMatch>,
    /// Every name is one.
    has_all: bool,
}

impl OverlayNames {
    /// The names in `dns` of this listener, or else those in routes that take its connections and
    /// datagrams. Expressions and `*` in routes are left out: they do not enumerate names.
    pub fn of(document: &Document, listener: &str, dns: &SplitDns) -> Self {
        let mut names = Self::default();
        if !dns.names.is_empty() {
            for name in &dns.names {
                names.add(document, name);
            }
            return names;
        }

        let routes = document.routes.iter().map(|route| &route.matches);
        for matches in routes.filter(|matches| takes_flows(matches, listener)) {
            let targets = matches.target.iter().flatten();
            for target in targets.filter(|target| names_some(&target.host)) {
                names.add(document, &target.host);
            }
        }
        names
    }

    /// Whether a name is one of them: in lower case, and without the last dot.
    pub fn contains(&self, name: &str) -> bool {
        self.has_all
            || self.exact.contains(name)
            || self.ends_so(name)
            || self.expressions.iter().any(|one| one.matches(name))
    }

    /// Whether no name is one of them.
    pub fn is_empty(&self) -> bool {
        !self.has_all
            && self.exact.is_empty()
            && self.suffixes.is_empty()
            && self.expressions.is_empty()
    }

    fn ends_so(&self, name: &str) -> bool {
        let dots = name.match_indices('.').map(|(at, _)| at);
        // A name has something before its suffix.
        let mut ends = dots.filter(|at| *at > 0).map(|at| &name[at..]);
        ends.any(|end| self.suffixes.contains(end))
    }

    fn add(&mut self, document: &Document, host: &HostMatch) {
        match host {
            HostMatch::Exact(name) if name.parse::<IpAddr>().is_ok() => {}
            HostMatch::Exact(name) => drop(self.exact.insert(bare(name))),
            HostMatch::Suffix(suffix) if suffix.is_empty() => self.has_all = true,
            HostMatch::Suffix(suffix) => drop(self.suffixes.insert(bare(suffix))),
            HostMatch::Net(_) => {}
            HostMatch::Regex(_) => self.expressions.push(host.clone()),
            HostMatch::Service(service) => self.add_service(document, service),
        }
    }

    /// Adds the targets of a service, which has no other services among them.
    fn add_service(&mut self, document: &Document, service: &str) {
        let targets = document.services.get(service).into_iter().flatten();
        for target in targets.filter(|target| names_some(&target.host)) {
            if !matches!(target.host, HostMatch::Service(_)) {
                self.add(document, &target.host);
            }
        }
    }
}

/// Whether a condition says which names there are.
fn names_some(host: &HostMatch) -> bool {
    match host {
        HostMatch::Exact(_) | HostMatch::Service(_) => true,
        HostMatch::Suffix(suffix) => !suffix.is_empty(),
        HostMatch::Net(_) | HostMatch::Regex(_) => false,
    }
}

/// Whether a route may take connections or datagrams of a listener.
fn takes_flows(matches: &Match, listener: &str) -> bool {
    let is_flow =
        |kind: &ExchangeKind| matches!(kind, ExchangeKind::Connect | ExchangeKind::ConnectUdp);
    let kinds = matches.kind.as_ref();
    let listeners = matches.listener.as_ref();
    kinds.is_none_or(|kinds| kinds.iter().any(is_flow))
        && listeners.is_none_or(|names| names.iter().any(|name| name == listener))
}

/// A name without its last dot, in lower case.
fn bare(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn names(dns: Value, targets: Value) -> OverlayNames {
        let document: Document = serde_json::from_value(json!({
            "version": 1,
            "listeners": { "vpn": { "tun": { "name": "hermes0", "dns": dns } } },
            "services": { "db": ["DB-1:5432", "DB-2"] },
            "routes": [
                { "match": { "target": targets }, "terminate": true },
                { "match": { "target": "WEB", "kind": "http" }, "terminate": true },
                { "match": { "target": "ELSE", "listener": "web" }, "terminate": true },
            ],
        }))
        .unwrap();
        let tun = document.listeners["vpn"].tun().unwrap();
        OverlayNames::of(&document, "vpn", tun.dns().unwrap())
    }

    #[test]
    fn routes_say_which_names_there_are() {
        let pool = json!({ "pool": "100.64.0.0/16" });
        let names = names(
            pool.clone(),
            json!([
                "VIDEO",
                "*.Lab.example",
                "service:db",
                "10.0.0.1",
                "10.0.0.0/8",
                "~^x",
                "*"
            ]),
        );
        for name in ["video", "a.lab.example", "a.b.lab.example", "db-1", "db-2"] {
            assert!(names.contains(name), "{name}");
        }
        for name in [
            "lab.example",
            "alab.example",
            "10.0.0.1",
            "xx",
            "web",
            "else",
            "example.org",
            "",
        ] {
            assert!(!names.contains(name), "{name}");
        }
        assert!(self::names(pool, json!("*")).is_empty());
    }

    #[test]
    fn names_that_are_given_stand_for_those_of_routes() {
        let dns = |names: Value| json!({ "pool": "100.64.0.0/16", "names": names });
        let found = names(dns(json!(["*.hermes", "~^x[0-9]+$"])), json!("VIDEO"));
        assert!(found.contains("video.hermes") && found.contains("x12"));
        assert!(!found.contains("video") && !found.contains("hermes"));
        assert!(names(dns(json!("*")), json!("VIDEO")).contains("example.org"));
        assert!(names(dns(json!("service:db")), json!("VIDEO")).contains("db-2"));
    }
}
