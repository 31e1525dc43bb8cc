//! The fields `traceparent` and `tracestate` (W3C Trace Context, Level 1 and Level 2): which trace a request belongs to.
//!
//! ```text
//! traceparent = version "-" trace-id "-" parent-id "-" trace-flags        ; 2, 32, 16 and 2 digits of lowhex
//! tracestate  = key "=" value *( OWS "," OWS key "=" value )              ; at most 32 members
//! ```
//!
//! Any other form is treated as absent, as the specification asks: the caller then begins a new
//! trace.

use std::collections::HashSet;
use std::fmt;
use std::fmt::Write as _;

use http::header::HeaderValue;

use crate::fields::{AsFieldValue, FieldValue, Fields};

/// Name of the field that holds trace, parent and flags.
pub use crate::fields::names::TRACEPARENT;

/// Name of the field in which tracing systems keep their own state.
pub use crate::fields::names::TRACESTATE;

/// Members of a `tracestate` (section 3.3.1.1): with more, the whole field is invalid.
#[doc(alias = "bound")]
const MAX_MEMBERS: usize = 32;

/// Bytes of a `tracestate` that are passed on: the minimum of the specification (section 3.3.1.5).
#[doc(alias = "bound")]
const MAX_STATE: usize = 512;

/// Members longer than this are the first to go when a `tracestate` is too long (section 3.3.1.5).
const LONG_MEMBER: usize = 128;

/// Length of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// Digits as the fields write them; capitals are invalid.
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// An identifier of `N` bytes, not all of which are zero; written in lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id<const N: usize>([u8; N]);

/// Names a trace.
pub type TraceId = Id<16>;

/// Names one step of a trace: a span.
pub type SpanId = Id<8>;

impl<const N: usize> Id<N> {
    /// The identifier of these bytes; all zeros are invalid (sections 3.2.2.3 and 3.2.2.4).
    pub fn new(bytes: [u8; N]) -> Option<Self> {
        bytes.iter().any(|&byte| byte != 0).then_some(Self(bytes))
    }

    /// Its bytes.
    pub fn bytes(self) -> [u8; N] {
        self.0
    }

    fn parse(digits: &[u8]) -> Option<Self> {
        let mut bytes = [0; N];
        if digits.len() != 2 * N {
            return None;
        }

        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = parse_byte(pair)?;
        }
        Self::new(bytes)
    }
}

impl<const N: usize> fmt::Display for Id<N> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| {
            digits(*byte)
                .iter()
                .try_for_each(|digit| out.write_char(char::from(*digit)))
        })
    }
}

/// Where in which trace a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The sender's span.
    pub parent: SpanId,
    /// Whether the sender may have recorded it (section 3.2.2.5.1).
    pub sampled: bool,
    /// Whether the last 7 bytes of the trace's identifier are random (Level 2, section 3.2.2.5.2).
    pub random: bool,
}

impl TraceContext {
    /// Reads the value of `traceparent`. Of an unknown version, the parts that version 00 defines
    /// are read (section 3.2.4).
    pub fn parse(value: &[u8]) -> Option<Self> {
        let version = parse_byte(value.get(..2)?)?;
        let rest = value.get(2..)?;
        let ended = match (version, value.get(LENGTH)) {
            (0xff, _) => false,
            (0, further) => further.is_none(),
            (_, further) => further.is_none_or(|byte| *byte == b'-'),
        };

        let dashes = [0, 33, 50].iter().all(|at| rest.get(*at) == Some(&b'-'));
        if !ended || !dashes {
            return None;
        }

        let trace = TraceId::parse(rest.get(1..33)?)?;
        let parent = SpanId::parse(rest.get(34..50)?)?;
        let flags = parse_byte(rest.get(51..53)?)?;

        Some(Self {
            trace,
            parent,
            sampled: flags & 1 != 0,
            random: flags & 2 != 0,
        })
    }

    /// The context of a request: that of its only `traceparent` line, if it is valid.
    pub fn of(fields: &Fields) -> Option<Self> {
        let mut lines = fields.values(TRACEPARENT);
        let line = lines.next().filter(|_| lines.next().is_none())?;
        Self::parse(line.as_bytes())
    }

