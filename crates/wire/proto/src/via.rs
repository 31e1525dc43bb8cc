//! The `Via` field (RFC 9110, section 7.6.3): who handled a message before, for finding loops.
//!
//! ```text
//! Via = #( received-protocol RWS received-by [ RWS comment ] )
//! ```

use std::borrow::Cow;

use http::Version;
use http::header::HeaderValue;

#[cfg(test)]
use crate::fields::FieldValue;
use crate::fields::Fields;
use crate::fields::names::VIA;
use crate::quoted;

/// The entries of a node, one for each version, prepared once.
#[derive(Debug, Clone)]
pub struct Node {
    name: String,
    entries: [HeaderValue; RECEIVED_PROTOCOLS.len()],
}

/// The proxies that a message has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// The hops that it took through proxies that say so.
    pub hops: usize,
    /// The entries that name this node, in any case: with more than 0 the message was here before.
    pub own: usize,
}

impl Node {
    /// A node of this name. A byte that no pseudonym may hold is written as `_`.
    pub fn new(name: &str) -> Self {
        let name = pseudonym(name).into_owned();
        let entries =
            RECEIVED_PROTOCOLS.map(|protocol| quoted::field_value([protocol, &name].join(" ")));
        Self { name, entries }
    }

    /// Adds this node, which received the message over `version`, as the last entry.
    pub fn append(&self, fields: &mut Fields, version: Version) {
        fields.append(VIA, &self.entries[received_protocol(version)]);
    }

    /// Counts the entries.
    pub fn passed(&self, fields: &Fields) -> Passed {
        let is_own = |entry| {
            words(entry)
                .nth(1)
                .is_some_and(|by| by.eq_ignore_ascii_case(self.name.as_bytes()))
        };

        let count = |Passed { hops, own }, entry| Passed {
            hops: hops + 1,
            own: own + usize::from(is_own(entry)),
        };

        entries(fields).fold(Passed { hops: 0, own: 0 }, count)
    }
}

/// Adds a domain to the name of every proxy that a message has passed, as pseudonyms at the border between two networks (RFC 9110,
/// 7.6.3); their number stays. Comments are left out.
pub fn qualify(fields: &mut Fields, domain: &str) {
    let mut line = Vec::new();
    for entry in entries(fields) {
        let mut words = words(entry);
        if !line.is_empty() {
            line.extend_from_slice(b", ");
        }
        line.extend(words.next().into_iter().flatten().map(plain));
        line.push(b' ');
        line.extend(words.next().unwrap_or(b"_").iter().map(plain));
        line.push(b'.');
        line.extend_from_slice(domain.as_bytes());
    }
    fields.remove(VIA);
    // What came as a value is one without its commas, too.
    if let Ok(value) = HeaderValue::from_bytes(&line)
        && !line.is_empty()
    {
        fields.insert(VIA, value);
    }
}

/// A byte of a word that neither begins a comment nor ends an entry.
fn plain(byte: &u8) -> u8 {
    match byte {
        b'(' | b')' | b',' | b'\\' | b'"' => b'_',
        byte => *byte,
    }
}

/// The protocol before a node's name.
const RECEIVED_PROTOCOLS: [&str; 5] = ["0.9", "1.0", "1.1", "2", "3"];

fn received_protocol(version: Version) -> usize {
    match version {
        Version::HTTP_09 => 0,
        Version::HTTP_10 => 1,
        Version::HTTP_2 => 3,
        Version::HTTP_3 => 4,
        _ => 2,
    }
}

fn pseudonym(node: &str) -> Cow<'_, str> {
    if node.bytes().all(quoted::is_tchar) {
        return Cow::Borrowed(node);
    }
    let allowed = |character: char| u8::try_from(character).is_ok_and(quoted::is_tchar);
    node.chars()
        .map(|character| if allowed(character) { character } else { '_' })
        .collect()
}

fn entries(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    let members = fields.values(VIA).flat_map(|line| split(line.as_bytes()));
    members
        .map(<[u8]>::trim_ascii)
        .filter(|entry| !entry.is_empty())
}

