//! Any bytes: the loader must answer, quickly and without panic.

use crate::load::{DISAGREE, Typed, check_text};

/// Reads any bytes as a document, without what it includes.
///
/// # Panics
/// When the loader accepts what it also complains of, or refuses without a word: both are bugs.
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
    for problem in &problems {
        assert!(!problem.reason.starts_with(DISAGREE), "{problem}");
        assert_eq!(problem.to_string().lines().count(), 1, "{problem}");
        assert!(
            !problem.reason.is_empty() && problem.place.is_some(),
            "a reason and a place: {problem}"
        );
    }
}
