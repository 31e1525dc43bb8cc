//! The documentation against the program: every key of the schema has a row that says its default.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hermes_tests::program;
use serde_json::Value;

/// Pages on which a key may be.
const PAGES: [&str; 2] = ["configuration.md", "identity.md"];

/// Objects whose keys have no default, because each is a condition, a choice or a change that is absent where it is not given.
const WITHOUT_DEFAULTS: [&str; 2] = ["Match", "Hash"];

/// An object of the schema.
struct Object {
    name: String,
    /// Keys, and whether they must be given.
    keys: BTreeMap<String, bool>,
}

/// Every object that has keys.
fn objects(schema: &Value) -> Vec<Object> {
    let parts = schema["$defs"].as_object().unwrap().iter().map(|(name, part)| (name.as_str(), part));
    let all = [("the file", schema)].into_iter().chain(parts);
    all.filter_map(|(name, part)| {
        let mut keys = BTreeMap::new();
        gather(part, &mut keys);
        (!keys.is_empty()).then(|| Object { name: name.to_owned(), keys })
    })
    .collect()
}

fn gather(part: &Value, keys: &mut BTreeMap<String, bool>) {
    let required =
        |key: &str| part["required"].as_array().is_some_and(|required| required.iter().any(|one| one == key));
    for key in part["properties"].as_object().into_iter().flat_map(|properties| properties.keys()) {
        keys.insert(key.clone(), required(key));
    }
    for list in ["oneOf", "anyOf", "allOf"] {
        part[list].as_array().into_iter().flatten().for_each(|part| gather(part, keys));
    }
}

/// What stands between two headings.
#[derive(Default)]
struct Section {
    /// Words in backticks, and headings of sections below.
    named: BTreeSet<String>,
    /// Keys with a row that says a default.
    defaults: BTreeSet<String>,
}

fn sections(page: &str) -> Vec<Section> {
    let mut sections = vec![Section::default()];
    let (mut column, mut code) = (None, false);
    for line in page.lines() {
        code ^= line.starts_with("```");
        if code {
            continue;
        }
        if line.starts_with('#') {
            sections.push(Section::default());
        }
        let section = sections.last_mut().unwrap();
        section.named.extend(line.split('`').skip(1).step_by(2).flat_map(words));
        if !line.starts_with('|') {
            column = None;
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let column = *column.get_or_insert_with(|| cells.iter().position(|cell| *cell == "Default"));
        if column.is_some_and(|column| cells.get(column).is_some_and(|cell| !cell.is_empty())) {
            section.defaults.extend(cells[0].split('`').skip(1).step_by(2).flat_map(words));
        }
    }
    sections
}

/// `cache.for` names `cache` and `for`.
fn words(code: &str) -> impl Iterator<Item = String> + '_ {
    code.split(|letter: char| !(letter.is_alphanumeric() || "_$".contains(letter))).map(str::to_owned)
}

#[test]
fn every_key_of_the_schema_is_on_a_page_with_its_default() {
    let schema: Value = serde_json::from_str(&program::run(&["schema"]).stdout).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let sections: Vec<Section> =
        PAGES.iter().flat_map(|page| sections(&std::fs::read_to_string(folder.join(page)).unwrap())).collect();
    let mut missing = Vec::new();
    for Object { name, keys } in objects(&schema) {
        let lacks = |section: &Section| -> Vec<String> {
            let told = |key: &str, required: bool| {
                let names = if required || WITHOUT_DEFAULTS.contains(&name.as_str()) {
                    &section.named
                } else {
                    &section.defaults
                };
                names.contains(key)
            };
            keys.iter().filter(|(key, required)| !told(key, **required)).map(|(key, _)| key.clone()).collect()
        };
        let best = sections.iter().map(lacks).min_by_key(Vec::len).unwrap();
        if !best.is_empty() {
            missing.push(format!("{name}: {best:?}"));
        }
    }
    assert!(missing.is_empty(), "keys without a row that says their default:\n{}", missing.join("\n"));
}
