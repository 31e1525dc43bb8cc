//! Requests of the new interface: a method, and a path with variables.

use hermes_proto::path;
use http::uri::PathAndQuery;
use http::{Method, StatusCode};

use super::ask::parse_ask;
use crate::percent;
use crate::template::{Scope, Template};
use crate::unfit::Unfit;

/// A method, and a path with variables: `GET /v2/people/{id}?full=true`.
pub(super) struct Destination {
    pub(super) method: Method,
    path: Template,
    query: Option<Template>,
    /// Variables that stand for several segments.
    several: Vec<String>,
}

impl Destination {
    /// Reads one; `several` are variables that stand for several segments.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn parse(text: &str, several: Vec<String>) -> Result<Self, String> {
        let (method, path) = parse_ask(text)?;
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(Template::parse(query)?)),
            None => (path, None),
        };
        Ok(Self {
            method,
            path: Template::parse(path)?,
            query,
            several,
        })
    }

    /// Its variables.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.path
            .variables()
            .chain(self.query.iter().flat_map(Template::variables))
    }

    /// Whether a variable is of the query.
    pub(super) fn has_query_variable(&self) -> bool {
        self.variables().any(|name| name.starts_with("query."))
    }

    /// Its path, with this query behind its own.
    ///
    /// # Errors
    /// A variable has no value, or one that no path may have.
    pub(super) fn path(&self, scope: &Scope, query: &str) -> Result<PathAndQuery, Unfit> {
        let bad = |reason: &str| Unfit::new(StatusCode::BAD_REQUEST, reason);
        let write = |name: &str, value: &str, text: &mut String| {
            // A slash in a single segment is data, and must not become a level of the new path.
            let is_several = self.several.iter().any(|several| several == name);
            for (index, part) in value.split('/').enumerate() {
                if index > 0 {
                    text.push_str(if is_several { "/" } else { "%2F" });
                }
                percent::encode(part, text);
            }
        };
        let missing = "a variable of the new path has no value";
        let mut path = self
            .path
            .expand(scope, &write)
            .ok_or_else(|| bad(missing))?;
        // A value of a client must not lead to another part of the new interface, nor to one for readers who decode once more.
        let mut values = self.path.variables().filter_map(|name| scope.get(name));
        if values.any(|value| climbs(value)) {
            return Err(bad("a variable of the new path leads elsewhere"));
        }
        if self
            .path
            .variables()
            .any(|name| scope.get(name).is_some_and(String::is_empty))
        {
            return Err(bad("a variable of the new path is empty"));
        }

        let own = match &self.query {
            Some(own) => {
                let write = |_: &str, value: &str, text: &mut String| percent::encode(value, text);
                own.expand(scope, &write).ok_or_else(|| bad(missing))?
            }
            None => String::new(),
        };
        // Its own comes first, as most servers take the first of two.
        let parts = [own.as_str(), query];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        for (index, part) in parts.enumerate() {
            path.push(if index == 0 { '?' } else { '&' });
            path.push_str(part);
        }
        let path = PathAndQuery::try_from(path);
        let path = path.map_err(|_| bad("the new path is too long, or none"))?;
        path::check(path).map_err(|_| bad("the new path is none that can be asked for"))
    }
}

/// Whether a value has a segment of dots, by any way in which paths are read.
fn climbs(value: &str) -> bool {
    let mut segments = value.split(['/', '\\']);
    segments.any(|segment| {
        let name = segment.split(';').next().unwrap_or_default();
        matches!(name, "." | "..")
    })
}
