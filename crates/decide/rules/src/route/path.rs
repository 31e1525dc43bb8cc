//! Paths as they are compared.
//!
//! Paths are forwarded as `hermes_proto::path` made them. Only for matching they are brought into
//! one form (RFC 3986, section 6.2.2): a percent-encoding of an unreserved character is decoded,
//! every other one is written in capitals, and several slashes in a row are one, as most origins
//! take them. An encoded slash stays encoded: it is data within a segment, so `/admin/*` does not
//! match `/admin%2Fx`. Nothing is decoded twice, and case stays. `readings.rs` handles paths that
//! servers could read differently.

use std::borrow::Cow;

use hermes_config::model::{PathMatch, PathRewrite};
use hermes_proto::path::{BadPath, Token, Tokens, capital, decode, refuse_dots};
use http::uri::PathAndQuery;

/// Unreserved characters (RFC 3986, 2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// A walk over a path, in the compared form.
struct Walk<'a> {
    tokens: Tokens<'a>,
    after_slash: bool,
}

impl<'a> Walk<'a> {
    fn new(path: &'a str) -> Self {
        Self {
            tokens: Tokens(path.as_bytes()),
            after_slash: false,
        }
    }

    /// The rest of the path, as it was written.
    fn rest(&self) -> &'a [u8] {
        self.tokens.0
    }
}

/// A byte of the compared form, or a percent-encoding of it.
impl Iterator for Walk<'_> {
    type Item = ([u8; 3], usize);

    fn next(&mut self) -> Option<([u8; 3], usize)> {
        let mut token = self.tokens.next()?;
        while self.after_slash && token == Token::Plain(b'/') {
            token = self.tokens.next()?;
        }

        self.after_slash = token == Token::Plain(b'/');
        Some(match token {
            Token::Encoded(byte) if !is_unreserved(byte) => {
                ([b'%', capital(byte >> 4), capital(byte)], 3)
            }
            Token::Encoded(byte) | Token::Plain(byte) => ([byte, 0, 0], 1),
        })
    }
}

/// The bytes of a path in the compared form.
fn normal_bytes(path: &str) -> impl Iterator<Item = u8> {
    Walk::new(path).flat_map(|(bytes, length)| bytes.into_iter().take(length))
}

/// A path in the compared form; borrowed where it already is.
pub fn normalise(path: &str) -> Cow<'_, str> {
    if normal_bytes(path).eq(path.bytes()) {
        return Cow::Borrowed(path);
    }
    let bytes: Vec<u8> = normal_bytes(path).collect();
    String::from_utf8(bytes).map_or(Cow::Borrowed(path), Cow::Owned)
}

/// A path of a document in the compared form: characters that a path cannot hold are
/// percent-encoded, as in an exchange's path.
pub(crate) fn normalise_written(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if hermes_proto::path::is_polite(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.extend([b'%', capital(byte >> 4), capital(byte)].map(char::from));
        }
    }

    normalise(&encoded).into_owned()
}

/// A path with its prefix replaced, or `None` if it has another one. The prefix is found in the
/// compared form and ends where a segment ends; the rest stays as it was written, and so does the
/// query.
///
/// # Errors
/// The result is no path.
pub fn rewrite_path(
    path: &PathAndQuery,
    change: &PathRewrite,
) -> Result<Option<PathAndQuery>, BadPath> {
    let Some(rest) = after_prefix(path.path(), &normalise_written(&change.prefix)) else {
        return Ok(None);
    };
    let with = change.with.as_str();
    let (with, slash) = match (with.strip_suffix('/'), rest.starts_with('/')) {
        (Some(folder), true) => (folder, ""),
        (None, false) if !rest.is_empty() => (with, "/"),
        _ => (with, ""),
    };

    let (mark, query) = path.query().map_or(("", ""), |query| ("?", query));
    // The received path was checked; this checks the replacement with it.
    let rewritten = decode(format!("{with}{slash}{rest}{mark}{query}").into())?;
    refuse_dots(rewritten.path())?;

    Ok(Some(rewritten))
}

/// Whether a path, without its query, has the prefix that is replaced.
pub(super) fn is_rewritten(path: &str, change: &PathRewrite) -> bool {
    after_prefix(path, &normalise_written(&change.prefix)).is_some()
}

/// The text behind `prefix`, which is in the compared form, if a segment ends there.
fn after_prefix<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let mut walk = Walk::new(path);
    let mut wanted = prefix.as_bytes();
    while !wanted.is_empty() {
        let (bytes, length) = walk.next()?;
        wanted = wanted.strip_prefix(&bytes[..length])?;
    }

    let rest = std::str::from_utf8(walk.rest()).ok()?;
    if prefix.ends_with('/') {
        return Some(rest.trim_start_matches('/'));
    }

    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// A compiled condition on a path.
#[derive(Debug, Clone)]
pub(crate) enum PathTest {
    Exact(String),
    Prefix(String),
    Regex(regex::Regex),
}

impl PathTest {
    pub(super) fn compile(condition: &PathMatch) -> Self {
        match condition {
            PathMatch::Exact(path) => Self::Exact(normalise_written(path)),
            PathMatch::Prefix(prefix) => Self::Prefix(normalise_written(prefix)),
            PathMatch::Regex(regex) => Self::Regex(regex.clone()),
        }
    }

