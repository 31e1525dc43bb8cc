//! One statement says one thing: no `let (a, b) = (x, y);`, which saves a line and costs a look.

use crate::report::Violation;
use crate::rust::line_of;
use crate::tree::{File, Tree};

/// Checks every production file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.files
        .iter()
        .filter(|file| file.is_production())
        .flat_map(check_file)
        .collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let Some(rust) = &file.rust else {
        return Vec::new();
    };
    let code = &rust.production;
    let starts = code
        .match_indices("let (")
        .filter(|(at, _)| is_pair(&code[at + "let ".len()..]));
    let message = "several values are bound in one statement; give each its own `let`";

    starts
        .map(|(at, _)| Violation::new(&file.path, line_of(code, at), message))
        .collect()
}

/// Is this a tuple of names, and does a tuple of values follow that ends the statement?
fn is_pair(text: &str) -> bool {
    let Some(names) = tuple(text) else {
        return false;
    };
    let Some(values) = text[names..].trim_start().strip_prefix('=') else {
        return false;
    };

    let values = values.trim_start();
    tuple(values).is_some_and(|end| values[end..].trim_start().starts_with(';'))
}

/// The length of the tuple that the text begins with.
fn tuple(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' if depth == 1 => return Some(at + 1),
            ')' => depth -= 1,
            _ if depth == 0 => return None,
            _ => {}
        }
    }

    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        check_file(&File::new("crates/a/src/b.rs", text)).len()
    }

    #[test]
    fn values_that_are_bound_together_are_found() {
        assert_eq!(found("fn f() { let (a, mut b) = (x(1), y); }"), 1);
        assert_eq!(
            found("fn f() { let ((a, b), c) = (\n    x(1),\n    y,\n);\n }"),
            1
        );
    }

    #[test]
    fn what_is_taken_apart_is_not() {
        assert_eq!(
            found("fn f() { let (a, b) = x(1); let (c, d) = (e, f).g(); let h = (1, 2); }"),
            0
        );
        assert_eq!(
            found("#[cfg(test)]\nmod tests {\n    fn f() { let (a, b) = (1, 2); }\n}\n"),
            0
        );
    }
}