fn words(entry: &[u8]) -> impl Iterator<Item = &[u8]> {
    entry
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// Splits a line at the commas outside comments. When parentheses do not match, every comma counts, so that an open
/// comment cannot hide the entries that later hops joined to the line.
fn split(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut depth = if has_balanced_comments(line) {
        Some(Comment::default())
    } else {
        None
    };
    line.split(move |&byte| {
        let outside = depth
            .as_mut()
            .is_none_or(|comment| comment.feed(byte).is_some_and(|depth| depth == 0));
        byte == b',' && outside
    })
}

fn has_balanced_comments(line: &[u8]) -> bool {
    if !line.iter().any(|byte| matches!(byte, b'(' | b')')) {
        return true;
    }
    let mut comment = Comment::default();
    line.iter().all(|&byte| comment.feed(byte).is_some()) && comment.depth == 0
}

/// Where in nested comments a reader is (RFC 9110, section 5.6.5).
#[derive(Default)]
struct Comment {
    depth: usize,
    escaped: bool,
}

impl Comment {
    /// The depth after `byte`; `None` for a closing bracket without an opening one.
    fn feed(&mut self, byte: u8) -> Option<usize> {
        let escaped = std::mem::take(&mut self.escaped);
        match byte {
            _ if escaped => {}
            b'\\' if self.depth > 0 => self.escaped = true,
            b'(' => self.depth += 1,
            b')' => self.depth = self.depth.checked_sub(1)?,
            _ => {}
        }

        Some(self.depth)
    }
}

/// Reads arbitrary `Via` lines: nothing panics, and an entry that is added is counted once, also when a later hop joins
/// all lines into one.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let mut fields = Fields::new();
    for line in data.split(|&byte| byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(line) {
            fields.append(VIA, value);
        }
    }

    let node = Node::new("node");
    let shouted = Node::new("NODE");
    let before = node.passed(&fields);
    assert!(before.own <= before.hops);
    node.append(&mut fields, Version::HTTP_2);
    assert_eq!(
        shouted.passed(&fields),
        Passed {
            hops: before.hops + 1,
            own: before.own + 1
        }
    );

    let mut elsewhere = fields.clone();
    qualify(&mut elsewhere, "b.test");
    let hops = node.passed(&fields).hops;
    assert_eq!(node.passed(&elsewhere), Passed { hops, own: 0 });

    let lines: Vec<_> = fields.values(VIA).map(FieldValue::as_bytes).collect();
    let joined = HeaderValue::from_bytes(&lines.join(&b", "[..]));
    if let Ok(joined) = joined {
        fields.insert(VIA, joined);
        assert!(node.passed(&fields).own > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(fields: &mut Fields, version: Version, node: &str) {
        Node::new(node).append(fields, version);
    }

    fn seen(fields: &Fields, node: &str) -> usize {
        Node::new(node).passed(fields).own
    }

    fn hops(fields: &Fields) -> usize {
        Node::new("").passed(fields).hops
    }

    fn via(lines: &[&'static str]) -> Fields {
        let mut fields = Fields::new();
        for line in lines {
            fields.append(VIA, HeaderValue::from_static(line));
        }
        fields
    }

    #[test]
    fn adds_an_entry_for_each_version() {
        let mut fields = Fields::new();
        for version in [
            Version::HTTP_10,
            Version::HTTP_11,
            Version::HTTP_2,
            Version::HTTP_3,
        ] {
            append(&mut fields, version, "alice-laptop");
        }
        let lines: Vec<_> = fields.values(VIA).collect();
        assert_eq!(
            lines,
            [
                "1.0 alice-laptop",
                "1.1 alice-laptop",
                "2 alice-laptop",
                "3 alice-laptop"
            ]
        );
        assert_eq!(seen(&fields, "alice-laptop"), 4);
    }

    #[test]
    fn writes_a_strange_node_name_so_that_it_stays_one_entry() {
        let mut fields = Fields::new();
        append(&mut fields, Version::HTTP_11, "a, 1.1 b\r\n\u{e9}(");
        assert_eq!(fields.get(VIA).unwrap(), "1.1 a__1.1_b____");
        assert_eq!(
            (hops(&fields), seen(&fields, "a, 1.1 b\r\n\u{e9}(")),
            (1, 1)
        );
    }

    #[test]
    fn counts_hops_and_own_entries_over_lines_and_commas() {
        let fields = via(&[
            "1.0 fred, 1.1 p.example.net",
            " , HTTP/1.1 Node (Apache/1.1),,2 nodes",
            "1.1 node:8080",
        ]);
        assert_eq!(
            (
                hops(&fields),
                seen(&fields, "node"),
                seen(&fields, "absent")
            ),
            (5, 1, 0)
        );
    }

    #[test]
    fn reads_nothing_into_comments() {
        let fields = via(&[r"1.1 a (see (x, 1.1 node), \), 1.1 node), 1.1 b"]);
        assert_eq!((hops(&fields), seen(&fields, "node")), (2, 0));
    }

    #[test]
    fn finds_an_entry_behind_an_open_comment() {
        for line in [
            "1.1 a (, 1.1 node",
            r"1.1 a (\, 1.1 node",
            "1.1 a )(, 1.1 node",
            "1.1 a (((), 1.1 node",
        ] {
            assert_eq!(seen(&via(&[line]), "node"), 1, "{line}");
        }
    }

    #[test]
    fn takes_no_entry_without_a_name_for_ours() {
        assert_eq!(seen(&via(&["node, 1.1, \t"]), "node"), 0);
    }

    #[test]
    fn nodes_of_another_overlay_are_no_nodes_of_this_one() {
        let mut fields = via(&["1.1 hub (a, b), 2 edge", "3 hub"]);
        qualify(&mut fields, "b.test");
        assert_eq!(fields.values(VIA).count(), 1);
        let line = fields.values(VIA).next().unwrap();
        assert_eq!(
            line.as_bytes(),
            b"1.1 hub.b.test, 2 edge.b.test, 3 hub.b.test"
        );
        assert_eq!(seen(&fields, "hub"), 0);
        assert_eq!(seen(&fields, "hub.b.test"), 2);
        let mut none = Fields::new();
        qualify(&mut none, "b.test");
        assert_eq!(none.values(VIA).count(), 0);
    }
}
