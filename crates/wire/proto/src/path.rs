//! Paths and queries of requests, as every HTTP version reads them (RFC 3986, sections 3.3, 3.4 and 6.2.2).
//!
//! [`decode`] is the one place through which a path comes in, so that routes, records, the next proxy and the origin all
//! see the same one, whatever HTTP version it came in:
//!
//! - Bytes that are only impolite, such as `{`, `"` or `|`, are percent-encoded, as most clients do themselves.
//! - Dot segments are resolved, written or encoded: an origin that resolves them must not see another path than the
//!   routes did. One that climbs above the root stays, and [`refuse_dots`] says so.
//! - A segment that is a dot segment for some readers only, such as `..%2f`, `..\` or `..;x`, is
//!   refused as well.
//! - Spaces, control characters, `#` and non-ASCII bytes are refused: no type could hold them all.
//!
//! Everything else stays as it came (RFC 9110, section 7.7): empty segments, the case of letters, other encodings.

use bytes::Bytes;
use http::uri::PathAndQuery;
use memchr::{memchr, memchr2_iter};

/// The longest path and query that can be held, in bytes.
#[doc(alias = "bound")]
const LONGEST: usize = u16::MAX as usize - 1;

/// Why a path is refused. Offsets count bytes from the beginning of the path, which is 0, and go on in the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadPath {
    /// A space, a control character or a byte that is not ASCII (RFC 3986, section 3.3).
    #[error("byte 0x{byte:02x} at offset {at} of the path cannot stand there; percent-encode it")]
    Byte {
        /// The byte.
        byte: u8,
        /// Where it stands.
        at: u16,
    },
    /// A fragment is for clients only (RFC 9110, section 7.1).
    #[error(
        "byte 0x23 at offset {at} of the path begins a fragment, which clients keep for themselves"
    )]
    Fragment {
        /// Where its `#` stands.
        at: u16,
    },
    /// `/..` has nothing to take away.
    #[error("byte 0x2e at offset {at} of the path begins a dot segment that climbs above the root")]
    AboveRoot {
        /// Where the segment begins.
        at: u16,
    },
    /// A dot segment for readers who decode once more, take `\` for `/` or drop parameters.
    #[error(
        "the segment at offset {at} of the path is a dot segment for some readers and not for others"
    )]
    Ambiguous {
        /// Where the segment begins.
        at: u16,
    },
    /// The path does not begin with `/`.
    #[error("the path does not begin with `/`")]
    NoSlash,
    /// The path is longer than 65,534 bytes.
    #[error("the path is too long")]
    TooLong,
}

/// Reads a path and query that came with a request.
///
/// The ordinary path costs one look at each byte and no memory.
///
/// # Errors
/// [`BadPath`]; the request is to be refused.
pub fn decode(raw: Bytes) -> Result<PathAndQuery, BadPath> {
    if raw.first() != Some(&b'/') {
        return Err(BadPath::NoSlash);
    }
    if raw.len() > LONGEST {
        return Err(BadPath::TooLong);
    }

    if !is_clean(&raw) {
        return decode_unclean(&raw);
    }

    // The type takes any clean path up to this length.
    PathAndQuery::from_maybe_shared(raw).map_err(|_| BadPath::TooLong)
}

/// As [`decode`], of a path that another decoder has let pass; `*` passes.
///
/// # Errors
/// As [`decode`].
pub fn check(path: PathAndQuery) -> Result<PathAndQuery, BadPath> {
    let raw = path.as_str().as_bytes();
    if raw == b"*" || (raw.first() == Some(&b'/') && is_clean(raw)) {
        return Ok(path);
    }
    decode(Bytes::copy_from_slice(raw))
}

/// Whether nothing of it is changed or refused. May return false for a path that is only unusual.
fn is_clean(raw: &[u8]) -> bool {
    // Without a branch: most paths are short and clean.
    let classes = raw
        .iter()
        .fold(0, |classes, byte| classes | CLASSES[usize::from(*byte)]);
    classes & UNCLEAN == 0 && (classes & DOTS == 0 || !may_have_dots(path_of(raw)))
}

/// Class of bytes that do not pass as they are.
const UNCLEAN: u8 = 1;

