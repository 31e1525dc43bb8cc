//! Files that include files.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use std::path::{Path, PathBuf};
use std::{fs, io};

use hermes_config::{FileReader, Loaded, Problems, load, load_from};

/// Loads the first of these files.
fn loaded(folder: &Path, files: &[(&str, &str)]) -> Result<Loaded, Problems> {
    for (name, text) in files {
        let file = folder.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    load(&folder.join(files[0].0), &|name| {
        (name == "PORT").then(|| "7000".to_owned())
    })
}

/// The problems of the first of these files, without the folder's name.
fn problems(files: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let problems = loaded(folder.path(), files).unwrap_err().to_string();
    problems.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn maps_and_lists_of_included_files_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let main = "version: 1\ninclude: [parts/routes.yaml, parts/db.yaml]\nlisteners: { web: { http: \"127.0.0.1:1\" } }\nroutes: [{ name: own }]\nlog: { level: info }\n";
    let routes = "version: 1\nroutes:\n  - name: first\n  - name: second\n";
    let db = "include: [../last.yaml]\nlisteners: { db: { tcp: \"127.0.0.1:${PORT}\" } }\nlog: { access: stderr }\n";
    let last = "identity: { user: alice, token_file: alice.jwt }\nroutes: [{ name: last }]\n";
    let files = [
        ("node.yaml", main),
        ("parts/routes.yaml", routes),
        ("parts/db.yaml", db),
        ("last.yaml", last),
    ];
    let loaded = loaded(folder.path(), &files).unwrap();

    let names: Vec<&str> = loaded
        .document
        .routes
        .iter()
        .filter_map(|route| route.name.as_deref())
        .collect();
    assert_eq!(names, ["own", "first", "second", "last"]);
    assert_eq!(
        loaded.document.listeners.keys().collect::<Vec<_>>(),
        ["web", "db"]
    );
    assert_eq!(loaded.document.log.level.as_deref(), Some("info"));
    assert_eq!(loaded.files.len(), 4);
    assert!(loaded.files.iter().all(|file| file.is_absolute()));
    let token = loaded.document.identity.unwrap().token_file.unwrap();
    let token = &token.file().unwrap().0;
    assert!(token.is_absolute() && token.file_name().unwrap() == "alice.jwt");
    let place = loaded.places.locate("routes[2].name").unwrap();
    assert!(place.file.ends_with("parts/routes.yaml") && (place.line, place.column) == (4, 11));
}

#[test]
fn paths_are_relative_to_the_file_where_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let main =
        "version: 1\ninclude: [parts/admin.yaml]\nlisteners: { a: { http: \"unix:a.sock\" } }\n";
    let files = [
        ("node.yaml", main),
        ("parts/admin.yaml", "admin: { socket: run/admin.sock }\n"),
    ];
    let loaded = loaded(folder.path(), &files).unwrap();
    assert_eq!(
        loaded.document.admin.socket.unwrap().0,
        folder.path().join("parts/run/admin.sock")
    );
    let listener = loaded.document.listeners["a"].http().unwrap();
    assert_eq!(
        listener.address.to_string(),
        format!("unix:{}", folder.path().join("a.sock").display())
    );
}

#[test]
fn what_two_files_say_is_refused_with_both_places() {
    let main =
        "version: 1\nnode: a\ninclude: [more.yaml]\nlisteners:\n  web: { http: \"127.0.0.1:1\" }\n";
    let more = "node: b\nlisteners:\n  web: { http: \"127.0.0.1:2\" }\n";
    assert_eq!(
        problems(&[("node.yaml", main), ("more.yaml", more)]),
        "more.yaml:1:1: node: this was already given at node.yaml:2:1; keep one of them\n\
         more.yaml:3:3: listeners.web: this was already given at node.yaml:5:3; keep one of them"
    );
}

