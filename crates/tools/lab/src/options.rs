//! Options that all commands share.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::report::{Run, Sheet, load, save};

/// How much is measured.
#[derive(Debug, clap::Args)]
pub struct RoundOptions {
    /// Fewer and shorter measurements: more scatter.
    #[arg(long)]
    pub short: bool,
    /// Rounds; every figure is the median of this many.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    /// Seed of the order in each round.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The measured build, and the files of results.
#[derive(Debug, clap::Args)]
pub struct OutputOptions {
    /// Write the results to this file. Results of earlier runs of `overhead` and `hops` stay in it, and in the report.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Write a page of documentation to this file; it shows the pictures if they are in the same folder.
    #[arg(long)]
    pub markdown: Option<PathBuf>,
    /// Measure this build of Hermes instead of building one.
    #[arg(long)]
    pub hermes: Option<PathBuf>,
}

/// The rounds, the measured build, and the files of results.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// How much is measured.
    #[command(flatten)]
    pub rounds: RoundOptions,
    /// Files to write, and the build to measure.
    #[command(flatten)]
    pub output: OutputOptions,
    /// Write pictures to this folder.
    #[arg(long)]
    pub svg: Option<PathBuf>,
    /// Measure nothing: show the results in the file of `--json`.
    #[arg(long, requires = "json")]
    pub show: bool,
}

/// Results that are shown as a page, and in a terminal.
pub trait Published: Serialize {
    /// For a terminal.
    fn print(&self) -> String;

    /// As a page of documentation.
    fn page(&self) -> String;
}

impl OutputOptions {
    /// Writes the results where they are wanted, and prints them.
    ///
    /// # Errors
    /// A file cannot be written, or standard output is closed.
    pub fn publish(&self, results: &impl Published) -> Result<()> {
        if let Some(file) = &self.json {
            save(results, file)?;
        }
        self.publish_page(|| results.page())?;
        show(&results.print())
    }

    /// Writes the page, if it is wanted.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn publish_page(&self, page: impl FnOnce() -> String) -> Result<()> {
        match &self.markdown {
            Some(file) => fs::write(file, page()).with_context(|| file.display().to_string()),
            None => Ok(()),
        }
    }
}

/// Prints a text.
///
/// # Errors
/// Standard output is closed.
pub fn show(text: &str) -> Result<()> {
    writeln!(std::io::stdout().lock(), "{text}").context("standard output")
}

impl Options {
    /// Measures, unless results are only shown; the sheet with the figures and how they were made, those of earlier runs in the file among them.
    ///
    /// # Errors
    /// Those of the measurement; the file of results cannot be read.
    pub fn measured(&self, measure: impl FnOnce(&mut Sheet) -> Result<()>) -> Result<Sheet> {
        if let Some(file) = self.earlier().filter(|_| self.show) {
            return load(file);
        }

        let begin = Instant::now();
        let mut sheet = Sheet::default();
        measure(&mut sheet)?;
        sheet.runs.push(self.run(begin));
        match self.earlier() {
            Some(file) => Ok(sheet.after(load(file)?)),
            None => Ok(sheet),
        }
    }

    /// How it was measured, since `begin`.
    pub fn run(&self, begin: Instant) -> Run {
        Run::since(begin, self.rounds.seed)
    }

    /// The file from which results are loaded, if there are any.
    pub fn earlier(&self) -> Option<&PathBuf> {
        let json = self.output.json.as_ref();
        json.filter(|file| self.show || file.exists())
    }

    /// The file that results are written to, if there are new ones.
    pub fn later(&self) -> Option<&PathBuf> {
        self.output.json.as_ref().filter(|_| !self.show)
    }
}
