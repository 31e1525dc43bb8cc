//! Paths as they are compared, and paths that are not compared at all.
//!
//! Paths are forwarded raw (RFC 9110, 7.7). Only for matching they are brought into one form (RFC 3986, 6.2.2): a
//! percent-encoding of an unreserved character is decoded, every other one is written in capitals. An encoded slash stays
//! encoded: it is data within a segment, so `/admin/*` does not match `/admin%2Fx`. Nothing is decoded twice, empty
//! segments stay, case stays.
//!
//! Dot segments are not removed: what an origin makes of `/a/../b` is its own affair, so such a path is
//! [ambiguous](path_is_ambiguous), matches no condition on a path, and is refused by the proxy.

use std::borrow::Cow;

use hermes_config::model::PathMatch;

/// Whether a path has a `.` or `..` segment for some reader: written or encoded, between slashes, encoded slashes or
/// backslashes, with or without parameters after `;`. The proxy refuses such a request with 400.
///
/// `path` is the raw path; a query is not part of it.
pub fn path_is_ambiguous(path: &str) -> bool {
    let mut segment = Segment::default();
    for token in Tokens(path.as_bytes()) {
        match token {
            Token::Plain(b'/' | b'\\') | Token::Encoded(b'/' | b'\\') => {
                if segment.is_dots() {
                    return true;
                }
                segment = Segment::default();
            }
            Token::Plain(byte) | Token::Encoded(byte) => segment.push(byte),
        }
    }
    segment.is_dots()
}

/// What is known of the segment being read.
#[derive(Default)]
struct Segment {
    dots: usize,
    other: bool,
    parameters: bool,
}

impl Segment {
    fn push(&mut self, byte: u8) {
        match byte {
            b';' => self.parameters = true,
            _ if self.parameters => {}
            b'.' => self.dots += 1,
            _ => self.other = true,
        }
    }

    fn is_dots(&self) -> bool {
        !self.other && (1..=2).contains(&self.dots)
    }
}

/// One byte of a path, and whether it was percent-encoded.
#[derive(Clone, Copy)]
enum Token {
    Plain(u8),
    Encoded(u8),
}

/// The bytes of a path with percent-encodings recognised; a `%` without two digits stands for itself.
struct Tokens<'a>(&'a [u8]);

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let (token, rest) = match self.0 {
            [] => return None,
            [b'%', high, low, rest @ ..] => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (Token::Encoded(high << 4 | low), rest),
                _ => (Token::Plain(b'%'), &self.0[1..]),
            },
            [byte, rest @ ..] => (Token::Plain(*byte), rest),
        };
        self.0 = rest;
        Some(token)
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Unreserved characters (RFC 3986, 2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// The bytes of a path in the compared form.
fn normal_bytes(path: &str) -> impl Iterator<Item = u8> {
    Tokens(path.as_bytes()).flat_map(|token| {
        let (bytes, length) = match token {
            Token::Plain(byte) => ([byte, 0, 0], 1),
            Token::Encoded(byte) if is_unreserved(byte) => ([byte, 0, 0], 1),
            Token::Encoded(byte) => ([b'%', capital(byte >> 4), capital(byte & 15)], 3),
        };
        bytes.into_iter().take(length)
    })
}

fn capital(digit: u8) -> u8 {
    b"0123456789ABCDEF"[usize::from(digit)]
}

/// A path in the compared form; borrowed where it already is.
pub(crate) fn normalise(path: &str) -> Cow<'_, str> {
    if normal_bytes(path).eq(path.bytes()) {
        return Cow::Borrowed(path);
    }
    let bytes: Vec<u8> = normal_bytes(path).collect();
    String::from_utf8(bytes).map_or(Cow::Borrowed(path), Cow::Owned)
}

/// A compiled condition on a path.
#[derive(Debug, Clone)]
pub(super) enum PathTest {
    Exact(String),
    Prefix(String),
    Regex(regex::Regex),
}

impl PathTest {
    pub(super) fn compile(condition: &PathMatch) -> Self {
        match condition {
            PathMatch::Exact(path) => Self::Exact(normalise(path).into_owned()),
            PathMatch::Prefix(prefix) => Self::Prefix(normalise(prefix).into_owned()),
            PathMatch::Regex(regex) => Self::Regex(regex.clone()),
        }
    }

    /// Whether a path that is not ambiguous matches. Allocates only where a regular expression meets a path that is
    /// not in the compared form.
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
    fn dot_segments_are_ambiguous_however_they_are_written() {
        let ambiguous = [
            "/..",
            "/.",
            "/a/../b",
            "/a/./b",
            "/a/..",
            "/%2e%2e/b",
            "/.%2E/",
            "/%2e/",
            "/a/..%2fb",
            "/a%2f..",
            "/a/..\\b",
            "/a%5C..%5cb",
            "/..;x=1/b",
            "/.;/",
            "..",
            "/%2E%2e%3Bx/",
        ];
        for path in ambiguous {
            assert!(path_is_ambiguous(path), "{path}");
        }
    }

    #[test]
    fn dots_within_names_are_not_ambiguous() {
        for path in [
            "",
            "*",
            "/",
            "/a.b",
            "/...",
            "/.well-known/x",
            "/a..b/",
            "/..a",
            "/a%2Fb",
            "//",
            "/%252e%252e/",
            "/;x",
            "/%",
        ] {
            assert!(!path_is_ambiguous(path), "{path}");
        }
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
        assert!(matches!(normalise("/a%2Fb/\u{fc}"), Cow::Borrowed(_)));
    }
}
