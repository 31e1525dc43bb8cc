//! YAML to [`Node`]. Nothing else in this crate knows the YAML library.
//!
//! A subset, on purpose: one document, no aliases (a few bytes could stand for gigabytes), no tags, scalar keys.

use std::path::Path;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};

use crate::path::{child, element};
use crate::tree::{Entry, Node, Value};
use crate::{Place, Problem};

/// Depth of nested maps and lists: a document needs ten, and recursion must not exhaust the stack.
#[doc(alias = "bound")]
const DEEPEST: usize = 64;

/// Reads one document. Duplicate keys are added to `problems`; the first of them counts.
///
/// # Errors
/// The first violation of YAML itself, after which nothing can be read.
pub(crate) fn parse(
    text: &str,
    file: &Arc<Path>,
    problems: &mut Vec<Problem>,
) -> Result<Node, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader {
        text,
        parser: Parser::new_from_str(text),
        file,
        problems,
    };

    loop {
        match reader.event()? {
            (Event::StreamStart | Event::DocumentStart(_), _) => {}
            (Event::StreamEnd, _) => return Ok(empty(Place::start(file))),
            (event, span) => return reader.document(event, span),
        }
    }
}

/// Reads all documents of a text, which `---` divides; empty ones are left out. A violation of YAML is added to `problems`: nothing
/// after it can be read.
pub(crate) fn parse_all(text: &str, file: &Arc<Path>, problems: &mut Vec<Problem>) -> Vec<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader {
        text,
        parser: Parser::new_from_str(text),
        file,
        problems,
    };

    let mut documents = Vec::new();
    let broken = loop {
        match reader.next_document() {
            Ok(Some(root)) => documents.push(root),
            Ok(None) => return documents,
            Err(problem) => break problem,
        }
    };
    problems.push(broken);
    documents
}

fn empty(place: Place) -> Node {
    Node {
        value: Value::Null,
        place,
        plain: None,
        variables: None,
    }
}

