//! `hermes check FILE`: everything that is wrong with it.

use std::path::PathBuf;

use clap::Args;
use hermes_config::model::Document;

use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes check`.
#[derive(Debug, Args)]
pub struct Check {
    /// The node's configuration.
    file: PathBuf,
}

/// Reads the file, what it includes and the files that it names; changes nothing.
///
/// # Errors
/// With exit code 2 if there is any problem.
pub fn run(check: &Check, output: Output) -> Result<(), Failure> {
    let found = super::load(&check.file).and_then(|loaded| {
        let content = content(&loaded.document);
        hermes_proxy::check(loaded).map(|()| content)
    });
    let (problems, verdict) = match found {
        Ok(content) => (Vec::new(), content),
        Err(problems) => (problems.0, String::new()),
    };
    if output.json {
        output.value(&problems);
    } else {
        problems.iter().for_each(|problem| output.line(problem));
        let verdict = if problems.is_empty() { verdict } else { count(problems.len(), "problem") };
        output.line(format_args!("{}: {verdict}", check.file.display()));
    }
    if problems.is_empty() { Ok(()) } else { Err(Failure::told(2)) }
}

/// What a valid document has, in a few words.
fn content(document: &Document) -> String {
    let listeners = count(document.listeners.len(), "listener");
    let routes = count(document.routes.len(), "route");
    format!("valid, with {listeners}, {routes} and {}", count(document.upstreams.len(), "upstream"))
}

/// `1 route`, `2 routes`.
fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!([count(0, "route"), count(1, "route"), count(2, "route")], ["0 routes", "1 route", "2 routes"]);
    }
}
