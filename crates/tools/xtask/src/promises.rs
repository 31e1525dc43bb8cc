//! Every test that the security pages name is there.
//!
//! A test is named in backticks as `MODULE::FUNCTION`, or as a module alone where all of its tests are meant: `hostile::paths`.

use crate::report::Violation;
use crate::tree::Tree;

/// The pages that promise something, with the test that shows it.
const PAGES: [&str; 4] = [
    "SECURITY.md",
    "docs/lifetimes.md",
    "docs/overlay-lessons.md",
    "docs/surfaces.md",
];

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

/// Whether a file has the function, or is the module; the names before it are the file's own or those of its folders.
fn exists(tree: &Tree, name: &str) -> bool {
    let (modules, last) = name.rsplit_once("::").unwrap_or(("", name));
    let function = format!("fn {last}(");
    let mut rust = tree.files.iter().filter(|file| file.rust.is_some());

    rust.any(|file| {
        let places = places(&file.path);
        let is_within = modules
            .split("::")
            .all(|module| module.is_empty() || places.contains(&module));
        let is_module = file.path.contains("/tests/") && places.contains(&last);
        is_within && (is_module || places.last() == Some(&last) || file.text.contains(&function))
    })
}

/// The names of a file's folders, and its own without the ending.
fn places(path: &str) -> Vec<&str> {
    path.trim_end_matches(".rs").split('/').collect()
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
        let path = places("crates/tools/tests/tests/hostile/paths.rs");
        assert!(path.ends_with(&["hostile", "paths"]), "{path:?}");
    }
}
