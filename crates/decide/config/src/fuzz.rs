//! Any bytes: the loader must answer, quickly and without panic.

use crate::load::{DISAGREE, Typed, check_text};
use crate::{Places, write_whole};

/// Reads any bytes as a document, without what it includes.
///
/// # Panics
/// When the loader accepts a document and also reports problems, refuses one without a reason, or
/// does not read back what it wrote: all are bugs.
pub fn fuzz_one(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let env = |name: &str| (name.len() == 1).then(|| name.to_owned());
    let Typed {
        document, problems, ..
    } = check_text(text, &env);
    assert!(
        document.is_some() || !problems.is_empty(),
        "a document or its problems"
    );

    if let Some(document) = document.filter(|_| problems.is_empty()) {
        let written = write_whole(&document, &Places::nowhere());
        let again = check_text(&written, &env);
        assert!(again.problems.is_empty(), "{:?}: {written}", again.problems);
        assert!(again.document == Some(document), "written as {written}");
    }

    for problem in &problems {
        assert!(!problem.reason.starts_with(DISAGREE), "{problem}");
        assert_eq!(problem.to_string().lines().count(), 1, "{problem}");
        assert!(
            !problem.reason.is_empty() && problem.place.is_some(),
            "a reason and a place: {problem}"
        );
    }
}
