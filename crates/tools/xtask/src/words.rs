//! Words and names that stay out, each with its reason.

use crate::report::Violation;
use crate::rust::{Rust, identifier, line_of, words};
use crate::tree::{File, Tree};

/// Macros, attributes and calls that no Rust file has, tests included.
const NOWHERE: &[(&str, &str)] = &[
    (
        "todo!(",
        "finish it or leave it out; an open end belongs in an issue",
    ),
    (
        "unimplemented!(",
        "finish it or leave it out; an open end belongs in an issue",
    ),
    ("dbg!(", "use tracing"),
    ("#[ignore", "a test that cannot run fails, it never skips"),
];

/// Paths that production code does not name.
const NOT_IN_PRODUCTION: &[(&str, &str)] = &[(
    "std::sync::Mutex",
    "use parking_lot: no poisoning, so no unwrap on every lock",
)];

/// Paths that production code of a pure crate does not name.
const NOT_IN_PURE_CRATES: &[(&str, &str)] = &[
    (
        "Instant::now",
        "time is an argument here, so that tests and the planner can choose it",
    ),
    (
        "SystemTime::now",
        "time is an argument here, so that tests and the planner can choose it",
    ),
];
const PURE_FOLDERS: &[&str] = &[
    "crates/wire/",
    "crates/decide/config/src/",
    "crates/decide/rules/src/",
    "crates/decide/convert/src/",
];

/// Function names that say nothing about the function.
const PREFIXES: &[(&str, &str)] = &[
    ("get_", "name it after what it returns"),
    ("do_", "name it after what it does"),
];

/// Ends of type names that hide the nature of the type.
const SUFFIXES: &[&str] = &["Manager", "Helper", "Helpers", "Util", "Utils"];

/// File and folder names that collect homeless code.
const DRAWERS: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// Notes to oneself.
const NOTES: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Folders of one person's machine; in pieces, because this file is searched too.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
];

/// English that an engineer of the field would not say aloud, and his words; in pieces, because this file is searched too.
const ENGLISH: &[(&str, &str)] = &[
    (
        concat!("who", "ever"),
        "`anyone who`, or name who it is: the client, the caller",
    ),
    (concat!("no", "body"), "`no one`, `none` or `nothing`"),
    (concat!("some", "body"), "`someone`, or name who it is"),
    (concat!("sel", "dom"), "`rarely`"),
    (concat!("bel", "ief"), "`auth context`, or what was proved"),
    (concat!("rede", "cide"), "`re-evaluate`"),
    (concat!("rede", "cided"), "`re-evaluated`"),
];

/// Names of types that had no meaning but in this house.
const HOUSE_TYPES: &[(&str, &str)] = &[
    ("Lane", "`PacketDirection`, or whose direction it is"),
    ("Seat", "`entry` or `permit`"),
    ("Seeing", "`Telemetry`"),
];

/// The user of that name, in configurations of other servers.
const UNIX_USER: &str = "User ";

/// Checks every file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let mut violations = machine_paths(file);
    violations.extend(notes(file));
    violations.extend(english(file));

    if let Some(rust) = &file.rust {
        violations.extend(file_name(&file.path));
        violations.extend(code(file, rust));
        violations.extend(functions(&file.path, rust));
        violations.extend(types(&file.path, rust));
    }

    violations
}

/// Banned text in the view of the code that each ban is about.
fn code(file: &File, rust: &Rust) -> Vec<Violation> {
    let mut violations = banned(&file.path, &rust.code, NOWHERE);
    if file.is_production() {
        violations.extend(banned(&file.path, &rust.production, NOT_IN_PRODUCTION));
        violations.extend(grouped_mutex(&file.path, &rust.production));
        if PURE_FOLDERS
            .iter()
            .any(|folder| file.path.starts_with(folder))
        {
            violations.extend(banned(&file.path, &rust.production, NOT_IN_PURE_CRATES));
        }
    }

    violations
}

fn banned(path: &str, view: &str, list: &[(&str, &str)]) -> Vec<Violation> {
    let hits = |&(word, reason): &(&str, &str)| {
        let places = view
            .match_indices(word)
            .map(|(at, _)| at)
            .filter(|at| starts_a_name(view, *at));
        let violation = |at| {
            Violation::new(
                path,
                line_of(view, at),
                format!("`{word}` is banned: {reason}"),
            )
        };

        places.map(violation).collect::<Vec<_>>()
    };
    list.iter().flat_map(hits).collect()
}

