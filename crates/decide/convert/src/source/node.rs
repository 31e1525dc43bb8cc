//! A value with its line, which remembers whether it was looked at.

use std::cell::Cell;

use crate::quantity;
use crate::unreadable::Unreadable;

/// Depth of nested maps and lists: their readers recurse as deep.
#[doc(alias = "bound")]
pub(super) const DEEPEST: usize = 64;

/// Values of a file, those that aliases repeat counted each time: so no few bytes become many.
#[doc(alias = "bound")]
pub(super) const MOST: usize = 200_000;

/// A value and its line.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(super) value: NodeValue,
}

#[derive(Debug, Clone)]
pub(super) enum NodeValue {
    Null,
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<MapEntry>),
}

/// A text, a number or a truth value, which differ only where it matters.
#[derive(Debug, Clone)]
pub(super) struct Scalar {
    text: String,
    is_quoted: bool,
}

#[derive(Debug, Clone)]
pub(super) struct MapEntry {
    key: String,
    line: u32,
    node: Node,
    heed: Cell<Heed>,
}

/// How far an entry was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heed {
    Unread,
    /// Its entries count for themselves.
    Read,
    /// With all that is in it.
    Whole,
}

/// A key that no one looked at.
pub(crate) struct UnreadKey {
    pub(crate) line: u32,
    /// The path, such as `static_resources.listeners[0].drain_type`.
    pub(crate) path: String,
}

impl Node {
    pub(super) fn map(line: u32, entries: Vec<MapEntry>) -> Self {
        Self {
            line,
            value: NodeValue::Map(entries),
        }
    }

    fn entry(&self, key: &str) -> Option<&MapEntry> {
        let NodeValue::Map(entries) = &self.value else {
            return None;
        };
        entries.iter().find(|entry| is_key(&entry.key, key))
    }