    /// Whether a path matches. Allocates only where a regular expression meets a path that is not in the compared form.
    pub(super) fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exact(exact) => normal_bytes(path).eq(exact.bytes()),
            Self::Prefix(prefix) => {
                let mut bytes = normal_bytes(path);
                prefix.bytes().all(|wanted| bytes.next() == Some(wanted))
            }
            Self::Regex(regex) => regex.is_match(&normalise(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(condition: &str, path: &str) -> bool {
        let condition: PathMatch = condition.parse().unwrap();
        PathTest::compile(&condition).matches(path)
    }

    #[test]
    fn unreserved_characters_are_compared_decoded() {
        assert!(matches("/abc", "/%61b%63"));
        assert!(matches("/%61bc", "/abc"));
        assert!(matches("/a-b_c~d.e", "/a%2Db%5fc%7Ed%2ee"));
        assert!(!matches("/abc", "/ABC"));
    }

    #[test]
    fn other_encodings_are_compared_in_capitals() {
        assert!(matches("/a%2fb", "/a%2Fb"));
        assert!(!matches("/a/b", "/a%2fb"));
        assert!(!matches("/admin/*", "/admin%2Fx"));
        assert!(!matches("/%2e", "/%252e"));
    }

    #[test]
    fn prefix_ends_at_its_slash() {
        assert!(matches("/a/*", "/a/"));
        assert!(matches("/a/*", "/%61/b"));
        assert!(!matches("/a/*", "/a"));
        assert!(!matches("/a/*", "/ab"));
        assert!(!matches("/a/*", ""));
    }

    #[test]
    fn regex_sees_the_compared_form() {
        assert!(matches("~^/v[0-9]+$", "/%76%31"));
        assert!(matches("~%2F", "/a%2fb"));
    }

    #[test]
    fn broken_encodings_stand_for_themselves() {
        assert_eq!(normalise("/%"), "/%");
        assert_eq!(normalise("/%4"), "/%4");
        assert_eq!(normalise("/%zz%41"), "/%zzA");
        assert_eq!(normalise("/%25%34%31"), "/%2541");
    }

    #[test]
    fn normal_paths_are_borrowed() {
        assert!(matches!(normalise("/a%2Fb/c"), Cow::Borrowed(_)));
    }

    #[test]
    fn several_slashes_are_compared_as_one() {
        assert!(matches("/admin/*", "//admin/x"));
        assert!(matches("/admin/*", "/admin//"));
        assert!(matches("/a/b", "//a///b"));
        assert!(matches("/a//b", "/a/b"));
        assert!(!matches("/admin/*", "/%2Fadmin/x"));
        assert_eq!(normalise("//a//b//"), "/a/b/");
    }

    #[test]
    fn what_a_path_cannot_hold_is_compared_encoded() {
        assert!(matches("/caf\u{e9}", "/caf%c3%a9"));
        assert!(matches("/{id}/*", "/%7Bid%7d/x"));
    }

    fn rewritten(prefix: &str, with: &str, path: &str) -> Option<String> {
        let change = PathRewrite {
            prefix: prefix.to_owned(),
            with: with.to_owned(),
        };
        let path = PathAndQuery::try_from(path).unwrap();
        rewrite_path(&path, &change)
            .unwrap()
            .map(|path| path.as_str().to_owned())
    }

    #[test]
    fn a_rewrite_ends_where_a_segment_ends() {
        for (prefix, with, path, expected) in [
            ("/api/", "/", "/api/x?a=/api/", Some("/x?a=/api/")),
            ("/api", "/", "/api/x", Some("/x")),
            ("/api", "/v2", "/api", Some("/v2")),
            ("/api/", "/v2", "/api/x", Some("/v2/x")),
            ("/api/", "/v2", "/api/", Some("/v2")),
            ("/", "/v2/", "/x", Some("/v2/x")),
            ("/s2", "/", "/s2../secret", None),
            ("/s2", "/", "/s2x/secret", None),
            ("/api/", "/", "/api", None),
        ] {
            assert_eq!(
                rewritten(prefix, with, path).as_deref(),
                expected,
                "{prefix} -> {with}: {path}"
            );
        }
    }

    #[test]
    fn a_rewrite_finds_its_prefix_in_the_compared_form() {
        assert_eq!(
            rewritten("/pub/", "/", "/%70ub/a%2fb").as_deref(),
            Some("/a%2fb")
        );
        assert_eq!(rewritten("/p%75b/", "/", "/pub/x").as_deref(), Some("/x"));
        assert_eq!(
            rewritten("/pub/", "/", "//pub//x//y").as_deref(),
            Some("/x//y")
        );
        assert_eq!(
            rewritten("/caf\u{e9}", "/c", "/caf%c3%a9/x").as_deref(),
            Some("/c/x")
        );
    }

    #[test]
    fn a_rewrite_that_makes_no_path_is_refused() {
        let change = PathRewrite {
            prefix: "/a".to_owned(),
            with: "/../b".to_owned(),
        };
        assert!(rewrite_path(&PathAndQuery::from_static("/a/x"), &change).is_err());
    }
}
