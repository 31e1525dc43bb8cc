//! From file to typed document.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::defaults::write_out;
use crate::env::Env;
use crate::from_json::from_json;
use crate::include::IncludeReader;
use crate::model::Document;
use crate::reader::{FileReader, SystemFiles};
use crate::sound_part::SoundPart;
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

/// A document whose form is not right.
#[derive(Debug)]
pub struct Unsound {
    /// Everything that is wrong with its form, in the order of files and lines.
    pub problems: Problems,
    /// The rest of it, if it can be read.
    pub part: Option<Box<SoundPart>>,
    /// The files that it was read from.
    pub files: Vec<PathBuf>,
}

impl From<Unsound> for Problems {
    fn from(unsound: Unsound) -> Self {
        unsound.problems
    }
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
    Ok(read_by(
        schema::cached(),
        IncludeReader::new(env, source),
        file,
    )?)
}

/// Reads a document from its text, which problems call `name`; includes are resolved from the
/// folder of the process.
///
/// # Errors
/// Everything that is wrong with its form, in the order of files and lines.
pub fn parse(name: &Path, text: &str, env: Env<'_>) -> Result<Loaded, Problems> {
    let reader = IncludeReader::of_text(text.to_owned(), env, &SystemFiles);
    Ok(read_by(schema::cached(), reader, name)?)
}

/// Reads the files of a reader, checked against this schema.
pub(crate) fn read_by(
    schema: &Json,
    mut reader: IncludeReader<'_>,
    file: &Path,
) -> Result<Loaded, Unsound> {
    let root = reader.read(file, None);
    let IncludeReader {
        files, problems, ..
    } = reader;

    let unsound = |problems, part, files: Vec<PathBuf>| Unsound {
        problems: Problems(problems).in_order(&files),
        part,
        files,
    };
    let Some(root) = root else {
        return Err(unsound(problems, None, files));
    };

    let FormReport { json, problems } = form(schema, &root, problems);
    if !problems.is_empty() {
        let part = SoundPart::of(json, &problems, Places::new(root));
        return Err(unsound(problems, part.map(Box::new), files));
    }
    match deserialized(&json, &root) {
        Ok(document) => Ok(Loaded {
            document,
            places: Places::new(root),
            files,
        }),
        Err(problem) => Err(unsound(vec![problem], None, files)),
    }
}

/// The document of a tree whose form is right; `problems` were found before.
#[cfg(test)]
pub(crate) fn typed(
    schema: &Json,
    root: &Node,
    problems: Vec<Problem>,
) -> Result<Document, Vec<Problem>> {
    let FormReport { json, problems } = form(schema, root, problems);
    match problems.is_empty() {
        true => deserialized(&json, root).map_err(|problem| vec![problem]),
        false => Err(problems),
    }
}

/// A document as its schema has it, and everything that is wrong with it.
struct FormReport {
    json: Json,
    problems: Vec<Problem>,
}

/// Checks the tree against a schema; `problems` were found before.
fn form(schema: &Json, root: &Node, mut problems: Vec<Problem>) -> FormReport {
    if matches!(root.value, Value::Null) {
        let problem = Problem::at(&root.place, "", "the file is empty");
        problems.push(problem.remedy("begin with `version: 1`"));
        return FormReport {
            json: Json::Null,
            problems,
        };
    }

    let (mut json, found) = walk::read(schema, root);
    problems.extend(found);
    if let Json::Object(json) = &mut json {
        problems.extend(write_out(json, root));
        kinds::check(json, root, &mut problems);
        // The content of included files is part of the document now.
        json.remove("include");
    }

    FormReport { json, problems }
}

/// The schema and the types agree, so this does not fail; should they not, that is reported, not hidden.
fn deserialized(json: &Json, root: &Node) -> Result<Document, Problem> {
    from_json(json).map_err(|misfit| {
        let reason = format!("{DISAGREE}: {}", misfit.reason);
        Places::new(root.clone()).placed(Problem::new(misfit.path, reason))
    })
}