/// Class of bytes that dot segments are made of.
const DOTS: u8 = 2;

/// The classes of each byte.
static CLASSES: [u8; 256] = {
    let mut classes = [UNCLEAN; 256];
    let mut byte = 0;
    while byte < 128 {
        if is_polite(byte) {
            classes[byte as usize] = if byte == b'.' || byte == b'%' {
                DOTS
            } else {
                0
            };
        }
        byte += 1;
    }
    classes
};

/// Where something stands in a path that is no longer than [`LONGEST`].
fn offset(at: usize) -> u16 {
    u16::try_from(at).unwrap_or(u16::MAX)
}

/// Whether a byte passes as it is. `[` and `]`, which RFC 3986 keeps for addresses, are usual in queries and harmless.
pub const fn is_polite(byte: u8) -> bool {
    byte.is_ascii_graphic() & !is_impolite(byte) & (byte != b'#')
}

/// Whether a byte passes percent-encoded.
const fn is_impolite(byte: u8) -> bool {
    (byte == b'"')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'\\')
        | (byte == b'^')
        | (byte == b'`')
        | (byte == b'{')
        | (byte == b'|')
        | (byte == b'}')
}

/// Whether a segment may begin with a dot, written or encoded.
fn may_have_dots(path: &[u8]) -> bool {
    memchr2_iter(b'.', b'%', path).any(|at| match path[at] {
        // Behind a slash, or behind what may be an encoded one or a backslash.
        b'.' => at
            .checked_sub(1)
            .is_none_or(|before| matches!(path[before], b'/' | b'f' | b'F' | b'c' | b'C')),
        _ => matches!(path[at..], [b'%', b'2', b'e' | b'E', ..]),
    })
}

/// The part before the query.
fn path_of(raw: &[u8]) -> &[u8] {
    &raw[..memchr(b'?', raw).unwrap_or(raw.len())]
}

/// Refuses a path from [`decode`] in which dot segments remain that could not be resolved. A query
/// is not part of it.
///
/// # Errors
/// [`BadPath::AboveRoot`] or [`BadPath::Ambiguous`]: the request is to be refused before anything is decided on it.
pub fn refuse_dots(path: &str) -> Result<(), BadPath> {
    let path = path.as_bytes();
    if !path.starts_with(b"/") || !may_have_dots(path) {
        return Ok(());
    }
    resolve(path).map(drop)
}

/// Whether a path has a dot segment for some reader. A query is not part of it.
pub fn has_dot_segments(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/')
        .any(|segment| dots(segment).is_some())
}

#[cold]
fn decode_unclean(raw: &[u8]) -> Result<PathAndQuery, BadPath> {
    refuse_bytes(raw)?;
    let path = path_of(raw);
    let mut output = resolve(path).unwrap_or_else(|_| {
        let mut unresolved = Vec::with_capacity(path.len());
        append_polite(path, &mut unresolved);
        unresolved
    });
    append_polite(&raw[path.len()..], &mut output);

    if output.len() > LONGEST {
        return Err(BadPath::TooLong);
    }
    PathAndQuery::from_maybe_shared(Bytes::from(output)).map_err(|_| BadPath::TooLong)
}

fn refuse_bytes(raw: &[u8]) -> Result<(), BadPath> {
    match raw
        .iter()
        .position(|byte| !is_polite(*byte) && !is_impolite(*byte))
    {
        Some(at) if raw[at] == b'#' => Err(BadPath::Fragment { at: offset(at) }),
        Some(at) => Err(BadPath::Byte {
            byte: raw[at],
            at: offset(at),
        }),
        None => Ok(()),
    }
}

fn append_polite(raw: &[u8], output: &mut Vec<u8>) {
    for byte in raw {
        if is_impolite(*byte) {
            output.extend([b'%', capital(byte >> 4), capital(byte & 15)]);
        } else {
            output.push(*byte);
        }
    }
}