/// `use std::sync::{Arc, Mutex};` names it too.
fn grouped_mutex(path: &str, code: &str) -> Vec<Violation> {
    const GROUP: &str = "std::sync::{";
    let (word, reason) = NOT_IN_PRODUCTION[0];
    let group = |at: usize| code[at..].split(';').next().unwrap_or_default();
    let hits = code
        .match_indices(GROUP)
        .filter(|(at, _)| words(group(*at), "Mutex").next().is_some());

    hits.map(|(at, _)| {
        Violation::new(
            path,
            line_of(code, at),
            format!("`{word}` is banned: {reason}"),
        )
    })
    .collect()
}

fn functions(path: &str, rust: &Rust) -> Vec<Violation> {
    let named = words(&rust.code, "fn").map(|at| (at, identifier(&rust.code[at + 2..])));
    let judged = named.filter_map(|(at, name)| {
        let (prefix, reason) = PREFIXES
            .iter()
            .find(|(prefix, _)| name.starts_with(prefix))?;
        Some(Violation::new(
            path,
            line_of(&rust.code, at),
            format!("`{name}`: no `{prefix}` names; {reason}"),
        ))
    });

    judged.collect()
}

fn types(path: &str, rust: &Rust) -> Vec<Violation> {
    let kinds = ["struct", "enum", "trait", "type", "union"];
    let named = kinds
        .iter()
        .flat_map(|kind| words(&rust.code, kind).map(move |at| (at, at + kind.len())));
    let judged = named.filter_map(|(at, end)| {
        let name = identifier(&rust.code[end..]);
        let suffix = SUFFIXES.iter().find(|suffix| name.ends_with(*suffix));
        let house = HOUSE_TYPES.iter().find(|(house, _)| *house == name);
        let message = match (suffix, house) {
            (Some(suffix), _) => {
                format!("`{name}`: no `{suffix}` types; name the concept that it is")
            }
            (None, Some((_, remedy))) => format!("`{name}`: write {remedy}"),
            (None, None) => return None,
        };

        Some(Violation::new(path, line_of(&rust.code, at), message))
    });

    judged.collect()
}

fn file_name(path: &str) -> Option<Violation> {
    let mut parts = path.trim_end_matches(".rs").split('/');
    let drawer = parts.find(|part| DRAWERS.contains(part))?;
    Some(Violation::new(
        path,
        0,
        format!("no `{drawer}` files; name a file after its one concept"),
    ))
}

/// Notes in comments of Rust and in the text of everything else, outside backticks.
fn notes(file: &File) -> Vec<Violation> {
    let is_markdown = file.path.ends_with(".md");
    let text = file.rust.as_ref().map_or(&file.text, |rust| &rust.comments);
    let lines = text.lines().enumerate().filter_map(|(index, line)| {
        let note = NOTES.iter().find(|note| {
            words(line, note).any(|at| !(is_markdown && line[..at].matches('`').count() % 2 == 1))
        })?;
        Some(Violation::new(
            &file.path,
            index + 1,
            format!("{note}: an open end belongs in an issue"),
        ))
    });

    lines.collect()
}

/// House English, in names, comments and texts alike.
fn english(file: &File) -> Vec<Violation> {
    let lines = file.text.lines().enumerate().flat_map(|(index, line)| {
        let lower = line.to_ascii_lowercase();
        let found = ENGLISH.iter().filter(move |(word, _)| says(&lower, word));
        let at_user = |word: &str| line.contains(&format!("{UNIX_USER}{word}"));
        let found = found.filter(move |(word, _)| !at_user(word));
        found.map(move |(word, remedy)| {
            Violation::new(&file.path, index + 1, format!("`{word}`: write {remedy}"))
        })
    });
    lines.collect()
}

/// Is the word in the line, also as a part of a name in snake case?
fn says(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let is_letter = |char: Option<char>| char.is_some_and(char::is_alphabetic);
        !is_letter(before) && !is_letter(after)
    })
}

fn machine_paths(file: &File) -> Vec<Violation> {
    let lines = file.text.lines().enumerate().filter_map(|(index, line)| {
        let named = |path: &&&str| {
            line.match_indices(**path)
                .any(|(at, _)| starts_a_path(line, at))
        };

        let path = MACHINE_PATHS.iter().find(named)?;
        Some(Violation::new(
            &file.path,
            index + 1,
            format!("`{path}` is a path of one machine; make it relative"),
        ))
    });
    lines.collect()
}

