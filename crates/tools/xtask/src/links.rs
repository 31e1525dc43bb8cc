//! Every link in a Markdown file to a file of the repository leads somewhere.

use std::path::Path;

use crate::report::Violation;
use crate::tree::Tree;

/// Checks the links of every `.md` file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md"));
    let violations = pages.flat_map(|page| {
        let broken = links(&page.text)
            .into_iter()
            .filter(|(_, target)| !exists(&tree.root, &page.path, target));
        broken.map(|(line, target)| {
            Violation::new(
                &page.path,
                line,
                format!("link to {target}, which is not there"),
            )
        })
    });

    violations.collect()
}

fn exists(root: &Path, page: &str, target: &str) -> bool {
    match target.strip_prefix('/') {
        Some(from_root) => root.join(from_root).exists(),
        None => root
            .join(page)
            .parent()
            .is_some_and(|folder| folder.join(target).exists()),
    }
}

/// The local targets of a page's links, with their lines; code is not searched.
fn links(page: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (index, line) in page.lines().enumerate() {
        let fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        in_block ^= fence;
        if !in_block && !fence {
            found.extend(
                inline(line)
                    .chain(definition(line))
                    .filter_map(local)
                    .map(|target| (index + 1, target)),
            );
        }
    }

    found
}

/// `[text](target)` and `![picture](target)`, outside backticks.
fn inline(line: &str) -> impl Iterator<Item = &str> {
    let starts = line.match_indices("](").map(|(at, _)| at + 2);
    let in_text = starts.filter(|at| line[..*at].matches('`').count().is_multiple_of(2));
    in_text.filter_map(|at| line[at..].split([')', ' ']).next())
}

/// `[label]: target`
fn definition(line: &str) -> Option<&str> {
    let (label, target) = line.split_once("]: ")?;
    label
        .starts_with('[')
        .then(|| target.split_whitespace().next())?
}

/// The file part of a target, unless it leads elsewhere or only within the page.
fn local(target: &str) -> Option<&str> {
    let target = target.trim_start_matches('<').trim_end_matches('>');
    let elsewhere = target.contains("://") || target.starts_with("mailto:");
    let file = target.split(['#', '?']).next().unwrap_or_default();
    (!elsewhere && !file.is_empty()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_links_are_found_with_their_lines() {
        let page = "[a](docs/a.md#top) ![b](b.svg \"title\")\n\n[c]: ../c.toml\n";
        assert_eq!(
            links(page),
            [(1, "docs/a.md"), (1, "b.svg"), (3, "../c.toml")]
        );
    }

    #[test]
    fn other_places_anchors_and_code_are_not_local() {
        let page = "[a](https://example.com/) [b](#here) `[c](d.md)` [e](mailto:e@example.com)\n```\n[f](g.md)\n```\n";
        assert!(links(page).is_empty());
    }

    #[test]
    fn targets_stand_relative_to_the_page_or_the_repository() {
        let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(exists(crate_root, "src/page.md", "links.rs"));
        assert!(exists(crate_root, "src/page.md", "../Cargo.toml"));
        assert!(exists(crate_root, "src/page.md", "/Cargo.toml"));
        assert!(!exists(crate_root, "src/page.md", "Cargo.toml"));
    }
}
