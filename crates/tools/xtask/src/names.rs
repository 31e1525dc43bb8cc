//! A type's name is unique within its crate: who meets it knows which one is meant.

use std::collections::BTreeMap;

use crate::budget::Sized;
use crate::tree::Tree;

/// Types of one name in one crate.
const DEFINITIONS: usize = 1;

/// The names that several types of a crate have, as `crate::Name`.
pub fn shared(tree: &Tree) -> Vec<Sized> {
    let mut types: BTreeMap<(&str, &str), Sized> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_production()) {
        let Some(rust) = &file.rust else { continue };
        for named in rust.types() {
            let krate = crate_of(&file.path);
            let shared = types.entry((krate, named.name)).or_insert_with(|| Sized {
                subject: format!("{krate}::{}", named.name),
                path: String::new(),
                line: 0,
                size: 0,
                unit: "definitions",
                budget: DEFINITIONS,
                remedy: "name each after what it is".into(),
            });

            shared.path.clone_from(&file.path);
            shared.line = named.line;
            shared.size += 1;
        }
    }

    types
        .into_values()
        .filter(|shared| shared.size > shared.budget)
        .collect()
}

/// `crates/node/admit` of a path within it.
pub fn crate_of(path: &str) -> &str {
    path.split_once("/src/").map_or(path, |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::Value;

    use super::*;
    use crate::tree::File;

    fn found(files: &[(&str, &str)]) -> Vec<(String, String, usize)> {
        let files = files
            .iter()
            .map(|(path, text)| File::new(path, text))
            .collect();
        let tree = Tree {
            root: PathBuf::new(),
            files,
            metadata: Value::Null,
        };
        shared(&tree)
            .into_iter()
            .map(|shared| (shared.subject, shared.path, shared.size))
            .collect()
    }

    #[test]
    fn a_name_of_two_types_of_one_crate_is_found() {
        let found = found(&[
            ("crates/a/src/b.rs", "struct Place;"),
            ("crates/a/src/c.rs", "\npub enum Place {}"),
        ]);
        assert_eq!(
            found,
            [(
                "crates/a::Place".to_owned(),
                "crates/a/src/c.rs".to_owned(),
                2
            )]
        );
    }

    #[test]
    fn two_crates_may_use_one_name() {
        assert!(
            found(&[
                ("crates/a/src/b.rs", "struct Place;"),
                ("crates/b/src/b.rs", "struct Place;")
            ])
            .is_empty()
        );
    }
}
