//! Paths as some servers read them and others do not.
//!
//! Paths are compared as `hermes_proto::path` made them. Behind a proxy stand servers that drop the
//! parameters of segments (`;x`, as Java's servlet containers), decode `%2F` and `%5C` before they
//! look for slashes, or decode twice. The path as such a server understands it is a reading. If
//! rules decide differently about a reading than about the path as it is written, the exchange is
//! refused: one of the two decisions would be wrong. If they decide the same about all readings,
//! nothing is refused.

use std::borrow::Cow;

use hermes_config::model::ExchangeKind;
use hermes_proto::path::{Token, Tokens};

use super::path::normalise;

/// A path that rules and servers could read differently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "some servers read the path {path} as {reading}, about which {differs}: write it without `;`, encoded slashes and double encodings, or \
     set `insecure_paths: true` under `defaults`"
)]
pub struct AmbiguousPath {
    /// The path as it is compared.
    pub path: String,
    /// The path as some servers understand it.
    pub reading: String,
    /// The decision that differs for it.
    pub differs: &'static str,
}

/// Bytes of a path that a refusal shows, so that it fits into a field.
#[doc(alias = "bound")]
const SHOWN: usize = 200;

impl AmbiguousPath {
    /// Says that this decision differs for a reading of the path.
    pub fn new(path: &str, reading: &str, differs: &'static str) -> Self {
        Self {
            path: shown(&normalise(path)),
            reading: shown(reading),
            differs,
        }
    }
}

fn shown(path: &str) -> String {
    match path.get(..SHOWN) {
        Some(begin) if begin.len() < path.len() => format!("{begin}..."),
        _ => path.to_owned(),
    }
}

/// The other readings of a path, in the compared form; most paths have none.
///
/// Only forwarded requests have readings: the path of a tunnel by template is read here alone.
pub fn readings(kind: ExchangeKind, path: &str) -> Vec<String> {
    if !has_readings(kind, path) {
        return Vec::new();
    }

    let written = normalise(path);
    let mut found: Vec<String> = Vec::new();
    for reader in READERS {
        let reading = reader.read(&written);
        if *reading != *written && !found.contains(&reading) {
            found.push(reading);
        }
    }
    found
}

/// Whether a path may have other readings; asked of every exchange.
#[inline]
pub(crate) fn has_readings(kind: ExchangeKind, path: &str) -> bool {
    // The cheap test first: most paths have neither byte.
    memchr::memchr2(b';', b'%', path.as_bytes()).is_some()
        && matches!(kind, ExchangeKind::Http | ExchangeKind::Upgrade)
        && is_ambiguous(path)
}

/// Whether a path has a byte that servers disagree about.
fn is_ambiguous(path: &str) -> bool {
    Tokens(path.as_bytes()).any(|token| {
        matches!(
            token,
            Token::Plain(b';') | Token::Encoded(b'/' | b'\\' | b';' | b'%')
        )
    })
}

/// When a server drops parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parameters {
    Kept,
    /// Before it decodes slashes.
    DroppedFirst,
    /// After that.
    DroppedLast,
}

/// A server's changes to a path before it looks something up.
#[derive(Debug, Clone, Copy)]
struct Reader {
    decodes_twice: bool,
    decodes_slashes: bool,
    parameters: Parameters,
}

const READERS: [Reader; 9] = [
    reader(false, true, Parameters::Kept),
    reader(false, false, Parameters::DroppedFirst),
    reader(false, true, Parameters::DroppedFirst),
    reader(false, true, Parameters::DroppedLast),
    reader(true, false, Parameters::Kept),
    reader(true, true, Parameters::Kept),
    reader(true, false, Parameters::DroppedFirst),
    reader(true, true, Parameters::DroppedFirst),
    reader(true, true, Parameters::DroppedLast),
];

const fn reader(decodes_twice: bool, decodes_slashes: bool, parameters: Parameters) -> Reader {
    Reader {
        decodes_twice,
        decodes_slashes,
        parameters,
    }
}

impl Reader {
    /// The path as this server reads it, in time linear in its length.
    fn read(self, written: &str) -> String {
        let mut path = Cow::Borrowed(written);
        if self.decodes_twice {
            path = decode_again(&path).into();
        }
        if self.parameters == Parameters::DroppedFirst {
            path = without_parameters(&path).into();
        }
        if self.decodes_slashes {
            path = path.replace("%2F", "/").replace("%5C", "/").into();
        }
        if self.parameters == Parameters::DroppedLast {
            path = without_parameters(&path).into();
        }

        resolve(&normalise(&path))
    }
}

