//! YAML to values. Aliases are followed, as Envoy follows them, within a bound of values.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput};

use super::node::{DEEPEST, MOST, MapEntry, Node, NodeValue, too_deep, too_many};
use crate::text::number;
use crate::unreadable::Unreadable;

/// Reads the first document.
pub(super) fn parse(text: &str) -> Result<Node, Unreadable> {
    let mut reader = YamlReader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        left: MOST,
    };

    loop {
        match reader.event()? {
            (Event::StreamStart | Event::DocumentStart(_), _) => {}
            (Event::StreamEnd, _) => return Err(Unreadable::new("it is empty")),
            (event, span) => return reader.node(event, span, 0),
        }
    }
}

struct YamlReader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Values by the number of their anchor, with how many there are in each.
    anchors: HashMap<usize, (Node, usize)>,
    left: usize,
}

impl<'a> YamlReader<'a> {
    fn event(&mut self) -> Result<(Event<'a>, Span), Unreadable> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(Unreadable::at(
                number(error.marker().line()),
                error.info().to_owned(),
            )),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Unreadable> {
        let line = number(span.start.line());
        if depth > DEEPEST {
            return Err(too_deep(line));
        }
        self.take(1, line)?;

        let before = self.left;
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let is_quoted = !matches!(style, ScalarStyle::Plain);
                (Node::of_scalar(line, text.into_owned(), is_quoted), anchor)
            }
            Event::SequenceStart(anchor, _) => (self.list(line, depth)?, anchor),
            Event::MappingStart(anchor, _) => (self.map(line, depth)?, anchor),
            Event::Alias(anchor) => return self.alias(anchor, line),
            _ => (Node::of_scalar(line, String::new(), false), 0),
        };

        if anchor > 0 {
            let count = before - self.left + 1;
            self.anchors.insert(anchor, (node.clone(), count));
        }
        Ok(node)
    }

    /// Counts values.
    fn take(&mut self, count: usize, line: u32) -> Result<(), Unreadable> {
        self.left = self.left.checked_sub(count).ok_or_else(|| too_many(line))?;
        Ok(())
    }

    /// The value that an alias repeats. An alias within its own anchor has no value yet.
    fn alias(&mut self, anchor: usize, line: u32) -> Result<Node, Unreadable> {
        let known = self.anchors.get(&anchor);
        let (node, count) = known.ok_or_else(|| {
            Unreadable::at(line, "this alias stands in the value that it repeats")
        })?;
        let node = node.clone();
        let count = *count;
        self.take(count, line)?;
        Ok(node)
    }

    fn list(&mut self, line: u32, depth: usize) -> Result<Node, Unreadable> {
        let mut items = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => {
                    let value = NodeValue::List(items);
                    return Ok(Node { line, value });
                }
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, line: u32, depth: usize) -> Result<Node, Unreadable> {
        let mut entries = Vec::new();
        loop {
            let key = match self.event()? {
                (Event::MappingEnd, _) => return Ok(Node::map(line, entries)),
                (event, span) => self.node(event, span, depth + 1)?,
            };
            let Some(name) = key.as_text() else {
                return Err(Unreadable::at(key.line, "this key is not text"));
            };

            let (event, span) = self.event()?;
            let node = self.node(event, span, depth + 1)?;
            entries.push(MapEntry::new(name.to_owned(), key.line, node));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_are_followed() {
        let root = parse("a: &x { b: 1 }\nc: *x\n").unwrap();
        assert_eq!(root.field("c").unwrap().number("b"), Some(1));
    }

    #[test]
    fn aliases_within_themselves_and_a_million_values_are_refused() {
        let error = parse("a: &x [ *x ]\n").unwrap_err();
        assert!(error.reason.contains("alias"), "{error}");

        let mut text = String::from("a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n");
        for level in 1..10 {
            let below = format!("*a{},", level - 1).repeat(10);
            text += &format!("a{level}: &a{level} [{below}]\n");
        }
        let error = parse(&text).unwrap_err();
        assert!(error.reason.contains("more than"), "{error}");
    }

    #[test]
    fn a_deep_file_is_refused() {
        let error = parse(&"[".repeat(100_000)).unwrap_err();
        assert!(error.line.is_some(), "{error}");
    }

    #[test]
    fn a_broken_file_is_refused_with_its_line() {
        assert_eq!(parse("a: 1\nb: [\n").unwrap_err().line, Some(3));
        assert!(parse("").is_err());
    }
}