fn starts_a_name(text: &str, at: usize) -> bool {
    !text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
}

/// Is this slash the first of an absolute path, and not part of a longer path or of a URL?
fn starts_a_path(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|before: char| before.is_alphanumeric() || "_.-/}*".contains(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check_file(&File::new(path, text))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn finds(path: &str, text: &str, message: &str) {
        let found = messages(path, text);
        assert!(
            found.len() == 1 && found[0].contains(message),
            "{text:?}: {found:?}"
        );
    }

    const PATH: &str = "crates/wire/proto/src/capsule.rs";

    #[test]
    fn banned_code_is_found_with_its_line() {
        finds(
            PATH,
            "fn f() {\n    todo!()\n}\n",
            "capsule.rs:2: `todo!(` is banned",
        );
        finds(PATH, "fn f() { dbg!(1); }", "dbg!(");
        finds(
            "crates/a/tests/b.rs",
            "#[ignore = \"slow\"]\nfn f() {}",
            "#[ignore",
        );
    }

    #[test]
    fn words_in_literals_and_comments_are_not_code() {
        assert!(messages(PATH, "// dbg!( is banned\nconst A: &str = \"todo!(\";").is_empty());
    }

    #[test]
    fn std_mutex_is_found_in_both_forms_of_import() {
        finds(PATH, "use std::sync::Mutex;", "parking_lot");
        finds(PATH, "use std::sync::{Arc, Mutex};", "parking_lot");
        assert!(
            messages(
                PATH,
                "use std::sync::{Arc, atomic::AtomicU64};\nuse parking_lot::Mutex;"
            )
            .is_empty()
        );
        assert!(messages("crates/wire/proto/tests/a.rs", "use std::sync::Mutex;").is_empty());
    }

    #[test]
    fn pure_crates_do_not_read_the_clock() {
        finds(PATH, "let now = Instant::now();", "time is an argument");
        assert!(
            messages(
                "crates/machine/net/src/clock.rs",
                "let now = Instant::now();"
            )
            .is_empty()
        );
        assert!(
            messages(
                PATH,
                "#[cfg(test)]\nmod tests { fn f() { Instant::now(); } }"
            )
            .is_empty()
        );
    }

    #[test]
    fn empty_names_are_found() {
        finds(PATH, "fn get_name() {}", "no `get_` names");
        finds(PATH, "pub struct LinkManager;", "no `Manager` types");
        finds("crates/machine/net/src/util.rs", "", "no `util` files");
        finds(
            "crates/machine/net/src/common/mod.rs",
            "",
            "no `common` files",
        );
        assert!(messages(PATH, "fn target_get() {}\nstruct Managers;").is_empty());
        finds(PATH, "pub struct Seat;", "write `entry` or `permit`");
        assert!(messages(PATH, "pub struct Seats;").is_empty());
    }

    #[test]
    fn notes_are_found_in_comments_and_texts() {
        let note = NOTES[0];
        finds(PATH, &format!("// {note}: later"), "belongs in an issue");
        finds(
            "deny.toml",
            &format!("# {note} later"),
            "belongs in an issue",
        );
        finds(
            "README.md",
            &format!("`a` {note} later"),
            "belongs in an issue",
        );
        assert!(messages("README.md", &format!("no `{note}` here")).is_empty());
    }

    #[test]
    fn house_english_is_found_with_its_remedy() {
        let word = ENGLISH[1].0;
        finds("README.md", &format!("It asks {word}."), "write `no one`");
        finds(PATH, &format!("fn it_asks_{word}() {{}}"), "write `no one`");
        finds(
            "a.yaml",
            &format!("# {}", ENGLISH[0].0.to_uppercase()),
            "name who it is",
        );
        assert!(
            messages(
                "crates/tools/tests/src/peers.rs",
                &format!("//! User {word}")
            )
            .is_empty()
        );
        assert!(messages("README.md", &format!("{word}s")).is_empty());
    }

    #[test]
    fn machine_paths_are_found_but_not_inside_longer_ones() {
        let path = MACHINE_PATHS[0];
        finds(
            "README.md",
            &format!("cd {path}main"),
            "path of one machine",
        );
        assert!(
            messages(
                "README.md",
                &format!("https://example.com{path} and ./a{path} and $HOME{path}")
            )
            .is_empty()
        );
    }
}
