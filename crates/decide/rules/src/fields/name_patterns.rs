//! Patterns of field names by which `_` and `-` are the same, as they are for many origins.

use std::borrow::Cow;

use hermes_config::model::FieldPattern;

/// Bits for the first two letters of names, five of each.
const PAIRS: usize = 1024;

/// Patterns of names. Most names are passed over by their first two letters.
#[derive(Debug, Clone)]
pub(super) struct NamePatterns {
    /// With hyphens.
    patterns: Vec<FieldPattern>,
    /// First two letters of names that a pattern may match.
    pairs: Box<[bool; PAIRS]>,
}

impl NamePatterns {
    pub(super) fn new<'a>(patterns: impl IntoIterator<Item = &'a FieldPattern>) -> Self {
        let hyphened = patterns.into_iter().map(|pattern| FieldPattern {
            prefix: hyphened(&pattern.prefix).into_owned(),
            ..pattern.clone()
        });
        let patterns: Vec<_> = hyphened.collect();
        let mut pairs = Box::new([false; PAIRS]);
        for pattern in &patterns {
            match pattern.prefix.as_bytes() {
                [] => pairs.fill(pattern.wildcard),
                [first] => (0..=u8::MAX).for_each(|second| pairs[pair(*first, second)] = true),
                [first, second, ..] => pairs[pair(*first, *second)] = true,
            }
        }

        Self { patterns, pairs }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FieldPattern> {
        self.patterns.iter()
    }

    /// Whether one of them matches, however the name is written; `name` is in lower case.
    pub(super) fn covers(&self, name: &str) -> bool {
        let maybe = match name.as_bytes() {
            [first, second, ..] => self.pairs[pair(*first, *second)],
            _ => true,
        };
        maybe && {
            let name = hyphened(name);
            self.patterns.iter().any(|pattern| pattern.matches(&name))
        }
    }
}

fn hyphened(name: &str) -> Cow<'_, str> {
    match name.contains('_') {
        true => Cow::Owned(name.replace('_', "-")),
        false => Cow::Borrowed(name),
    }
}

/// `_` counts as `-`.
fn pair(first: u8, second: u8) -> usize {
    let five = |byte: u8| usize::from(if byte == b'_' { b'-' } else { byte } & 31);
    five(first) * 32 + five(second)
}
