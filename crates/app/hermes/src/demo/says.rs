//! Errors as one line that says what was being done.

use std::fmt::Display;

/// Names what was being done when something failed.
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
