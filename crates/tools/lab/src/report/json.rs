//! Results as a file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Reads a file.
///
/// # Errors
/// When it is not there, or is no such file.
pub fn load<R: DeserializeOwned>(file: &Path) -> Result<R> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}

/// Writes a file, over an earlier one.
///
/// # Errors
/// When it cannot be written.
pub fn save<R: Serialize>(results: &R, file: &Path) -> Result<()> {
    let text = serde_json::to_string_pretty(results)?;
    fs::write(file, text + "\n").with_context(|| file.display().to_string())
}
