//! Every test that the security pages name is there.
//!
//! A test is named in backticks as `MODULE::FUNCTION`, or as a module alone where all of its tests are meant: `hostile::paths`.

use crate::report::Violation;
use crate::tree::{File, Tree};

/// The pages that promise something, with the test that shows it.
const PAGES: [&str; 2] = ["SECURITY.md", "docs/surfaces.md"];

/// Checks the tables of the pages.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let pages = tree
        .files
        .iter()
        .filter(|file| PAGES.contains(&file.path.as_str()));
    let violations = pages.flat_map(|page| {
        let lost = named(&page.text).filter(|(_, name)| !exists(tree, name));
        lost.map(|(line, name)| {
            let reason = format!("there is no test `{name}`");
            Violation::new(&page.path, line, reason)
        })
    });

    violations.collect()
}

/// The tests in the last column of a page's tables, with their lines. A function without a module is of the one before it.
fn named(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let rows = page
        .lines()
        .enumerate()
        .filter(|(_, line)| line.starts_with('|'));
    rows.flat_map(|(index, line)| {
        let cell = line.trim_end_matches([' ', '|']).rsplit('|').next();
        let quoted = cell.unwrap_or_default().split('`').skip(1).step_by(2);
        let tests = quoted.filter(|name| is_test(name));
        tests.map(move |name| (index + 1, name))
    })
}

/// Whether it is the name of a test, not of a file.
fn is_test(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_:".contains(&byte))
}

fn exists(tree: &Tree, name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    let function = format!("fn {last}(");
    let file = format!("/{last}.rs");
    let folder = format!("/{last}/");
    let rust = || tree.files.iter().filter(|file| file.rust.is_some());

    rust().any(|one: &File| {
        one.text.contains(&function)
            || one.path.ends_with(&file)
            || (one.path.contains("/tests/") && one.path.contains(&folder))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_stand_in_the_last_column_of_a_table() {
        let page = "a `b::c`\n| who | `key_of` | `hostile::paths`, `a_claim` |\n|--|--|--|\n";
        let found: Vec<_> = named(page).collect();
        assert_eq!(found, [(2, "hostile::paths"), (2, "a_claim")]);
        assert!(!is_test("upstream/src/attached") && !is_test("Retry-After"));
    }
}