/// Decodes double and deeper encodings; returns the compared form.
fn decode_again(path: &str) -> String {
    let bytes = path.as_bytes();
    let is_encoding = |at: usize| {
        let digits = bytes.get(at..at + 2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };

    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        decoded.push(*byte);
        at += 1;
        if *byte != b'%' {
            continue;
        }
        // `%25` before two digits: each further decoding takes one `25` away. Skipping all covers servers that decode any number of times.
        while bytes[at..].starts_with(b"25") && is_encoding(at + 2) {
            at += 2;
        }
    }

    let decoded = String::from_utf8(decoded).unwrap_or_else(|_| path.to_owned());
    normalise(&decoded).into_owned()
}

/// Removes the parameters of each segment: the text from a `;` on, encoded or not.
fn without_parameters(path: &str) -> String {
    let mut kept = String::with_capacity(path.len());
    for (number, segment) in path.split('/').enumerate() {
        if number > 0 {
            kept.push('/');
        }
        let plain = segment.split(';').next().unwrap_or_default();
        kept.push_str(plain.split("%3B").next().unwrap_or_default());
    }
    kept
}

/// Resolves dot segments that a decoding may have produced, never above the root (RFC 3986, 5.2.4).
fn resolve(path: &str) -> String {
    if !path.contains("/.") {
        return path.to_owned();
    }

    let mut kept: Vec<&str> = Vec::new();
    let mut is_folder = false;
    for segment in path.split('/').skip(1) {
        is_folder = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => _ = kept.pop(),
            _ => kept.push(segment),
        }
    }

    let mut resolved = String::with_capacity(path.len());
    for segment in &kept {
        resolved.push('/');
        resolved.push_str(segment);
    }
    if is_folder || kept.is_empty() {
        resolved.push('/');
    }
    resolved
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(path: &str) -> Vec<String> {
        readings(ExchangeKind::Http, path)
    }

    #[test]
    fn ordinary_paths_have_one_reading() {
        for path in [
            "/",
            "/admin/secret",
            "/a%20b",
            "/100%25",
            "/caf%C3%A9",
            "/%7Bid%7D",
            "/a//b",
            "",
        ] {
            assert!(all(path).is_empty(), "{path}: {:?}", all(path));
        }
        assert!(readings(ExchangeKind::ConnectIp, "/ip/10.0.0.0%2F8/*/").is_empty());
    }

    #[test]
    fn what_some_servers_read_is_among_the_readings() {
        for path in [
            "/admin;x/secret",
            "/admin;/secret",
            "/;x/admin/secret",
            "/;/admin/secret",
            "/admin%2Fsecret",
            "/admin%2fsecret",
            "/%2Fadmin/secret",
            "/admin%5Csecret",
            "/admin%3Bx/secret",
            "/;%2Fadmin/secret",
            "/%2561dmin/secret",
            "/%25252561dmin/secret",
            "/admin%252Fsecret",
            "/admin%255csecret",
            "/public/%252e%252e/admin/secret",
            "/public/%25252e./admin/secret",
            "/admin%253Bx/secret",
        ] {
            let found = all(path);
            assert!(
                found.iter().any(|reading| reading == "/admin/secret"),
                "{path}: {found:?}"
            );
        }
    }

    #[test]
    fn dot_segments_of_a_reading_end_at_the_root() {
        for (path, resolved) in [
            ("/../a", "/a"),
            ("/a/../..", "/"),
            ("/a/.", "/a/"),
            ("/a/..b", "/a/..b"),
        ] {
            assert_eq!(resolve(path), resolved);
        }
    }

    proptest! {
        #[test]
        fn a_reading_is_a_path_in_the_compared_form(path in "(/|;|%2[fF5]|%5c|%3b|%25|2e|[.]|a|%){0,24}") {
            for reading in all(&format!("/{path}")) {
                prop_assert!(reading.starts_with('/'));
                let compared = normalise(&reading);
                prop_assert_eq!(&*compared, &*reading);
            }
        }
    }
}
