//! The one place that writes to standard output and standard error.

#![allow(
    clippy::print_stdout,
    reason = "what a command answers goes to standard output, from here only"
)]

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use hermes_observe::shown::{for_terminal, json_for_terminal};
use rustix::termios::tcgetwinsize;
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
        Self {
            json,
            terminal: io::stdout().is_terminal(),
        }
    }

    /// Columns that a line may have; `None` where the output is no terminal, and the reader cuts or searches it.
    pub fn width(self) -> Option<usize> {
        self.terminal.then(|| terminal_size().0)
    }

    /// Colours are for people at a terminal who did not ask to be spared (no-color.org).
    pub fn colours(self) -> bool {
        self.terminal
            && !self.json
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
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
    /// A closed pipe is no failure: the reader has seen enough.
    pub fn line(self, text: impl Display) {
        drop(writeln!(io::stdout().lock(), "{}", safe(&text.to_string())));
    }

    /// Writes `text` without a line's end and shows it at once.
    pub fn raw(self, text: &str) {
        let mut stdout = io::stdout().lock();
        drop(
            stdout
                .write_all(safe(text).as_bytes())
                .and_then(|()| stdout.flush()),
        );
    }

    /// Writes a value as indented JSON.
    pub fn value(self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(json_for_terminal(&text)),
            Err(error) => note(format_args!("hermes: the answer is not JSON: {error}")),
        }
    }

    /// Says why a command failed: an object on standard output for scripts, lines on standard error for people.
    pub fn failure(self, failure: &Failure) {
        if self.json && !failure.reason.is_empty() {
            self.value(&failure.json());
        } else {
            drop(
                io::stderr()
                    .lock()
                    .write_all(safe(&failure.text()).as_bytes()),
            );
        }
    }
}

/// Columns and rows of a terminal that does not say how many it has.
const TERMINAL: (usize, usize) = (80, 24);

/// Columns and rows of the terminal that standard output is.
pub fn terminal_size() -> (usize, usize) {
    let size = tcgetwinsize(io::stdout())
        .ok()
        .filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or(TERMINAL, |size| {
        (usize::from(size.ws_col), usize::from(size.ws_row))
    })
}

/// Writes one line to standard error: progress, as opposed to the result.
pub fn note(text: impl Display) {
    drop(writeln!(io::stderr().lock(), "{}", safe(&text.to_string())));
}

/// The part of a text that goes to a terminal. Much of it was chosen by clients; only sequences that this program writes itself keep their
/// ESC, all of which leave the terminal as it was, or are undone.
pub fn safe(text: &str) -> Cow<'_, str> {
    const ESC: char = '\x1b';
    if !text.contains(ESC) {
        return for_terminal(text, is_layout);
    }

    let mut parts = text.split(ESC);
    let mut shown = for_terminal(parts.next().unwrap_or_default(), is_layout).into_owned();
    for part in parts {
        let own = part
            .find(|letter: char| letter.is_ascii_alphabetic())
            .is_some_and(|end| is_own(&part[..=end]));
        shown.push_str(if own { "\x1b" } else { r"\u{1b}" });
        shown.push_str(&for_terminal(part, is_layout));
    }

    Cow::Owned(shown)
}

fn is_layout(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\t')
}

/// Sequences after ESC: colours and their end, the cursor's home, clearing, and the other screen with and without a cursor.
fn is_own(sequence: &str) -> bool {
    let colour = |numbers: &str| {
        numbers
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b';')
    };
    match sequence {
        "[H" | "[J" | "[K" | "[?1049h" | "[?1049l" | "[?25h" | "[?25l" => true,
        _ => sequence
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix('m'))
            .is_some_and(colour),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_chose_cannot_command_the_terminal() {
        let table = "\x1b[H\x1b[1;36mtarget\x1b[0m\n \u{9b}2J\u{202e}x\x1b]0;title\x07\x1b[2J\u{fc}\x1b[K\r\n\x1b[J";
        let shown = "\x1b[H\x1b[1;36mtarget\x1b[0m\n \\u{9b}2J\\u{202e}x\\u{1b}]0;title\\u{7}\\u{1b}[2J\u{fc}\x1b[K\r\n\x1b[J";
        assert_eq!(safe(table), shown);
        assert!(matches!(safe("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn colours_are_only_for_terminals() {
        assert_eq!(
            Output {
                json: false,
                terminal: false
            }
            .paint(Colour::Good, "ok"),
            "ok"
        );
        assert_eq!(
            Output {
                json: true,
                terminal: true
            }
            .paint(Colour::Bad, "no"),
            "no"
        );
    }
}
