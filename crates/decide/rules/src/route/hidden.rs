//! Paths that are secrets, such as those of channels that no one can guess: records show a part of them alone.
//!
//! A path is hidden from its first moment on, before a user is known, a policy has decided or a route was found: conditions on those are
//! left out here, so that a route hides at least the paths that it serves.

use std::sync::Arc;

use hermes_config::model::{self, Match};

use super::path::PathTest;
use super::{Facts, Matcher, Names};

/// The hidden paths of a document.
#[derive(Debug, Clone, Default)]
pub struct HiddenPaths(Vec<HiddenPattern>);

/// Those of one route.
#[derive(Debug, Clone)]
struct HiddenPattern {
    /// Everything but the path.
    matcher: Matcher,
    /// Empty: every path.
    paths: Vec<PathTest>,
}

impl HiddenPaths {
    /// Those of these routes.
    pub fn compile<'r>(routes: impl Iterator<Item = &'r model::Route>, names: &Arc<Names>) -> Self {
        let patterns = routes.map(|route| HiddenPattern::compile(&route.matches, names.clone()));
        Self(patterns.collect())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The part of a path that stands in the document and may be shown, if the rest is hidden. It ends with a slash.
    pub fn visible(&self, facts: &Facts<'_>) -> Option<&str> {
        self.0.iter().find_map(|pattern| pattern.visible(facts))
    }
}

impl HiddenPattern {
    fn compile(matches: &Match, names: Arc<Names>) -> Self {
        let of_place = Match {
            target: matches.target.clone(),
            port: matches.port.clone(),
            authority: matches.authority.clone(),
            listener: matches.listener.clone(),
            ..Match::default()
        };
        let paths = matches.path.iter().flat_map(|paths| paths.iter());
        Self {
            matcher: Matcher::compile(&of_place, names),
            paths: paths.map(PathTest::compile).collect(),
        }
    }

    fn visible(&self, facts: &Facts<'_>) -> Option<&str> {
        if !self.matcher.matches(facts) {
            return None;
        }
        if self.paths.is_empty() {
            return Some("/");
        }
        let test = self.paths.iter().find(|test| test.matches(facts.path))?;
        match test {
            // It stands in the document as it is: there is nothing to hide.
            PathTest::Exact(_) => None,
            PathTest::Prefix(prefix) => Some(prefix),
            PathTest::Regex(_) => Some("/"),
        }
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::model::ExchangeKind;
    use hermes_proto::fields::Fields;
    use http::Method;

    use super::*;
    use crate::route::{ClaimedGroups, Target};

    fn visible(routes: &str, host: &str, path: &str) -> Option<String> {
        let routes: Vec<model::Route> = serde_json::from_str(routes).unwrap();
        let names = Arc::<Names>::default();
        let hidden = HiddenPaths::compile(routes.iter(), &names);
        let facts = Facts {
            kind: ExchangeKind::Http,
            target: Target::Host {
                name: host,
                port: 80,
            },
            authority: None,
            path,
            method: &Method::GET,
            protocol: None,
            fields: &Fields::new(),
            user: None,
            claimed: ClaimedGroups::default(),
            source: None,
            listener: "web",
        };
        hidden.visible(&facts).map(str::to_owned)
    }

    #[test]
    fn the_part_that_stands_in_the_document_is_shown() {
        let routes = r#"[{ "match": { "path": ["/c/*", "/news"], "user": "bob" } }]"#;
        assert_eq!(visible(routes, "hub", "/c/secret").as_deref(), Some("/c/"));
        assert_eq!(
            visible(routes, "hub", "/%63/secret").as_deref(),
            Some("/c/")
        );
        assert_eq!(visible(routes, "hub", "/news"), None);
        assert_eq!(visible(routes, "hub", "/d/open"), None);
        assert_eq!(visible("[]", "hub", "/c/secret"), None);
    }

    #[test]
    fn paths_of_other_targets_are_shown() {
        let routes = r#"[{ "match": { "target": "hub" } }]"#;
        assert_eq!(visible(routes, "hub", "/x/y").as_deref(), Some("/"));
        assert_eq!(visible(routes, "video", "/x/y"), None);
    }
}