/// Resolves dot segments (RFC 3986, section 5.2.4) of a path that begins with `/`.
fn resolve(path: &[u8]) -> Result<Vec<u8>, BadPath> {
    let mut output = Vec::with_capacity(path.len());
    let mut at = 1;
    let mut segments = path[1..].split(|byte| *byte == b'/').peekable();

    while let Some(segment) = segments.next() {
        match dots(segment) {
            Some(Dots::Other) => return Err(BadPath::Ambiguous { at: offset(at) }),
            Some(Dots::Two) => {
                let parent = output
                    .iter()
                    .rposition(|byte| *byte == b'/')
                    .ok_or(BadPath::AboveRoot { at: offset(at) })?;
                output.truncate(parent);
            }
            Some(Dots::One) => {}
            None => {
                output.push(b'/');
                append_polite(segment, &mut output);
            }
        }

        // The last one leaves a folder behind.
        if segments.peek().is_none() && dots(segment).is_some() {
            output.push(b'/');
        }
        at += segment.len() + 1;
    }

    Ok(output)
}

/// The kinds of dot segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dots {
    /// `.`
    One,
    /// `..`
    Two,
    /// For some readers only.
    Other,
}

fn dots(segment: &[u8]) -> Option<Dots> {
    let mut part = SegmentPart::default();
    let mut whole = true;
    for token in Tokens(segment) {
        match token {
            // Some readers take these for a slash.
            Token::Plain(b'\\') | Token::Encoded(b'/' | b'\\') => {
                if part.is_dots() {
                    return Some(Dots::Other);
                }
                part = SegmentPart::default();
                whole = false;
            }
            Token::Plain(byte) | Token::Encoded(byte) => part.push(byte),
        }
    }

    match (part.is_dots(), part.dots) {
        (false, _) => None,
        (true, 1) if whole && !part.parameters => Some(Dots::One),
        (true, 2) if whole && !part.parameters => Some(Dots::Two),
        (true, _) => Some(Dots::Other),
    }
}

/// The class of a segment so far, or of a part of it between possible slashes.
#[derive(Default)]
struct SegmentPart {
    dots: usize,
    other: bool,
    parameters: bool,
}

impl SegmentPart {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// As it was written.
    Plain(u8),
    /// Of a percent-encoding.
    Encoded(u8),
}

/// The bytes of a path with percent-encodings recognised; a `%` without two digits stands for
/// itself. The field is the rest of the path.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a>(pub &'a [u8]);

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
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// A hexadecimal digit, in capitals as RFC 3986, section 2.1 wants it.
pub const fn capital(digit: u8) -> u8 {
    b"0123456789ABCDEF"[(digit & 15) as usize]
}

/// Reads arbitrary bytes as a path: the result is normalised, has no dot segment unless it is
/// refused for it, and decoding it again changes nothing.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Ok(path) = decode(Bytes::copy_from_slice(data)) else {
        return;
    };
    assert!(path.as_str().starts_with('/'), "{path}");
    assert!(path.as_str().bytes().all(is_polite), "{path}");
    assert_eq!(
        has_dot_segments(path.path().as_bytes()),
        refuse_dots(path.path()).is_err(),
        "{path}"
    );
    assert_eq!(
        decode(Bytes::copy_from_slice(path.as_str().as_bytes())).as_ref(),
        Ok(&path)
    );
    assert_eq!(check(path.clone()), Ok(path));
}

#[cfg(test)]
mod tests {
    use super::*;
    use BadPath::{AboveRoot, Ambiguous, Fragment, NoSlash};

    fn decoded(raw: &str) -> Result<String, BadPath> {
        let path = decode(Bytes::copy_from_slice(raw.as_bytes()))?;
        refuse_dots(path.path()).map(|()| path.as_str().to_owned())
    }

    #[test]
    fn dot_segments_are_resolved_however_they_are_written() {
        for (raw, path) in [
            ("/a/b/c/./../../g", "/a/g"),
            ("/deb/./Packages", "/deb/Packages"),
            ("/a/../b", "/b"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/%2e/b", "/b"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/.", "/"),
            ("/%2e/", "/"),
            ("/a//../b", "/a/b"),
            ("//..", "/"),
            ("/a/../b?c=/../d", "/b?c=/../d"),
            ("/a{/../b}", "/b%7D"),
        ] {
            assert_eq!(decoded(raw).as_deref(), Ok(path), "{raw}");
        }
    }

