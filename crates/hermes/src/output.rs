//! The one place that writes to standard output and standard error.

#![allow(clippy::print_stdout, reason = "what a command answers goes to standard output, from here only")]

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::failure::Failure;

/// How a command answers.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// JSON, for scripts.
    pub json: bool,
    /// Standard output is a terminal.
    pub terminal: bool,
}

/// Colours that mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// It is as it should be.
    Good,
    /// It is not.
    Bad,
}

impl Output {
    /// Output as the user asked for it.
    pub fn new(json: bool) -> Self {
        Self { json, terminal: io::stdout().is_terminal() }
    }

    /// Colours are for people at a terminal who did not ask to be spared (no-color.org).
    pub fn colours(self) -> bool {
        self.terminal && !self.json && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
    }

    /// Paints `text`, where colours are seen.
    pub fn paint(self, colour: Colour, text: &str) -> String {
        if !self.colours() {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Good => 32,
            Colour::Bad => 31,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Writes one line, or several.
    ///
    /// A closed pipe is no failure: whoever reads has seen enough.
    pub fn line(self, text: impl Display) {
        drop(writeln!(io::stdout().lock(), "{text}"));
    }

    /// Writes `text` as it is and shows it at once.
    pub fn raw(self, text: &str) {
        let mut stdout = io::stdout().lock();
        drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
    }

    /// Writes a value as indented JSON.
    pub fn value(self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(text),
            Err(error) => note(format_args!("hermes: the answer is no JSON: {error}")),
        }
    }

    /// Says why a command failed: an object on standard output for scripts, lines on standard error for people.
    pub fn failure(self, failure: &Failure) {
        if self.json && !failure.reason.is_empty() {
            self.value(&failure.json());
        } else {
            drop(io::stderr().lock().write_all(failure.text().as_bytes()));
        }
    }
}

/// Writes one line to standard error: what happens, as opposed to what was asked for.
pub fn note(text: impl Display) {
    drop(writeln!(io::stderr().lock(), "{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_only_for_terminals() {
        assert_eq!(Output { json: false, terminal: false }.paint(Colour::Good, "ok"), "ok");
        assert_eq!(Output { json: true, terminal: true }.paint(Colour::Bad, "no"), "no");
    }
}
