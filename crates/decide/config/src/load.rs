//! From file to typed document.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::defaults::write_out;
use crate::env::Env;
use crate::include::IncludeReader;
use crate::model::Document;
use crate::reader::{FileReader, SystemFiles};
use crate::tree::{Node, Value};
use crate::{Places, Problem, Problems, kinds, schema, walk};

/// Begins the reason of a problem that is a bug of this crate.
pub(crate) const DISAGREE: &str = "the schema allows this, but the types do not";

/// A document that fulfils the schema.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The document; paths in it are absolute, and it includes nothing any more.
    pub document: Document,
    /// Where its parts are written.
    pub places: Places,
    /// The files that it was read from, absolute, the first one first.
    pub files: Vec<PathBuf>,
}

impl From<Document> for Loaded {
    /// A document that no file says.
    fn from(document: Document) -> Self {
        Self {
            document,
            places: Places::nowhere(),
            files: Vec::new(),
        }
    }
}

/// Reads a document and its includes; `env` gives the variables of the environment.
///
/// # Errors
/// Everything that is wrong with its form, in the order of files and lines.
pub fn load(file: &Path, env: Env<'_>) -> Result<Loaded, Problems> {
    load_from(&SystemFiles, file, env)
}

/// Reads a document like [`load`], with its includes, from the files of `source`.
///
/// # Errors
/// As for [`load`].
pub fn load_from(source: &dyn FileReader, file: &Path, env: Env<'_>) -> Result<Loaded, Problems> {
    read_by(schema::cached(), IncludeReader::new(env, source), file)
}

/// Reads a document from its text, which problems call `name`; includes are resolved from the
/// folder of the process.
///
/// # Errors
/// Everything that is wrong with its form, in the order of files and lines.
pub fn parse(name: &Path, text: &str, env: Env<'_>) -> Result<Loaded, Problems> {
    read_by(
        schema::cached(),
        IncludeReader::of_text(text.to_owned(), env, &SystemFiles),
        name,
    )
}

/// Reads the files of a reader, checked against this schema.
pub(crate) fn read_by(
    schema: &Json,
    mut reader: IncludeReader<'_>,
    file: &Path,
) -> Result<Loaded, Problems> {
    let root = reader.read(file, None);
    let IncludeReader {
        files, problems, ..
    } = reader;

    let read = match root {
        Some(root) => typed(schema, &root, problems).map(|document| (document, root)),
        None => Err(problems),
    };
    match read {
        Ok((document, root)) => Ok(Loaded {
            document,
            places: Places::new(root),
            files,
        }),
        Err(problems) => Err(Problems(problems).in_order(&files)),
    }
}

/// Checks the tree against a schema; `problems` were found before.
pub(crate) fn typed(
    schema: &Json,
    root: &Node,
    mut problems: Vec<Problem>,
) -> Result<Document, Vec<Problem>> {
    if matches!(root.value, Value::Null) {
        let problem = Problem::at(&root.place, "", "the file is empty");
        problems.push(problem.remedy("begin with `version: 1`"));
        return Err(problems);
    }

    let (mut json, found) = walk::read(schema, root);
    problems.extend(found);
    if let Json::Object(json) = &mut json {
        problems.extend(write_out(json, root));
        kinds::check(json, root, &mut problems);
        // The content of included files is part of the document now.
        json.remove("include");
    }

    if !problems.is_empty() {
        return Err(problems);
    }
    deserialized(json, root).map_err(|problem| vec![problem])
}

/// The schema and the types agree, so this does not fail; should they not, that is reported, not hidden.
fn deserialized(json: Json, root: &Node) -> Result<Document, Problem> {
    serde_path_to_error::deserialize(json).map_err(|error| {
        let path = error.path().to_string();
        let reason = format!("{DISAGREE}: {}", error.inner());
        Places::new(root.clone()).placed(Problem::new(path, reason))
    })
}
