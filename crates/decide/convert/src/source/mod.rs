//! Files of other programs as values with lines, which remember whether they were looked at.

mod json;
mod node;
mod yaml;

use crate::unreadable::Unreadable;

pub(crate) use node::Node;

/// Reads YAML, of which JSON is a part.
pub(crate) fn read(text: &str) -> Result<Node, Unreadable> {
    // JSON of people, with comments and tabs, is no YAML.
    if !text.trim_start().starts_with(['{', '/']) {
        return yaml::parse(text);
    }
    json::parse(text).or_else(|error| yaml::parse(text).map_err(|_| error))
}

/// Reads JSON with comments and commas before brackets.
pub(crate) fn read_json(text: &str) -> Result<Node, Unreadable> {
    json::parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_one_looked_at_are_found() {
        let root = read("a: 1\nb:\n  c: [ { d: 2, e: 3 } ]\nf: { g: 1 }\n").unwrap();
        assert_eq!(root.number("a"), Some(1));
        assert_eq!(root.at(&["b"]).unwrap().list("c")[0].number("d"), Some(2));
        root.skip(&["f"]);
        let unread = root.unread();
        assert_eq!(unread.len(), 1);
        assert_eq!(unread[0].path, "b.c[0].e");
        assert_eq!(unread[0].line, 3);
    }

    #[test]
    fn keys_may_be_written_as_protocol_buffers_do() {
        let root = read("{\"staticResources\": {\"portValue\": \"80\"}}").unwrap();
        let inner = root.field("static_resources").unwrap();
        assert_eq!(inner.number("port_value"), Some(80));
    }

    #[test]
    fn a_truth_value_is_no_text() {
        let root = read("a: true\nb: \"true\"\nc: ~\n").unwrap();
        assert!(root.flag("a") && !root.flag("b") && root.choice("c").is_none());
    }
}
