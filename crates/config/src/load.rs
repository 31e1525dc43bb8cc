//! From file to typed document.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;

use crate::env::Env;
use crate::include::Reader;
use crate::model::Document;
use crate::tree::{Node, Value};
use crate::{Place, Places, Problem, Problems, env, schema, walk, yaml};

/// Begins the reason of a problem that is a bug of this crate.
pub(crate) const DISAGREE: &str = "the schema allows this, but the types do not";

/// A document that fulfils the schema.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The document; paths in it are absolute.
    pub document: Document,
    /// Where its parts are written.
    pub places: Places,
    /// The files that it was read from, absolute, the first one first.
    pub files: Vec<PathBuf>,
}

/// Reads a document and what it includes; `env` gives the variables of the environment.
///
/// # Errors
/// Everything that is wrong with it, in the order of files and lines.
pub fn load(file: &Path, env: Env<'_>) -> Result<Loaded, Problems> {
    let mut reader = Reader::new(env);
    let root = reader.read(file, None);
    let Reader { files, mut problems, .. } = reader;
    let document = root.map(|root| (typed(&root, &mut problems), root));
    match document {
        Some((Some(document), root)) if problems.is_empty() => {
            Ok(Loaded { document, places: Places::new(root), files })
        }
        _ => Err(in_order(problems, &files)),
    }
}

/// Checks one text by itself, without what it includes; for tests of the loader with any bytes.
pub(crate) fn check_text(text: &str, env: Env<'_>) -> (Option<Document>, Vec<Problem>) {
    let file: Arc<Path> = Path::new("text.yaml").into();
    let mut problems = Vec::new();
    let root = yaml::parse(text, &file, &mut problems);
    let document = match root {
        Ok(mut root) => {
            env::expand(&mut root, env, "", &mut problems);
            typed(&root, &mut problems)
        }
        Err(problem) => {
            problems.push(problem);
            None
        }
    };
    (document, problems)
}

/// Checks the tree against the schema. `None` if anything is wrong, here or before.
fn typed(root: &Node, problems: &mut Vec<Problem>) -> Option<Document> {
    if matches!(root.value, Value::Null) {
        let problem = Problem::new(&root.place, "", "the file is empty");
        problems.push(problem.remedy("begin with `version: 1`"));
        return None;
    }
    let json = walk::read(schema::cached(), root, problems);
    if !problems.is_empty() {
        return None;
    }
    deserialized(json, root).map_err(|problem| problems.push(problem)).ok()
}

/// The schema and the types agree, so this does not fail; should they not, that is reported, not hidden.
fn deserialized(json: Json, root: &Node) -> Result<Document, Problem> {
    serde_path_to_error::deserialize(json).map_err(|error| {
        let path = error.path().to_string();
        let place = Places::new(root.clone()).locate(&path);
        Problem { place, path, reason: format!("{DISAGREE}: {}", error.inner()), remedy: None }
    })
}

fn in_order(mut problems: Vec<Problem>, files: &[PathBuf]) -> Problems {
    let rank = |place: &Place| {
        let name = std::path::absolute(&place.file).unwrap_or_default();
        (files.iter().position(|file| *file == name), place.line, place.column)
    };
    problems.sort_by_cached_key(|problem| problem.place.as_ref().map(rank));
    Problems(problems)
}
