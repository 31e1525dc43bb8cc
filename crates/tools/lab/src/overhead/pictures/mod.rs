//! CaseResults as pictures: one file for each experiment.

mod bars;
mod colours;
mod lines;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::figures::{CaseResults, Section};
use crate::experiment::Experiment;
use crate::report::svg::picture;

/// Writes `EXPERIMENT.svg` for each experiment that was run.
///
/// # Errors
/// When a file cannot be written.
pub fn save(results: &CaseResults, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for section in Section::all(results) {
        let (width, height, content) = match section.experiment {
            Experiment::Burst => lines::draw(results, &section),
            _ => bars::draw(results, &section),
        };

        let picture = picture(width, height, &content);
        let file = folder.join(format!("{}.svg", section.experiment.name()));
        fs::write(&file, picture).with_context(|| file.display().to_string())?;
    }

    Ok(())
}
