//! Paths of requests.

use std::fmt;
use std::str::FromStr;

use regex::Regex;

use super::{ScalarError, regex, scalar};

/// Condition on the path of a request, without its query.
#[derive(Debug, Clone)]
pub enum PathMatch {
    /// `/a`: this path alone.
    Exact(String),
    /// `/a/*`: paths that begin with `/a/`.
    Prefix(String),
    /// `~re`: paths in which the expression is found.
    Regex(Regex),
}

scalar!(
    PathMatch,
    "hermes-path-match",
    "A path: /exact, /prefix/* or ~regex."
);

impl PathMatch {
    /// Whether the path fulfils the condition.
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => path == exact,
            Self::Prefix(prefix) => path.starts_with(prefix.as_str()),
            Self::Regex(regex) => regex.is_match(path),
        }
    }
}

impl FromStr for PathMatch {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        if let Some(expression) = text.strip_prefix('~') {
            return regex(expression, false).map(Self::Regex);
        }
        if !text.starts_with('/') {
            return Err(
                ScalarError::new(format!("the path `{text}` does not begin with `/`"))
                    .remedy(format!("write /{text}")),
            );
        }

        if text.contains(['?', '#']) {
            let reason = format!("`{text}` has a query or fragment, which is not matched");
            return Err(ScalarError::new(reason).remedy("leave it away"));
        }

        match text.find('*') {
            None => Ok(Self::Exact(text.to_owned())),
            Some(star) if star + 1 == text.len() && text.ends_with("/*") => {
                Ok(Self::Prefix(text[..star].to_owned()))
            }
            Some(_) => Err(ScalarError::new(format!(
                "`*` in `{text}` does not stand for a whole rest"
            ))
            .remedy("write /prefix/* or ~regex")),
        }
    }
}

impl fmt::Display for PathMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(exact) => out.write_str(exact),
            Self::Prefix(prefix) => write!(out, "{prefix}*"),
            Self::Regex(regex) => write!(out, "~{regex}"),
        }
    }
}

impl PartialEq for PathMatch {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(two)) | (Self::Prefix(one), Self::Prefix(two)) => {
                one == two
            }
            (Self::Regex(one), Self::Regex(two)) => one.as_str() == two.as_str(),
            _ => false,
        }
    }
}

impl Eq for PathMatch {}

#[cfg(test)]
mod tests {
    use super::PathMatch;

    fn matches(pattern: &str, path: &str) -> bool {
        pattern.parse::<PathMatch>().unwrap().matches(path)
    }

    #[test]
    fn a_path_matches_exactly_by_prefix_or_by_expression() {
        assert!(matches("/a", "/a") && !matches("/a", "/a/") && !matches("/a", "/A"));
        assert!(
            matches("/a/*", "/a/")
                && matches("/a/*", "/a/b/c")
                && !matches("/a/*", "/a")
                && !matches("/a/*", "/ab")
        );
        assert!(matches("/*", "/") && matches("/*", "/x"));
        assert!(matches("~^/v[0-9]+/", "/v2/x") && !matches("~^/v[0-9]+/", "/x/v2/"));
    }

    #[test]
    fn odd_paths_are_refused() {
        for text in ["", "a", "/a*", "/*/a", "/a?b", "/a#b", "~["] {
            assert!(text.parse::<PathMatch>().is_err(), "{text}");
        }
    }

    #[test]
    fn paths_print_as_written() {
        for text in ["/a", "/a/*", "/*", "~^/x$"] {
            assert_eq!(text.parse::<PathMatch>().unwrap().to_string(), text);
        }
    }
}