    #[test]
    fn what_climbs_above_the_root_is_refused() {
        for (raw, at) in [
            ("/..", 1),
            ("/../", 1),
            ("/a/../../b", 6),
            ("/./%2e%2e", 3),
            ("/a/b/../../../c", 11),
        ] {
            assert_eq!(decoded(raw), Err(AboveRoot { at }), "{raw}");
        }
    }

    #[test]
    fn dot_segments_for_some_readers_only_are_refused() {
        for (raw, at) in [
            ("/a/..%2fb", 3),
            ("/a%2f..", 1),
            ("/a/..\\b", 3),
            ("/a\\..", 1),
            ("/a%5C..%5cb", 1),
            ("/x/..;x=1/b", 3),
            ("/.;/", 1),
            ("/%2E%2e%3Bx/", 1),
            ("/a/b%2F.%2fc", 3),
        ] {
            assert_eq!(decoded(raw), Err(Ambiguous { at }), "{raw}");
        }
    }

    #[test]
    fn dots_within_names_are_not_touched() {
        for raw in [
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
            "/%zz",
        ] {
            assert_eq!(decoded(raw).as_deref(), Ok(raw));
        }
    }

    #[test]
    fn impolite_bytes_pass_percent_encoded() {
        assert_eq!(
            decoded(r#"/q?query={job="node"}"#).as_deref(),
            Ok("/q?query=%7Bjob=%22node%22%7D")
        );
        assert_eq!(
            decoded(r#"/"<>\^`{|}?"<>\^`{|}"#).as_deref(),
            Ok("/%22%3C%3E%5C%5E%60%7B%7C%7D?%22%3C%3E%5C%5E%60%7B%7C%7D")
        );
        assert_eq!(
            decoded("/a[0]?b[]=1&c=%7b").as_deref(),
            Ok("/a[0]?b[]=1&c=%7b")
        );
    }

    #[test]
    fn what_stays_refused_is_named_with_byte_and_offset() {
        for (raw, bad) in [
            ("/a b", BadPath::Byte { byte: b' ', at: 2 }),
            ("/\u{fc}", BadPath::Byte { byte: 0xc3, at: 1 }),
            ("/a?b=\u{e9}", BadPath::Byte { byte: 0xc3, at: 5 }),
            ("/\x7f", BadPath::Byte { byte: 0x7f, at: 1 }),
            ("/a\t", BadPath::Byte { byte: b'\t', at: 2 }),
            ("/a#b", Fragment { at: 2 }),
            ("a", NoSlash),
            ("", NoSlash),
            ("?a", NoSlash),
        ] {
            assert_eq!(decoded(raw), Err(bad), "{raw}");
        }
        let text = decoded("/caf\u{e9}").unwrap_err().to_string();
        assert_eq!(
            text,
            "byte 0xc3 at offset 4 of the path cannot stand there; percent-encode it"
        );
    }

    #[test]
    fn classes_say_what_is_polite() {
        for byte in 0..=u8::MAX {
            let class = if b".%".contains(&byte) { DOTS } else { 0 };
            assert_eq!(
                CLASSES[usize::from(byte)],
                if is_polite(byte) { class } else { UNCLEAN },
                "{byte:#x}"
            );
        }
    }

    #[test]
    fn a_path_that_grows_has_a_length_still() {
        let raw = format!("/{}", "{".repeat(LONGEST / 2));
        assert_eq!(decoded(&raw), Err(BadPath::TooLong));
        assert_eq!(decoded(&"/".repeat(LONGEST + 1)), Err(BadPath::TooLong));
        assert!(decoded(&"/".repeat(LONGEST)).is_ok());
    }

    #[test]
    fn what_another_decoder_let_pass_is_checked() {
        let checked = |path: &'static str| {
            check(PathAndQuery::from_static(path)).map(|path| path.as_str().to_owned())
        };
        assert_eq!(checked("*").as_deref(), Ok("*"));
        assert_eq!(checked("/a/../{").as_deref(), Ok("/%7B"));
        assert_eq!(checked("?x"), Err(NoSlash));
        let foreign = PathAndQuery::try_from("/\u{fc}").unwrap();
        assert_eq!(check(foreign), Err(BadPath::Byte { byte: 0xc3, at: 1 }));
    }
}
