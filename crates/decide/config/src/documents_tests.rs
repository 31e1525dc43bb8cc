//! Texts of several documents.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{read_documents, schema_of};
use crate::model::FilePath;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct Shelf {
    /// Its name.
    name: String,
    /// A file.
    #[serde(default)]
    file: Option<FilePath>,
    /// Its books.
    #[serde(default)]
    books: Vec<String>,
}

#[test]
fn each_document_is_checked_by_itself_and_as_it_is_written() {
    let text = "name: a\nfile: ${HOME}/x\n---\n---\nname: b\nbooks:\n  - one\n  - two\n---\n";
    let read = read_documents(Path::new("shelves.yaml"), text);
    assert_eq!(read.problems, []);
    let schema = schema_of::<Shelf>();
    let documents: Vec<_> = read
        .documents
        .iter()
        .map(|one| one.check(&schema).unwrap())
        .collect();
    assert_eq!(
        documents,
        [
            json!({ "name": "a", "file": "${HOME}/x" }),
            json!({ "name": "b", "books": ["one", "two"] })
        ]
    );

    let lines = read.documents[1].lines();
    let lines: Vec<_> = lines
        .iter()
        .map(|(path, place)| (path.as_str(), place.line))
        .collect();
    assert_eq!(lines, [("books", 6), ("books[0]", 7), ("books[1]", 8)]);
    assert_eq!(read.documents[1].text(&["name"]), Some("b"));
}

#[test]
fn mistakes_of_all_documents_have_their_lines() {
    let text = "name: a\nname: b\n---\nname: c\nbook: []\n---\nname: [\n";
    let read = read_documents(Path::new("shelves.yaml"), text);
    let schema = schema_of::<Shelf>();
    let mut problems = read.problems;
    problems.extend(
        read.documents
            .iter()
            .filter_map(|one| one.check(&schema).err())
            .flatten(),
    );
    let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(
        said[0].starts_with("shelves.yaml:2:1: name: this was already given"),
        "{said:?}"
    );
    assert!(
        said[1].starts_with("shelves.yaml:8:1: this is not YAML"),
        "{said:?}"
    );
    assert!(
        said[2].starts_with("shelves.yaml:5:1: book: unknown key; did you mean `books`?"),
        "{said:?}"
    );
}

#[test]
fn a_text_that_is_too_large_is_refused_unread() {
    let text = " ".repeat(super::TEXT_BYTES + 1);
    let read = read_documents(Path::new("shelves.yaml"), &text);
    assert_eq!(read.documents.len(), 0);
    assert!(read.problems[0].reason.contains("larger than 32 MiB"));
}