    /// The value of `traceparent`, in version 00.
    pub fn format(&self) -> Traceparent {
        let flags = u8::from(self.sampled) | u8::from(self.random) << 1;
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        put(&self.trace.0, &mut text[3..35]);
        put(&self.parent.0, &mut text[36..52]);
        put(&[flags], &mut text[53..]);
        Traceparent(text)
    }
}

/// The value of `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traceparent([u8; LENGTH]);

impl Traceparent {
    /// Its text.
    pub fn as_str(&self) -> &str {
        // Digits and dashes only.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl AsFieldValue for Traceparent {
    /// The value does not repeat: in the table of HPACK or QPACK it would evict lines that do.
    fn field_value(&self) -> FieldValue<'_> {
        FieldValue::of_text(&self.0).secret()
    }
}

/// Writes bytes as digits.
fn put(bytes: &[u8], text: &mut [u8]) {
    for (byte, pair) in bytes.iter().zip(text.chunks_exact_mut(2)) {
        pair.copy_from_slice(&digits(*byte));
    }
}

/// A byte as two digits of lower-case hexadecimal.
fn digits(byte: u8) -> [u8; 2] {
    [
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]
}

/// Two digits of lower-case hexadecimal.
fn parse_byte(pair: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    }
}

/// The part of a request's `tracestate` that is passed on, as one line: all of it if it is short,
/// else the entries that fit (section 3.3.1.5). `None` if it is empty or invalid.
pub fn state(fields: &Fields) -> Option<HeaderValue> {
    if !fields.contains_key(TRACESTATE) {
        return None;
    }
    let mut members: Vec<&str> = Vec::new();
    let mut keys = HashSet::new();

    for line in fields.values(TRACESTATE) {
        for member in line
            .to_str()
            .ok()?
            .split(',')
            .map(|member| member.trim_matches([' ', '\t']))
        {
            if member.is_empty() {
                continue;
            }
            let (key, value) = member.split_once('=')?;
            if !is_key(key) || !is_value(value) || !keys.insert(key) || members.len() == MAX_MEMBERS
            {
                return None;
            }
            members.push(member);
        }
    }

    shorten(&mut members);
    HeaderValue::try_from(members.join(","))
        .ok()
        .filter(|value| !value.is_empty())
}

/// Removes whole members, long ones first, then the last ones, until the rest fits.
fn shorten(members: &mut Vec<&str>) {
    let length = |members: &[&str]| members.iter().map(|member| member.len() + 1).sum::<usize>();
    while length(members) > MAX_STATE + 1 {
        let at = members
            .iter()
            .rposition(|member| member.len() > LONG_MEMBER)
            .unwrap_or(members.len() - 1);
        members.remove(at);
    }
}

/// Section 3.3.1.3.1, in the wider form of Level 2.
fn is_key(key: &str) -> bool {
    let first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let rest =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
    key.len() <= 256 && key.as_bytes().first().is_some_and(first) && key.bytes().all(rest)
}

/// Section 3.3.1.3.2; spaces at its end were cut off before.
fn is_value(value: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=';
    !value.is_empty() && value.len() <= 256 && value.bytes().all(allowed)
}

