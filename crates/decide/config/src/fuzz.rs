//! Any bytes: the loader must answer, quickly and without panic.

use std::path::Path;
use std::sync::Arc;

use crate::env::Env;
use crate::load::{DISAGREE, typed};
use crate::model::Document;
use crate::{Places, Problem, env, schema, write_whole, yaml};

/// Reads any bytes as a document, without its includes.
///
/// # Panics
/// When the loader refuses a document without a reason, or does not read its own output back: both
/// are bugs.
pub(crate) fn fuzz_one(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let letters = |name: &str| (name.len() == 1).then(|| name.to_owned());
    let problems = match check_text(text, &letters) {
        Ok(document) => {
            let written = write_whole(&document, &Places::nowhere());
            assert!(
                check_text(&written, &letters).as_ref() == Ok(&document),
                "written as {written}"
            );
            return;
        }
        Err(problems) => problems,
    };

    assert!(!problems.is_empty(), "a document or its problems");
    for problem in &problems {
        assert!(!problem.reason.starts_with(DISAGREE), "{problem}");
        assert_eq!(problem.to_string().lines().count(), 1, "{problem}");
        assert!(
            !problem.reason.is_empty() && problem.place.is_some(),
            "a reason and a place: {problem}"
        );
    }
}

/// Checks one text by itself, without its includes.
fn check_text(text: &str, env: Env<'_>) -> Result<Document, Vec<Problem>> {
    let file: Arc<Path> = Path::new("text.yaml").into();
    let mut problems = Vec::new();
    match yaml::parse(text, &file, &mut problems) {
        Ok(mut root) => {
            env::expand(&mut root, env, "", &mut problems);
            typed(schema::cached(), &root, problems)
        }
        Err(problem) => Err(vec![problem]),
    }
}
