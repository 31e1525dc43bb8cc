//! JSON as people write it: with comments (`//`, `/* */`, `#`) and commas before closing brackets (RFC 8259 otherwise).

use super::node::{DEEPEST, MOST, MapEntry, Node, NodeValue, too_deep, too_many};
use crate::text::number;
use crate::unreadable::Unreadable;

pub(super) fn parse(text: &str) -> Result<Node, Unreadable> {
    let mut reader = JsonReader {
        rest: text,
        line: 1,
        left: MOST,
    };
    let node = reader.value(0)?;
    reader.space()?;
    match reader.rest.is_empty() {
        true => Ok(node),
        false => Err(reader.wrong("something stands behind the end")),
    }
}

struct JsonReader<'a> {
    rest: &'a str,
    line: u32,
    left: usize,
}

impl JsonReader<'_> {
    fn wrong(&self, reason: &str) -> Unreadable {
        Unreadable::at(self.line, reason)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn skip(&mut self, bytes: usize) {
        let skipped = &self.rest[..bytes];
        let lines = skipped.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self.line.saturating_add(number(lines));
        self.rest = &self.rest[bytes..];
    }

    /// Passes over space and comments.
    fn space(&mut self) -> Result<(), Unreadable> {
        loop {
            let spaces = self.rest.len() - self.rest.trim_start().len();
            self.skip(spaces);
            let comment = if self.rest.starts_with("//") || self.rest.starts_with('#') {
                self.rest.find('\n').unwrap_or(self.rest.len())
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/");
                end.ok_or_else(|| self.wrong("this comment has no end"))? + 2
            } else {
                return Ok(());
            };
            self.skip(comment);
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Unreadable> {
        self.space()?;
        if depth > DEEPEST {
            return Err(too_deep(self.line));
        }
        let left = self.left.checked_sub(1);
        self.left = left.ok_or_else(|| too_many(self.line))?;

        let line = self.line;
        match self.peek() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"') => Ok(Node::of_scalar(line, self.string()?, true)),
            Some(_) => self.word(),
            None => Err(self.wrong("the file ends here, in the middle of a value")),
        }
    }

    /// A number, a truth value or null.
    fn word(&mut self) -> Result<Node, Unreadable> {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
        let end = self
            .rest
            .find(|letter| !is_part(letter))
            .unwrap_or(self.rest.len());
        let word = self.rest[..end].to_owned();
        let is_known = matches!(word.as_str(), "true" | "false" | "null")
            || word.parse::<f64>().is_ok_and(f64::is_finite);
        if !is_known {
            return Err(self.wrong("this is not a JSON value"));
        }

        self.skip(end);
        Ok(Node::of_scalar(self.line, word, false))
    }

    /// Passes over a comma, or says that the closing bracket is next.
    fn is_at_end(&mut self, closing: char, is_first: bool) -> Result<bool, Unreadable> {
        self.space()?;
        if !is_first && self.peek() == Some(',') {
            self.skip(1);
            self.space()?;
        } else if !is_first && self.peek() != Some(closing) {
            return Err(self.wrong("a comma or a closing bracket is missing here"));
        }

        let ends = self.peek() == Some(closing);
        if ends {
            self.skip(1);
        }
        Ok(ends)
    }

    fn array(&mut self, depth: usize) -> Result<Node, Unreadable> {
        let line = self.line;
        self.skip(1);
        let mut items = Vec::new();
        while !self.is_at_end(']', items.is_empty())? {
            items.push(self.value(depth + 1)?);
        }
        let value = NodeValue::List(items);
        Ok(Node { line, value })
    }

    fn object(&mut self, depth: usize) -> Result<Node, Unreadable> {
        let line = self.line;
        self.skip(1);
        let mut entries = Vec::new();
        while !self.is_at_end('}', entries.is_empty())? {
            let key_line = self.line;
            if self.peek() != Some('"') {
                return Err(self.wrong("a key in quotes is missing here"));
            }
            let key = self.string()?;
            self.space()?;
            if self.peek() != Some(':') {
                return Err(self.wrong("a colon is missing here"));
            }
            self.skip(1);
            let node = self.value(depth + 1)?;
            entries.push(MapEntry::new(key, key_line, node));
        }
        Ok(Node::map(line, entries))
    }

    fn string(&mut self) -> Result<String, Unreadable> {
        let mut end = 1;
        let bytes = self.rest.as_bytes();
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
                None => return Err(self.wrong("this text has no end")),
            }
        }

        let written = self.rest.get(..=end);
        let read = written.and_then(|text| serde_json::from_str(text).ok());
        let text = read.ok_or_else(|| self.wrong("this is not a JSON string"))?;
        self.skip(end + 1);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_last_commas_are_passed_over() {
        let text =
            "{ // one\n  \"a\": [1, \"b\\n\", true,], /* two\n */ # three\n \"c\": null,\n}\n";
        let root = parse(text).unwrap();
        let items = root.list("a");
        assert_eq!(items.len(), 3);
        assert_eq!(items[1].as_text(), Some("b\n"));
        assert!(root.has("c") && root.field("c").is_none());
        assert_eq!(items[0].line, 2);
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_line() {
        for text in [
            "{",
            "{\"a\" 1}",
            "[1 2]",
            "{\n\"a\": x}",
            "\"a",
            "[1] 2",
            "/*",
            "\"\\",
            "\"\\é\"",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("{\n\"a\": x}").unwrap_err().line, Some(2));
        assert!(parse(&"[".repeat(100_000)).is_err());
        let many = format!("[{}]", "1,".repeat(MOST));
        assert!(parse(&many).is_err());
    }
}
