//! Every source file describes itself at its top.

use crate::report::Violation;
use crate::tree::{File, Tree};

/// Checks that every file under a crate's `src` begins with `//!`.
pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.files
        .iter()
        .filter(|file| file.rust.is_some() && file.in_src())
        .filter_map(check_file)
        .collect()
}

fn check_file(file: &File) -> Option<Violation> {
    let first = file
        .text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    if first
        .strip_prefix("//!")
        .is_some_and(|words| !words.trim().is_empty())
    {
        return None;
    }

    let is_root = ["/src/lib.rs", "/src/main.rs"]
        .iter()
        .any(|root| file.path.ends_with(root));
    let rest = if is_root {
        ": what the crate is, what it is not, its specifications"
    } else {
        ": what this file is"
    };

    Some(Violation::new(
        &file.path,
        1,
        format!("begin with `//!`{rest}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_with_words_is_needed() {
        let message = |text| check_file(&File::new("crates/a/src/lib.rs", text));
        assert_eq!(message("//! What it is.\n"), None);
        assert_eq!(message("\n//! What it is.\n"), None);
        for text in [
            "",
            "//!\n",
            "use std::fmt;\n",
            "// What it is.\n",
            "/// What it is.\n",
        ] {
            assert!(message(text).is_some(), "{text:?}");
        }
    }
}