    /// Whether a map has this key. The key does not count as looked at.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// The value under a key, which does not count as looked at.
    pub(crate) fn peek(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The values in a map or a list. They do not count as looked at.
    pub(crate) fn children(&self) -> Vec<&Self> {
        match &self.value {
            NodeValue::Map(entries) => entries.iter().map(|entry| &entry.node).collect(),
            NodeValue::List(items) => items.iter().collect(),
            NodeValue::Null | NodeValue::Scalar(_) => Vec::new(),
        }
    }

    /// The same value, all of which stands in this line.
    pub(crate) fn at_line(mut self, line: u32) -> Self {
        self.line = line;
        self.value = match self.value {
            NodeValue::List(items) => {
                NodeValue::List(items.into_iter().map(|item| item.at_line(line)).collect())
            }
            NodeValue::Map(entries) => {
                let moved = entries.into_iter().map(|mut entry| {
                    entry.line = line;
                    entry.node = entry.node.at_line(line);
                    entry
                });
                NodeValue::Map(moved.collect())
            }
            scalar => scalar,
        };
        self
    }

    /// The value under a key, which is looked at now; `None` if it is null, too.
    pub(crate) fn field(&self, key: &str) -> Option<&Self> {
        let entry = self.entry(key)?;
        if entry.heed.get() == Heed::Unread {
            entry.heed.set(Heed::Read);
        }
        (!matches!(entry.node.value, NodeValue::Null)).then_some(&entry.node)
    }

    /// The value at the end of these keys.
    pub(crate) fn at(&self, keys: &[&str]) -> Option<&Self> {
        keys.iter().try_fold(self, |node, key| node.field(key))
    }

    /// Counts these keys, with all that is in them, as looked at.
    pub(crate) fn skip(&self, keys: &[&str]) {
        for entry in keys.iter().filter_map(|key| self.entry(key)) {
            entry.heed.set(Heed::Whole);
        }
    }

    /// Counts all keys as looked at.
    pub(crate) fn skip_all(&self) {
        match &self.value {
            NodeValue::Map(entries) => entries.iter().for_each(|entry| entry.heed.set(Heed::Whole)),
            NodeValue::List(items) => items.iter().for_each(Self::skip_all),
            NodeValue::Null | NodeValue::Scalar(_) => {}
        }
    }

    /// The text of a scalar.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    /// The items of a list; any other value is a list of itself.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.value {
            NodeValue::Null => &[],
            NodeValue::List(items) => items,
            NodeValue::Scalar(_) | NodeValue::Map(_) => std::slice::from_ref(self),
        }
    }

    /// The keys of a map, in order, and their values. They do not count as looked at.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &Self)> {
        let entries = match &self.value {
            NodeValue::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        entries
            .iter()
            .map(|entry| (entry.key.as_str(), &entry.node))
    }

    /// The text under a key.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.field(key)?.as_text()
    }

    /// The texts under a key: one, or a list of them.
    pub(crate) fn texts(&self, key: &str) -> Vec<&str> {
        self.list(key).iter().filter_map(Self::as_text).collect()
    }

    /// The items under a key.
    pub(crate) fn list(&self, key: &str) -> &[Self] {
        self.field(key).map_or(&[], Self::items)
    }

    /// The whole number under a key. Protocol buffers write large ones as texts.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    /// The truth value under a key; `false` without one.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.field(key).is_some_and(Self::is_true)
    }

    /// The truth value under a key, if there is one.
    pub(crate) fn choice(&self, key: &str) -> Option<bool> {
        self.field(key).map(Self::is_true)
    }

    fn is_true(&self) -> bool {
        matches!(&self.value, NodeValue::Scalar(scalar) if !scalar.is_quoted && scalar.text == "true")
    }

    /// Milliseconds of the duration under a key.
    pub(crate) fn milliseconds(&self, key: &str) -> Option<u64> {
        quantity::milliseconds(self.text(key)?)
    }

    /// All keys below this value that no one looked at.
    pub(crate) fn unread(&self) -> Vec<UnreadKey> {
        let mut found = Vec::new();
        self.collect("", &mut found);
        found
    }

    fn collect(&self, path: &str, found: &mut Vec<UnreadKey>) {
        match &self.value {
            NodeValue::Map(entries) => entries.iter().for_each(|entry| entry.collect(path, found)),
            NodeValue::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.collect(&format!("{path}[{index}]"), found);
                }
            }
            NodeValue::Null | NodeValue::Scalar(_) => {}
        }
    }

    pub(super) fn of_scalar(line: u32, text: String, is_quoted: bool) -> Self {
        let is_null = !is_quoted && matches!(text.as_str(), "" | "~" | "null");
        let value = match is_null {
            true => NodeValue::Null,
            false => NodeValue::Scalar(Scalar { text, is_quoted }),
        };
        Self { line, value }
    }
}

impl MapEntry {
    pub(super) fn new(key: String, line: u32, node: Node) -> Self {
        Self {
            key,
            line,
            node,
            heed: Cell::new(Heed::Unread),
        }
    }

    fn collect(&self, path: &str, found: &mut Vec<UnreadKey>) {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{}", self.key);
        match self.heed.get() {
            Heed::Unread => found.push(UnreadKey {
                line: self.line,
                path,
            }),
            Heed::Read => self.node.collect(&path, found),
            Heed::Whole => {}
        }
    }
}

/// Whether a key is this one: protocol buffers in JSON may write `lowerCamelCase`.
fn is_key(written: &str, key: &str) -> bool {
    if written == key {
        return true;
    }
    if !key.contains('_') || written.contains('_') {
        return false;
    }
    let mut camel = String::with_capacity(key.len());
    for (index, word) in key.split('_').enumerate() {
        let mut letters = word.chars();
        match letters.next() {
            Some(first) if index > 0 => camel.push(first.to_ascii_uppercase()),
            Some(first) => camel.push(first),
            None => {}
        }
        camel.push_str(letters.as_str());
    }
    written == camel
}

pub(super) fn too_deep(line: u32) -> Unreadable {
    let reason = format!("maps and lists are more than {DEEPEST} levels deep here");
    Unreadable::at(line, reason)
}

pub(super) fn too_many(line: u32) -> Unreadable {
    let reason = format!("it has more than {MOST} values, with those that aliases repeat");
    Unreadable::at(line, reason)
}
