//! Reading a file and its includes into one tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::env::{Env, expand};
use crate::path::{child, element};
use crate::reader::{FileReader, absolute};
use crate::tree::{Entry, Node, Value};
use crate::{Place, Problem, yaml};

/// Bytes of one file: a document of a thousand routes has some hundred kilobytes.
#[doc(alias = "bound")]
const FILE_BYTES: u64 = 4 << 20;

/// Depth of nested includes: two or three are in use.
#[doc(alias = "bound")]
const DEEPEST: usize = 8;

/// Files of one document, all includes together.
#[doc(alias = "bound")]
const FILES: usize = 256;
/// Keys of an included file that say something of the file itself, not of the document.
const OWN_KEYS: [&str; 3] = ["version", "$schema", "include"];

/// Reads files; collects their problems.
pub(crate) struct IncludeReader<'a> {
    env: Env<'a>,
    source: &'a dyn FileReader,
    /// Every file that was opened, absolute, in order.
    pub(crate) files: Vec<PathBuf>,
    /// The problems so far.
    pub(crate) problems: Vec<Problem>,
    /// The files that are being read, the outermost first, by their true names.
    open: Vec<PathBuf>,
    /// True names of all files read.
    known: Vec<PathBuf>,
    /// The text of the first document, if it is not a file.
    given: Option<String>,
}

impl<'a> IncludeReader<'a> {
    pub(crate) fn new(env: Env<'a>, source: &'a dyn FileReader) -> Self {
        Self {
            env,
            source,
            files: Vec::new(),
            problems: Vec::new(),
            open: Vec::new(),
            known: Vec::new(),
            given: None,
        }
    }

    /// Reads this text in place of the first file. Includes are resolved from the folder of the
    /// process.
    pub(crate) fn of_text(text: String, env: Env<'a>, source: &'a dyn FileReader) -> Self {
        Self {
            given: Some(text),
            ..Self::new(env, source)
        }
    }

    /// Reads a file and all files that it includes; `None` if the file cannot be read or is not YAML.
    pub(crate) fn read(&mut self, file: &Path, asked: Option<(&Place, &str)>) -> Option<Node> {
        let file: Arc<Path> = file.into();
        let text = match self.text(&file) {
            Ok(text) => text,
            Err(reason) => {
                let (place, path) =
                    asked.map_or((None, ""), |(place, path)| (Some(place.clone()), path));
                self.problems.push(Problem {
                    place,
                    ..Problem::new(path, reason)
                });

                return None;
            }
        };

        let mut root = match yaml::parse(&text, &file, &mut self.problems) {
            Ok(root) => root,
            Err(problem) => {
                self.problems.push(problem);
                return None;
            }
        };

        expand(&mut root, self.env, "", &mut self.problems);
        self.open
            .push(self.known.last().cloned().unwrap_or_default());
        self.include_all(&mut root);
        self.open.pop();

        Some(root)
    }

    fn text(&mut self, file: &Path) -> Result<String, String> {
        if let Some(text) = self.given.take() {
            self.known.push(file.to_owned());
            self.files.push(absolute(file));
            return Ok(text);
        }

        let failed = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
        // One byte more than allowed tells a file that is too large.
        let bytes = self.source.read(file, FILE_BYTES + 1).map_err(failed)?;

        if bytes.len() as u64 > FILE_BYTES {
            return Err(format!(
                "{} is larger than {} MiB",
                file.display(),
                FILE_BYTES >> 20
            ));
        }

        // A pipe, such as that of `<(..)` in a shell, has no name of its own.
        let name = self.source.true_name(file);
        self.known.push(name.unwrap_or_else(|| file.to_owned()));
        self.files.push(absolute(file));
        String::from_utf8(bytes).map_err(|error| {
            let line = error
                .as_bytes()
                .iter()
                .take(error.utf8_error().valid_up_to())
                .filter(|byte| **byte == b'\n')
                .count()
                + 1;
            format!("{}:{line}: this is not UTF-8", file.display())
        })
    }

    /// Adds the included files' entries to the root. A wrong `include` is left for the schema to report.
    fn include_all(&mut self, root: &mut Node) {
        let Some(Value::List(items)) = root.entry("include").map(|entry| entry.node.value.clone())
        else {
            return;
        };
        for (index, item) in items.iter().enumerate() {
            if let Value::Text(text) = &item.value {
                let path = element("include", index);
                let file = item.place.file.parent().unwrap_or(Path::new("")).join(text);
                self.include(root, &file, &item.place, &path);
            }
        }
    }

    fn include(&mut self, root: &mut Node, file: &Path, place: &Place, path: &str) {
        if let Some(reason) = self.refused(file) {
            self.problems.push(Problem::at(place, path, reason));
            return;
        }

        let Some(included) = self.read(file, Some((place, path))) else {
            return;
        };
        let found = included.kind();
        match (&mut root.value, included.value) {
            (Value::Map(entries), Value::Map(more)) => self.merge(entries, more),
            (_, Value::Null) => {}
            _ => self.problems.push(Problem::at(
                &included.place,
                "",
                format!("expected a map, found {found}"),
            )),
        }
    }

    fn refused(&self, file: &Path) -> Option<String> {
        let name = self.source.true_name(file)?;
        // By true names: a link to a file that is open would go in a circle as well.
        if self.open.contains(&name) {
            return Some(format!("{} includes itself", file.display()));
        }

        if self.known.contains(&name) {
            return Some(format!("{} is included twice", file.display()));
        }
        if self.open.len() > DEEPEST {
            return Some(format!(
                "more than {DEEPEST} files include each other in a row"
            ));
        }

        (self.known.len() >= FILES).then(|| format!("more than {FILES} files"))
    }

    /// Adds the entries of an included file: maps by key, lists at the end, anything else must be new.
    fn merge(&mut self, entries: &mut Vec<Entry>, more: Vec<Entry>) {
        for entry in more {
            if OWN_KEYS.contains(&entry.key.as_str()) {
                self.own(entries, entry);
                continue;
            }
            match entries.iter_mut().find(|known| known.key == entry.key) {
                None => entries.push(entry),
                Some(known) => self.join(known, entry),
            }
        }
    }

    /// An included file may state its version, which must be the document's.
    fn own(&mut self, entries: &[Entry], entry: Entry) {
        let same = |known: &Entry| known.key == "version" && known.node.plain == entry.node.plain;
        if entry.key == "version" && !entries.iter().any(same) {
            let reason = "the version differs from that of the including file";
            self.problems
                .push(Problem::at(entry.shown(), "version", reason).remedy("leave it out here"));
        }
    }

    fn join(&mut self, known: &mut Entry, entry: Entry) {
        match (&mut known.node.value, entry.node.value) {
            (Value::List(nodes), Value::List(more)) => nodes.extend(more),
            (Value::Map(inner), Value::Map(more)) => {
                for entry in more {
                    match inner.iter().find(|known| known.key == entry.key) {
                        None => inner.push(entry),
                        Some(first) => self.problems.push(twice(
                            &child(&known.key, &entry.key),
                            &first.place,
                            &entry.place,
                        )),
                    }
                }
            }
            _ => self
                .problems
                .push(twice(&known.key, &known.place, &entry.place)),
        }
    }
}

fn twice(path: &str, first: &Place, second: &Place) -> Problem {
    Problem::at(second, path, format!("this was already given at {first}"))
        .remedy("keep one of them")
}
