//! The measurement under way, on standard error.

use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

/// A line on standard error that is written anew; without a terminal, a line now and then.
pub struct Progress {
    steps: usize,
    done: usize,
    begin: Instant,
    terminal: bool,
}

/// Without a terminal, one step in this many is told.
const EVERY: usize = 20;

impl Progress {
    /// Of this many steps.
    pub fn new(steps: usize) -> Self {
        Self {
            steps,
            done: 0,
            begin: Instant::now(),
            terminal: stderr().is_terminal(),
        }
    }

    /// The next step begins.
    pub fn step(&mut self, what: &str) {
        let line = format!(
            "{:3} % {:4.0} s  {what}",
            self.done * 100 / self.steps.max(1),
            self.begin.elapsed().as_secs_f64()
        );
        if self.terminal {
            // Nothing depends on progress being seen.
            drop(write!(stderr(), "\r\x1b[K{line}"));
            drop(stderr().flush());
        } else if self.done.is_multiple_of(EVERY) {
            eprintln!("{line}");
        }

        self.done += 1;
    }

    /// All is done.
    pub fn end(self) {
        if self.terminal {
            drop(write!(stderr(), "\r\x1b[K"));
        }
    }
}
