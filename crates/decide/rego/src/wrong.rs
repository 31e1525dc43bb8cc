//! A mistake in a file of a policy, and its place.

use std::fmt;

/// A mistake in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// The file, by the name that it was given.
    pub file: String,
    /// Line and column, from 1, where they are known.
    pub place: Option<(u32, u32)>,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => {
                write!(f, "{}:{line}:{column}: {}", self.file, self.reason)
            }
            None => write!(f, "{}: {}", self.file, self.reason),
        }
    }
}

/// Parses the place in a message of the interpreter: `--> file:line:column`, lines of the file,
/// `error: reason`.
pub(crate) fn wrong(name: &str, said: &str) -> Wrong {
    let place = said.lines().find_map(|line| {
        let (rest, column) = line.trim().strip_prefix("--> ")?.rsplit_once(':')?;
        let (file, line) = rest.rsplit_once(':')?;
        Some((file, line.parse().ok()?, column.parse().ok()?))
    });
    let reason = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("error: "))
        .unwrap_or(said)
        .trim();

    Wrong {
        file: place.map_or(name, |(file, ..)| file).to_owned(),
        place: place.map(|(_, line, column)| (line, column)),
        reason: reason.to_owned(),
    }
}
