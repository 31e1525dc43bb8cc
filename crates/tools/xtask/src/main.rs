//! House rules that a machine checks. `cargo xtask tidy` prints every violation and fails if there is one;
//! `deny` holds the dependency tree to its rules; `matrix` writes the results of tests with peers into the documentation, and
//! `bounds` the bounds of the code; `tuned` builds `hermes` by a profile of running nodes.
//!
//! It is neither a formatter nor a linter. rustfmt and clippy look inside the code; this looks at the shape around it:
//! who may depend on whom, how long things are, which words and names stay out, what every file says of itself.
//!
//! Specifications: none but `CONTRIBUTING.md`. Begin reading in `words.rs`: a check as all are, with its tests.

mod bounds;
mod budget;
mod circles;
mod deny;
mod docs;
mod errors;
mod imports;
mod layers;
mod links;
mod matrix;
mod names;
mod pairs;
mod promises;
mod reasons;
mod report;
mod rooms;
mod rust;
mod sizes;
mod tree;
mod tuned;
mod tuples;
mod words;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use report::Violation;
use tree::Tree;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        ["bounds"] => done(Tree::read().and_then(|tree| bounds::run(&tree))),
        ["tuned"] => done(tuned::run()),
        ["deny"] => done(deny::check().map(|said| say(&said))),
        ["matrix", folder] => done(matrix::run(folder, false)),
        ["matrix", "--check", folder] => done(matrix::run(folder, true)),
        _ => {
            say(
                "usage: cargo xtask tidy\n       cargo xtask bounds\n       cargo xtask deny\n       cargo xtask matrix [--check] FOLDER\n       cargo xtask tuned",
            );
            ExitCode::from(2)
        }
    }
}

/// Runs every check over the repository and prints what it found.
fn tidy() -> ExitCode {
    let start = Instant::now();
    let tree = match Tree::read() {
        Ok(tree) => tree,
        Err(reason) => {
            say(&format!("tidy: {reason}"));
            return ExitCode::from(2);
        }
    };

    let violations = check(&tree);
    for violation in &violations {
        say(&violation.to_string());
    }

    let files = tree.files.len();
    let found = violations.len();
    say(&format!(
        "tidy: {files} files, {found} violations, {} ms",
        start.elapsed().as_millis()
    ));

    if violations.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn done(result: Result<(), String>) -> ExitCode {
    let Err(reason) = result else {
        return ExitCode::SUCCESS;
    };
    say(&reason);
    ExitCode::FAILURE
}

/// All violations, by file and line.
fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = layers::check(&tree.metadata);
    violations.extend(rooms::check(tree));
    violations.extend(sizes::check(tree));
    violations.extend(words::check(tree));
    violations.extend(docs::check(tree));
    violations.extend(links::check(tree));
    violations.extend(errors::check(tree));
    violations.extend(pairs::check(tree));
    violations.extend(bounds::check(tree));
    violations.extend(promises::check(tree));
    violations.sort();

    violations
}

fn say(line: &str) {
    // A closed pipe is the reader's choice, not a failure of the check.
    let _ = writeln!(std::io::stdout(), "{line}");
}
