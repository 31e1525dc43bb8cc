//! JSON values as YAML that people would write: short maps in one line, quotes only where they are needed.

use std::fmt::Write;

use serde_json::{Map, Value as Json};

use crate::tree::Value;

/// Columns of a line with a map or list in it.
const WIDTH: usize = 80;

/// Columns by which an inner level is indented.
const INDENT: usize = 2;

/// A document; its top-level keys stand in blocks with an empty line between them.
pub(crate) fn document(root: &Map<String, Json>) -> String {
    let mut out = String::new();
    let mut apart = false;
    for (key, value) in root {
        let in_line = if is_deep(value) { None } else { flow(value) };
        let start = out.len();
        match in_line.filter(|text| key.len() + 2 + text.len() <= WIDTH) {
            Some(text) => push(&mut out, &format!("{}: {text}", scalar_key(key))),
            None => entry(&mut out, 0, key, value, true),
        }

        let is_block = out[start..].matches('\n').count() > 1;
        if start > 0 && (is_block || apart) {
            out.insert(start, '\n');
        }

        apart = is_block;
    }

    out
}

/// Whether there are maps within a map, or in a list: such a section stands in a block, however short.
fn is_deep(section: &Json) -> bool {
    match section {
        Json::Object(entries) => entries.values().any(Json::is_object),
        Json::Array(items) => items.iter().any(Json::is_object),
        _ => false,
    }
}

/// Whether this is an entry of a section, such as a route, with maps of its own: it stands in a block, too.
fn is_part(indent: usize, value: &Json) -> bool {
    indent == INDENT && is_deep(value)
}

/// `key: value`, in one line where it fits, and otherwise with the value below it.
fn entry(out: &mut String, indent: usize, key: &str, value: &Json, block: bool) {
    let key = scalar_key(key);
    let margin = " ".repeat(indent);
    let in_line = if block { None } else { flow(value) };
    let line = in_line.map(|text| format!("{margin}{key}: {text}"));

    if let Some(line) = line.filter(|line| !is_composed(value) || line.chars().count() <= WIDTH) {
        return push(out, &line);
    }
    match value {
        Json::Object(entries) if !entries.is_empty() => {
            push(out, &format!("{margin}{key}:"));
            map(out, indent + INDENT, entries);
        }
        Json::Array(items) if !items.is_empty() => {
            push(out, &format!("{margin}{key}:"));
            list(out, indent + INDENT, items);
        }
        Json::String(text) if is_literal(text) => {
            literal(out, &format!("{margin}{key}"), indent, text)
        }
        value => push(out, &format!("{margin}{key}: {}", atom(value))),
    }
}

fn map(out: &mut String, indent: usize, entries: &Map<String, Json>) {
    for (key, value) in entries {
        entry(out, indent, key, value, is_part(indent, value));
    }
}

fn list(out: &mut String, indent: usize, items: &[Json]) {
    let margin = " ".repeat(indent);
    for item in items {
        let in_line = if is_part(indent, item) {
            None
        } else {
            flow(item)
        };

        let line = in_line.map(|text| format!("{margin}- {text}"));
        let line = line.filter(|line| !is_composed(item) || line.chars().count() <= WIDTH);
        match (line, item) {
            (Some(line), _) => push(out, &line),
            (None, Json::Object(entries)) => {
                // The first entry stands behind the dash, the others below it.
                let start = out.len();
                map(out, indent + INDENT, entries);
                out.replace_range(start..start + indent + INDENT, &format!("{margin}- "));
            }
            // A list in a list, however long, and a text of several lines.
            (None, item) => push(out, &format!("{margin}- {}", whole(item))),
        }
    }
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

fn is_composed(value: &Json) -> bool {
    value.is_object() || value.is_array()
}

/// The value in one line; `None` for a text that is better read in several.
fn flow(value: &Json) -> Option<String> {
    (!has_literal(value)).then(|| whole(value))
}

fn has_literal(value: &Json) -> bool {
    match value {
        Json::String(text) => is_literal(text),
        Json::Array(items) => items.iter().any(has_literal),
        Json::Object(entries) => entries.values().any(has_literal),
        _ => false,
    }
}

/// A value over several lines, if it has several parts.
pub(crate) fn block(value: &Json) -> String {
    let mut out = String::new();
    match value {
        Json::Object(entries) if !entries.is_empty() => map(&mut out, 0, entries),
        Json::Array(items) => list(&mut out, 0, items),
        value => push(&mut out, &whole(value)),
    }
    out
}

/// A value of any kind in one line.
pub(crate) fn whole(value: &Json) -> String {
    match value {
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(whole).collect();
            format!("[{}]", items.join(", "))
        }
        Json::Object(entries) if entries.is_empty() => "{}".to_owned(),
        Json::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", scalar_key(key), whole(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        value => atom(value),
    }
}

fn atom(value: &Json) -> String {
    match value {
        Json::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A text, in quotes unless it is read as the same text without.
fn scalar(text: &str) -> String {
    if is_plain(text) && matches!(Value::of_plain(text), Value::Text(_)) {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// A key, which is text even if it looks like something else.
fn scalar_key(key: &str) -> String {
    if is_plain(key) || key == "$schema" {
        key.to_owned()
    } else {
        quoted(key)
    }
}

/// Whether a text means nothing in YAML, also within `{ }` and `[ ]`.
fn is_plain(text: &str) -> bool {
    let starts =
        text.starts_with(|letter: char| letter.is_ascii_alphanumeric() || "/_".contains(letter));
    let ends = !text.ends_with([' ', ':']);
    let known = text
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "-_./:@%+=* ".contains(letter));
    starts && ends && known && !text.contains(": ")
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if is_printed(letter) => out.push(letter),
            // Writing to a string cannot fail.
            letter => drop(write!(out, "\\U{:08x}", u32::from(letter))),
        }
    }

    out.push('"');
    out
}

/// Whether a letter is read as it stands, and seen as one (YAML 1.2.2, 5.1).
fn is_printed(letter: char) -> bool {
    !letter.is_control()
        && !matches!(
            letter,
            '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
}

/// Whether a text of several lines can be written as they are, below `|`.
fn is_literal(text: &str) -> bool {
    let Some((first, rest)) = text.split_once('\n') else {
        return false;
    };
    let is_letter = |letter: char| letter == '\n' || is_printed(letter);
    !first.is_empty()
        && !first.starts_with(' ')
        && !rest.is_empty()
        && !text.ends_with("\n\n")
        && text.chars().all(is_letter)
}

fn literal(out: &mut String, key: &str, indent: usize, text: &str) {
    let (sign, lines) = match text.strip_suffix('\n') {
        Some(lines) => ("|", lines),
        None => ("|-", text),
    };

    push(out, &format!("{key}: {sign}"));
    let margin = " ".repeat(indent + INDENT);
    for line in lines.split('\n') {
        let is_empty = line.is_empty();
        push(
            out,
            &if is_empty {
                String::new()
            } else {
                format!("{margin}{line}")
            },
        );
    }
}
