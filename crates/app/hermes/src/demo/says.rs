//! Errors as one line, with the action that failed.

use std::fmt::Display;

/// Adds the action that failed.
pub trait Says<T> {
    /// `doing: why`.
    fn says(self, doing: impl Display) -> Result<T, String>;
}

impl<T, E: Display> Says<T> for Result<T, E> {
    fn says(self, doing: impl Display) -> Result<T, String> {
        self.map_err(|error| format!("{doing}: {error}"))
    }
}

/// Fails with `otherwise` unless `holds`.
pub fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}