struct Reader<'a> {
    text: &'a str,
    parser: Parser<'a, StrInput<'a>>,
    file: &'a Arc<Path>,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn event(&mut self) -> Result<(Event<'a>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.broken(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The next document that is not empty; `None` at the end of the text.
    fn next_document(&mut self) -> Result<Option<Node>, Problem> {
        loop {
            match self.event()? {
                (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd, _) => {}
                (Event::StreamEnd, _) => return Ok(None),
                (event, span) => {
                    let root = self.node(event, span, "", 0)?;
                    if !matches!(root.value, Value::Null) {
                        return Ok(Some(root));
                    }
                }
            }
        }
    }

    fn document(&mut self, event: Event<'a>, span: Span) -> Result<Node, Problem> {
        let root = self.node(event, span, "", 0)?;
        loop {
            match self.event()? {
                (Event::DocumentEnd, _) => {}
                (Event::StreamEnd, _) => return Ok(root),
                (_, span) => {
                    return Err(self
                        .problem(span.start, "a second document begins here")
                        .remedy("remove the `---`"));
                }
            }
        }
    }

    fn node(
        &mut self,
        event: Event<'a>,
        span: Span,
        path: &str,
        depth: usize,
    ) -> Result<Node, Problem> {
        if depth > DEEPEST {
            return Err(self.problem(span.start, too_deep()));
        }
        let place = self.place(span.start);
        match event {
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => Err(self
                .problem(span.start, "`!` begins a tag, which means nothing here")
                .remedy("if it is text, write it in quotes")),
            Event::Scalar(text, ScalarStyle::Plain, ..) => Ok(Node {
                value: Value::of_plain(&text),
                place,
                plain: Some(text.into_owned()),
                variables: None,
            }),
            Event::Scalar(text, ..) => Ok(Node {
                value: Value::Text(text.into_owned()),
                place,
                plain: None,
                variables: None,
            }),
            Event::SequenceStart(..) => self.list(place, path, depth),
            Event::MappingStart(..) => self.map(place, path, depth),
            Event::Alias(_) => Err(self.alias(span.start)),
            _ => Ok(empty(place)),
        }
    }

    fn list(&mut self, place: Place, path: &str, depth: usize) -> Result<Node, Problem> {
        let mut nodes = Vec::new();
        loop {
            match self.event()? {
                (Event::SequenceEnd, _) => {
                    return Ok(Node {
                        value: Value::List(nodes),
                        place,
                        plain: None,
                        variables: None,
                    });
                }
                (event, span) => {
                    nodes.push(self.node(event, span, &element(path, nodes.len()), depth + 1)?)
                }
            }
        }
    }

    fn map(&mut self, place: Place, path: &str, depth: usize) -> Result<Node, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = std::collections::HashMap::new();
        loop {
            let entry = match self.event()? {
                (Event::MappingEnd, _) => {
                    return Ok(Node {
                        value: Value::Map(entries),
                        place,
                        plain: None,
                        variables: None,
                    });
                }
                (event, span) => self.entry(event, span, path, depth)?,
            };

            if let Some(first) = seen.get(&entry.key) {
                let reason = format!("this was already given at {first}");
                self.problems.push(
                    Problem::at(&entry.place, &child(path, &entry.key), reason)
                        .remedy("keep one of them"),
                );
                // The rest is read all the same: one run reports all mistakes.
                continue;
            }

            seen.insert(entry.key.clone(), entry.place.clone());
            entries.push(entry);
        }
    }

    fn entry(
        &mut self,
        event: Event<'a>,
        span: Span,
        path: &str,
        depth: usize,
    ) -> Result<Entry, Problem> {
        let start = span.start;
        let key = match event {
            Event::Scalar(text, _, _, None) => text.into_owned(),
            Event::Alias(_) => return Err(self.alias(start)),
            _ => {
                return Err(self
                    .problem(start, "a key must be a name")
                    .remedy("if it is text, write it in quotes"));
            }
        };

        let (event, span) = self.event()?;
        let node = self.node(event, span, &child(path, &key), depth + 1)?;
        Ok(Entry {
            key,
            place: self.place(start),
            node,
        })
    }

    fn alias(&self, mark: Marker) -> Problem {
        self.problem(mark, "`*` begins an alias; aliases are not read")
            .remedy(
                "if it is text such as *.example.com, write it in quotes; else repeat the value",
            )
    }

    /// The errors of the YAML library.
    fn broken(&self, error: &ScanError) -> Problem {
        if error.info().contains("recursion limit") {
            return self.problem(*error.marker(), too_deep());
        }
        // The library fails at an alias without its anchor before the reader sees an event.
        if error.info().contains("unknown anchor") {
            return self.alias(*error.marker());
        }

        if let Some(problem) = self.glued(error) {
            return problem;
        }
        let line = self
            .text
            .lines()
            .nth(error.marker().line().saturating_sub(1))
            .unwrap_or_default();
        let problem = self.problem(
            *error.marker(),
            format!("this is not YAML: {}", error.info()),
        );

        Problem {
            remedy: syntax_remedy(error.info(), line),
            ..problem
        }
    }

    /// A key without a space behind its colon, as `node:n`: the library only fails at the next line.
    fn glued(&self, error: &ScanError) -> Option<Problem> {
        if !error.info().contains("simple key") {
            return None;
        }
        // Backwards from the line of the error: the nearest such line is the culprit.
        let lines: Vec<&str> = self
            .text
            .lines()
            .take(error.marker().line().max(1))
            .collect();
        let is_glued = |line: &str| {
            let (key, value) = line.trim().split_once(':')?;
            let word = !key.is_empty()
                && key
                    .chars()
                    .all(|letter| letter.is_alphanumeric() || "_-.".contains(letter));
            (word && !value.is_empty() && !value.starts_with(' '))
                .then(|| (key.to_owned(), value.to_owned()))
        };

        let (index, (key, value)) = lines
            .iter()
            .enumerate()
            .rev()
            .find_map(|(index, line)| Some((index, is_glued(line)?)))?;
        let column = lines[index]
            .chars()
            .take_while(|letter| letter.is_whitespace())
            .count()
            + 1;
        let place = Place {
            file: self.file.clone(),
            line: index + 1,
            column,
        };

        let reason = format!("`{key}:{value}` is one word, and no key with a value");
        Some(
            Problem::at(&place, "", reason)
                .remedy(format!("write a space after the colon: `{key}: {value}`")),
        )
    }

    fn problem(&self, mark: Marker, reason: impl Into<String>) -> Problem {
        Problem::at(&self.place(mark), "", reason)
    }

    /// The library counts lines from 1 and columns from 0.
    fn place(&self, mark: Marker) -> Place {
        Place {
            file: self.file.clone(),
            line: mark.line().max(1),
            column: mark.col() + 1,
        }
    }
}

fn too_deep() -> String {
    format!("more than {DEEPEST} levels of maps and lists")
}

/// The remedy for usual mistakes in YAML, by the library's words or by the line.
fn syntax_remedy(info: &str, line: &str) -> Option<String> {
    let indent = &line[..line.len() - line.trim_start().len()];
    let remedy = if info.contains("anchor or alias") {
        "write text that begins with `*` or `&` in quotes"
    } else if info.contains("unexpected character") {
        "write text that begins with it in quotes"
    } else if indent.contains('\t') {
        "indent with spaces"
    } else if line.contains("${") {
        "within `{ }` and `[ ]`, write \"${NAME}\" in quotes"
    } else if line.contains("]:") {
        "write an IPv6 address and port in quotes: \"[::1]:80\""
    } else if info.contains("mapping values are not allowed") {
        "write text with `: ` in it in quotes, or mend the indentation"
    } else {
        return None;
    };

    Some(remedy.to_owned())
}