/// Reads arbitrary lines of both fields: accepted fields survive a round trip, and a state fits its
/// bound.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let (parent, states) = data.split_at(
        data.iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(data.len()),
    );
    if let Some(context) = TraceContext::parse(parent) {
        assert_eq!(
            TraceContext::parse(context.format().as_str().as_bytes()),
            Some(context)
        );
        assert!(parent.len() >= LENGTH && parent[..LENGTH].is_ascii());
    }

    let mut fields = Fields::new();
    for line in states.split(|&byte| byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            fields.append(TRACESTATE, value);
        }
    }

    if let Some(kept) = state(&fields) {
        assert!(!kept.is_empty() && kept.len() <= MAX_STATE);
        fields.insert(TRACESTATE, kept.clone());
        assert_eq!(state(&fields), Some(kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of section 3.2.3.
    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn states(lines: &[&str]) -> Option<String> {
        let mut fields = Fields::new();
        for line in lines {
            fields.append(TRACESTATE, line.parse::<HeaderValue>().unwrap());
        }
        state(&fields).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn reads_and_writes_the_specifications_examples() {
        let context = TraceContext::parse(EXAMPLE.as_bytes()).unwrap();
        assert_eq!(
            context.trace.to_string(),
            "4bf92f3577b34da6a3ce929d0e0e4736"
        );
        assert_eq!(context.parent.to_string(), "00f067aa0ba902b7");
        assert_eq!((context.sampled, context.random), (true, false));
        assert_eq!(context.format().as_str(), EXAMPLE);
        let random = EXAMPLE.replace("-01", "-03");
        assert_eq!(
            TraceContext::parse(random.as_bytes())
                .unwrap()
                .format()
                .as_str(),
            random
        );
    }

    #[test]
    fn reads_later_versions_as_far_as_it_knows_them() {
        for later in ["cc-*", "cc-*-what-the-future-will-be"] {
            let later = later.replace('*', &EXAMPLE[3..]);
            assert_eq!(
                TraceContext::parse(later.as_bytes())
                    .unwrap()
                    .format()
                    .as_str(),
                EXAMPLE,
                "{later}"
            );
        }
    }

    #[test]
    fn takes_nothing_else_for_a_context() {
        let body = &EXAMPLE[2..];
        let bad = [
            String::new(),
            format!("ff{body}"),
            format!("0{body}"),
            format!("00{body}-"),
            format!("00{body}-01"),
            format!("cc{body}."),
            format!("00{body} "),
            format!(" 00{body}"),
            EXAMPLE.to_uppercase(),
            EXAMPLE.replace("-01", "-0"),
            EXAMPLE.replace("-01", "-0x"),
            EXAMPLE.replace("4bf9", "4bf"),
            EXAMPLE.replace('-', "_"),
            EXAMPLE.replace("00f067aa0ba902b7", "0000000000000000"),
            EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
        ];
        for value in bad {
            assert_eq!(TraceContext::parse(value.as_bytes()), None, "{value:?}");
        }
    }

    #[test]
    fn two_lines_are_none() {
        let mut fields = Fields::new();
        assert_eq!(TraceContext::of(&fields), None);
        fields.append(TRACEPARENT, HeaderValue::from_static(EXAMPLE));
        assert!(TraceContext::of(&fields).is_some());
        fields.append(TRACEPARENT, HeaderValue::from_static(EXAMPLE));
        assert_eq!(TraceContext::of(&fields), None);
    }

    #[test]
    fn states_are_joined_in_their_order() {
        assert_eq!(
            states(&["rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"]).unwrap(),
            "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
        );
        assert_eq!(
            states(&["a=1 , ,b= 2", "1@c/d*_-=x y"]).unwrap(),
            "a=1,b= 2,1@c/d*_-=x y"
        );
        assert_eq!(states(&["", ","]), None);
    }

    #[test]
    fn one_bad_member_spoils_the_state() {
        let many: Vec<String> = (0..33).map(|number| format!("k{number}=v")).collect();
        for bad in [
            "a",
            "=1",
            "a=",
            "A=1",
            "_a=1",
            "a=1,a=2",
            "a=b=c",
            "a=\u{e9}",
            "a.b=1",
            &many.join(","),
        ] {
            assert_eq!(states(&[bad]), None, "{bad}");
        }
        assert!(states(&[&many[1..].join(",")]).is_some());
        assert!(states(&[&format!("{}=1", "k".repeat(256))]).is_some());
        assert_eq!(states(&[&format!("{}=1", "k".repeat(257))]), None);
    }

    #[test]
    fn a_long_state_loses_long_members_first_and_then_the_last() {
        let (long, short) = (format!("long={}", "x".repeat(200)), "y".repeat(100));
        let all = format!("a={short},{long},b={short},c={short},d={short},e={short}");
        let kept = format!("a={short},b={short},c={short},d={short}");
        assert_eq!(states(&[&all]).unwrap(), kept);
    }
}