#[test]
fn problems_of_all_files_are_reported_at_once() {
    let main = "version: 1\ninclude: [a.yaml, none.yaml, b.yaml]\nnod: x\n";
    let problems = problems(&[
        ("node.yaml", main),
        ("a.yaml", "routs: []\n"),
        ("b.yaml", "a: [\n"),
    ]);
    let lines: Vec<&str> = problems.lines().collect();
    assert_eq!(lines.len(), 4, "{problems}");
    assert!(
        lines[0].starts_with("node.yaml:2:19: include[1]: cannot read none.yaml"),
        "{problems}"
    );
    assert_eq!(
        lines[1],
        "node.yaml:3:1: nod: unknown key; did you mean `node`?"
    );
    assert_eq!(
        lines[2],
        "a.yaml:1:1: routs: unknown key; did you mean `routes`?"
    );
    assert!(
        lines[3].starts_with("b.yaml:2:1: this is not YAML"),
        "{problems}"
    );
}

#[test]
fn cycles_repetitions_and_long_rows_are_refused() {
    let own = problems(&[
        ("a.yaml", "version: 1\ninclude: [b.yaml]\n"),
        ("b.yaml", "include: [a.yaml]\n"),
    ]);
    assert_eq!(own, "b.yaml:1:11: include[0]: a.yaml includes itself");
    let twice = problems(&[
        ("a.yaml", "version: 1\ninclude: [b.yaml, ./b.yaml]\n"),
        ("b.yaml", "node: b\n"),
    ]);
    assert_eq!(twice, "a.yaml:2:19: include[1]: ./b.yaml is included twice");
    let row: Vec<(String, String)> = (0..12)
        .map(|step| {
            (
                format!("{step}.yaml"),
                format!("version: 1\ninclude: [{}.yaml]\n", step + 1),
            )
        })
        .collect();
    let row: Vec<(&str, &str)> = row
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    assert_eq!(
        problems(&row),
        "8.yaml:2:11: include[0]: more than 8 files include each other in a row"
    );
}

#[test]
fn an_included_file_of_another_version_is_refused() {
    let files = [
        ("a.yaml", "version: 1\ninclude: [b.yaml]\n"),
        ("b.yaml", "version: 2\n"),
    ];
    assert!(problems(&files).starts_with("b.yaml:1:10: version: the version differs"));
}

/// Files that are on no disk.
struct InMemory(&'static [(&'static str, &'static str)]);

impl FileReader for InMemory {
    fn read(&self, file: &Path, most: u64) -> io::Result<Vec<u8>> {
        let found = self.0.iter().find(|(name, _)| Path::new(name) == file);
        let (_, text) = found.ok_or(io::ErrorKind::NotFound)?;
        let most = usize::try_from(most).unwrap();
        Ok(text.bytes().take(most).collect())
    }

    fn true_name(&self, file: &Path) -> Option<PathBuf> {
        Some(file.to_owned())
    }
}

#[test]
fn a_document_is_read_where_there_are_no_files() {
    let files = InMemory(&[
        ("/node.yaml", "version: 1\ninclude: [parts/a.yaml]\n"),
        ("/parts/a.yaml", "routes: [{ name: a }]\n"),
        (
            "/self.yaml",
            "version: 1\ninclude: [self.yaml, gone.yaml]\n",
        ),
    ]);
    let loaded = load_from(&files, Path::new("/node.yaml"), &|_| None).unwrap();
    assert_eq!(loaded.document.routes[0].name.as_deref(), Some("a"));
    assert_eq!(loaded.files.len(), 2);
    let place = loaded.places.locate("routes[0].name").unwrap();
    assert_eq!(place.to_string(), "/parts/a.yaml:1:18");

    let wrong = load_from(&files, Path::new("/self.yaml"), &|_| None);
    let said = wrong.unwrap_err().to_string();
    assert!(said.contains("/self.yaml includes itself"), "{said}");
    assert!(said.contains("cannot read /gone.yaml"), "{said}");
}
