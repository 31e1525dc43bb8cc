//! Requests of the old interface: a method, and a pattern of paths.

use http::Method;

use crate::percent;
use crate::template::Scope;

/// A method and a pattern of paths: `GET /v1/users/{id}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AskPattern {
    pub(crate) method: Method,
    segments: Vec<PathSegment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PathSegment {
    Literal(String),
    Variable(String),
    /// All that are left.
    Rest(String),
}

/// The method and the path of a request of a mapping, or of its tests.
///
/// # Errors
/// It has not this form.
pub(crate) fn parse_ask(text: &str) -> Result<(Method, &str), String> {
    let wrong = || format!("`{text}` is no request: write one as `GET /v1/users/{{id}}`");
    let (method, path) = text.split_once(' ').ok_or_else(wrong)?;
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    if !is_method || !path.starts_with('/') || path.contains([' ', '#']) {
        return Err(wrong());
    }
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| wrong())?;
    match method == Method::CONNECT {
        true => Err("tunnels are not translated".to_owned()),
        false => Ok((method, path)),
    }
}

impl AskPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (method, path) = parse_ask(text)?;
        if path.contains('?') {
            return Err(format!(
                "`{text}` has a query: each request of this path may have one"
            ));
        }
        // A slash at the end makes an empty last segment: with and without it are two paths, as for routes.
        let mut segments = Vec::new();
        for segment in path[1..].split('/') {
            let variable = segment
                .strip_prefix('{')
                .and_then(|rest| rest.strip_suffix('}'));
            segments.push(match variable {
                None if segment.contains(['{', '}']) => {
                    return Err(format!("`{segment}` of `{text}` is not one variable alone"));
                }
                None => PathSegment::Literal(segment.to_owned()),
                Some(name) => match name.strip_suffix('*') {
                    Some(name) => PathSegment::Rest(name.to_owned()),
                    None => PathSegment::Variable(name.to_owned()),
                },
            });
        }
        let last = segments.len() - 1;
        let rest = segments
            .iter()
            .position(|segment| matches!(segment, PathSegment::Rest(_)));
        if rest.is_some_and(|index| index < last) {
            return Err(format!(
                "`{text}`: nothing can follow a variable with a star"
            ));
        }
        Ok(Self { method, segments })
    }

    /// The names of its variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            PathSegment::Variable(name) | PathSegment::Rest(name) => Some(name.as_str()),
            PathSegment::Literal(_) => None,
        })
    }

    /// The names of those that stand for several segments.
    pub(crate) fn several(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            PathSegment::Rest(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The values of its variables in this path, which has no query; `None` if it does not match.
    pub(crate) fn matches(&self, method: &Method, path: &str) -> Option<Scope> {
        // The answer to HEAD is that to GET (RFC 9110, section 9.3.2).
        let is_head = *method == Method::HEAD && self.method == Method::GET;
        if self.method != *method && !is_head {
            return None;
        }
        let mut scope = Scope::new();
        let mut rest = Some(path.strip_prefix('/')?);
        for segment in &self.segments {
            let left = rest?;
            let (first, after) = match left.split_once('/') {
                Some((first, after)) => (first, Some(after)),
                None => (left, None),
            };
            match segment {
                PathSegment::Literal(literal) if literal == first => {}
                PathSegment::Literal(_) => return None,
                PathSegment::Variable(name) => {
                    let value = percent::decode(first, false)
                        .ok()
                        .filter(|value| !value.is_empty());
                    scope.insert(name.clone(), value?);
                }
                PathSegment::Rest(name) => {
                    scope.insert(name.clone(), percent::decode(left, false).ok()?);
                    return Some(scope);
                }
            }
            rest = after;
        }
        rest.is_none().then_some(scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(pattern: &str, path: &str) -> Option<String> {
        let pattern = AskPattern::parse(pattern).unwrap();
        let scope = pattern.matches(&Method::GET, path)?;
        let pairs: Vec<_> = scope
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        Some(pairs.join(","))
    }

    #[test]
    fn a_pattern_takes_whole_segments() {
        assert_eq!(
            matched("GET /v1/users/{id}", "/v1/users/a%20b").unwrap(),
            "id=a b"
        );
        for path in [
            "/v1/users",
            "/v1/users/",
            "/v1/users/a/b",
            "/v1/users/%zz",
            "/v1/users/%ff",
            "*",
        ] {
            assert!(matched("GET /v1/users/{id}", path).is_none(), "{path}");
        }
        assert_eq!(matched("GET /f/{rest*}", "/f/a/b").unwrap(), "rest=a/b");
        assert!(matched("POST /v1", "/v1").is_none());
        let get = AskPattern::parse("GET /v1").unwrap();
        assert!(get.matches(&Method::HEAD, "/v1").is_some());
        for wrong in [
            "/v1",
            "get /v1",
            "GET v1",
            "GET /a{b}",
            "GET /{a*}/b",
            "GET /a?b",
            "CONNECT /a",
            "GET /a b",
        ] {
            assert!(AskPattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
