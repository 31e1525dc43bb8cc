//! From file to typed document.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;

use crate::defaults::write_out;
use crate::env::Env;
use crate::include::IncludeReader;
use crate::lost::Lost;
use crate::mend::mend;
use crate::model::Document;
use crate::tree::{Node, Value};
use crate::{Places, Problem, Problems, env, schema, walk, yaml};

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

/// A document with problems, and what can be said of it all the same.
#[derive(Debug)]
pub struct Flawed {
    problems: Vec<Problem>,
    lost: Lost,
    rest: Option<Box<Loaded>>,
    files: Vec<PathBuf>,
}

impl Flawed {
    /// What is wrong with the document's form, in the order of files and lines.
    pub fn problems(self) -> Problems {
        Problems(self.problems).in_order(&self.files)
    }

    /// This, and what `judge` finds in the rest, all in the order of files and lines.
    ///
    /// The rest is the document without what is wrong. It has stand-ins, so it is good for nothing but to be judged; a finding
    /// that might follow from what was lost is not to be among those of `judge`.
    pub fn judged(mut self, judge: impl FnOnce(Loaded, &Lost) -> Result<(), Problems>) -> Problems {
        let found = self
            .rest
            .take()
            .and_then(|rest| judge(*rest, &self.lost).err());
        self.problems
            .extend(found.into_iter().flat_map(|found| found.0));
        self.problems()
    }
}

/// Reads a document and what it includes; `env` gives the variables of the environment.
///
/// # Errors
/// Everything that is wrong with its form, in the order of files and lines.
pub fn load(file: &Path, env: Env<'_>) -> Result<Loaded, Problems> {
    read(file, env).map_err(Flawed::problems)
}

/// Reads a document from its text, which problems call `name`; what it includes is looked for from the folder of the process.
///
/// # Errors
/// Everything that is wrong with its form, in the order of files and lines.
pub fn parse(name: &Path, text: &str, env: Env<'_>) -> Result<Loaded, Problems> {
    read_text(name, text.to_owned(), env).map_err(Flawed::problems)
}

/// Reads a document like [`load`], for a caller that checks more of it, even if there are problems.
///
/// # Errors
/// A document with problems.
pub fn read(file: &Path, env: Env<'_>) -> Result<Loaded, Flawed> {
    read_by(IncludeReader::new(env), file)
}

/// Reads a document like [`read`] whose text is there already, such as that of standard input; problems call it `name`.
///
/// # Errors
/// A document with problems.
pub fn read_text(name: &Path, text: String, env: Env<'_>) -> Result<Loaded, Flawed> {
    read_by(IncludeReader::of_text(text, env), name)
}

fn read_by(mut reader: IncludeReader<'_>, file: &Path) -> Result<Loaded, Flawed> {
    let root = reader.read(file, None);
    let IncludeReader {
        files, problems, ..
    } = reader;
    let Some(root) = root else {
        return Err(Flawed {
            problems,
            lost: Lost::default(),
            rest: None,
            files,
        });
    };

    let Typed {
        document,
        problems,
        lost,
    } = typed(&root, problems);

    match document {
        Some(document) if problems.is_empty() => Ok(Loaded {
            document,
            places: Places::new(root),
            files,
        }),
        document => {
            let loaded = |document| Loaded {
                document,
                places: Places::new(root),
                files: files.clone(),
            };

            let rest = document.map(loaded).map(Box::new);
            Err(Flawed {
                problems,
                lost,
                rest,
                files,
            })
        }
    }
}

/// Checks one text by itself, without what it includes; for tests of the loader with any bytes.
pub(crate) fn check_text(text: &str, env: Env<'_>) -> Typed {
    let file: Arc<Path> = Path::new("text.yaml").into();
    let mut problems = Vec::new();
    match yaml::parse(text, &file, &mut problems) {
        Ok(mut root) => {
            env::expand(&mut root, env, "", &mut problems);
            typed(&root, problems)
        }
        Err(problem) => Typed {
            document: None,
            problems: vec![problem],
            lost: Lost::default(),
        },
    }
}

/// What a tree says.
pub(crate) struct Typed {
    /// The document, mended if there are problems; `None` if it is no map, or may say anything.
    pub(crate) document: Option<Document>,
    /// What is wrong with it.
    pub(crate) problems: Vec<Problem>,
    lost: Lost,
}

/// Checks the tree against the schema; `problems` were found before.
fn typed(root: &Node, mut problems: Vec<Problem>) -> Typed {
    if matches!(root.value, Value::Null) {
        let problem = Problem::new(&root.place, "", "the file is empty");
        problems.push(problem.remedy("begin with `version: 1`"));
        return Typed {
            document: None,
            problems,
            lost: Lost::default(),
        };
    }

    let (mut json, mut found) = walk::read(schema::cached(), root);
    if let Json::Object(json) = &mut json {
        let without = write_out(json, root);
        found
            .lost
            .extend(without.iter().map(|problem| problem.path.clone()));
        found.problems.extend(without);
    }

    // Paths that are wrong count as lost, too: what lint would say of them may not be true.
    let paths = problems.iter().map(|problem| problem.path.as_str());
    let lost = Lost::new(paths.chain(found.lost.iter().map(String::as_str)));
    problems.extend(found.problems);
    if let Json::Object(root) = &mut json
        && !problems.is_empty()
    {
        mend(root, &lost);
    }

    // What an included file would have said is anybody's guess.
    let is_rest = json.is_object() && !lost.touches("include");
    // What they say is part of the document now.
    if let Json::Object(root) = &mut json {
        root.remove("include");
    }

    let document = is_rest
        .then(|| {
            deserialized(json, root)
                .map_err(|problem| problems.push(problem))
                .ok()
        })
        .flatten();

    Typed {
        document,
        problems,
        lost,
    }
}

/// The schema and the types agree, so this does not fail; should they not, that is reported, not hidden.
fn deserialized(json: Json, root: &Node) -> Result<Document, Problem> {
    serde_path_to_error::deserialize(json).map_err(|error| {
        let path = error.path().to_string();
        let place = Places::new(root.clone()).locate(&path);
        Problem {
            place,
            path,
            reason: format!("{DISAGREE}: {}", error.inner()),
            remedy: None,
        }
    })
}
