//! What the experiments of papers gave: figures by case and system, as a file, a table and a page.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::{Deserialize, Serialize};

use crate::experiment::Figure;
use crate::options::Options;
use crate::report::{Run, Summary, cell, load, number, save};

/// Everything that one experiment gave.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sheet {
    /// How it was measured, one for each run.
    pub runs: Vec<Run>,
    series: Vec<SheetSeries>,
    /// What went wrong, and where.
    pub failures: Vec<String>,
}

/// One figure of a case on one system, once for each round.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SheetSeries {
    case: String,
    #[serde(flatten)]
    figure: Figure,
    system: String,
    values: Vec<f64>,
}

/// A goal, and what was measured for it.
#[derive(Debug, Clone)]
pub struct PaperGoal {
    /// In words, with the bound.
    pub words: String,
    /// Measured.
    pub value: f64,
    /// Whether it is reached.
    pub is_reached: bool,
}

/// What stands at the head of a page.
#[derive(Debug, Clone, Copy)]
pub struct PageHead {
    /// The title.
    pub title: &'static str,
    /// The command that writes it, after `hermes-lab papers`.
    pub command: &'static str,
    /// What is measured, and how.
    pub words: &'static str,
}

impl Sheet {
    /// Adds what a round has measured.
    pub fn add(&mut self, case: &str, system: &str, figure: Figure, value: f64) {
        let same = |series: &&mut SheetSeries| {
            series.case == case && series.system == system && series.figure == figure
        };
        match self.series.iter_mut().find(same) {
            Some(series) => series.values.push(value),
            None => self.series.push(SheetSeries {
                case: case.to_owned(),
                figure,
                system: system.to_owned(),
                values: vec![value],
            }),
        }
    }

    /// Keeps from `earlier` the cases that were not measured again.
    #[must_use]
    fn after(mut self, earlier: Self) -> Self {
        let is_kept = |old: &SheetSeries| self.series.iter().all(|new| new.case != old.case);
        let mut series: Vec<_> = earlier.series.into_iter().filter(is_kept).collect();
        series.append(&mut self.series);

        Self {
            runs: earlier.runs.into_iter().chain(self.runs).collect(),
            series,
            failures: self.failures,
        }
    }

    /// Median and range of a figure; none if it was not measured.
    pub fn of(&self, case: &str, system: &str, figure: &str) -> Option<Summary> {
        let found = self.series.iter().find(|series| {
            series.case == case && series.system == system && series.figure.name == figure
        });
        found.and_then(|series| Summary::of(&series.values))
    }

    /// Cases and figures, each once, in the order in which they were first measured.
    fn rows(&self) -> Vec<(&str, &Figure)> {
        let mut rows: Vec<(&str, &Figure)> = Vec::new();
        for series in &self.series {
            let row = (series.case.as_str(), &series.figure);
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        rows
    }

    fn systems(&self) -> Vec<&str> {
        let mut systems: Vec<&str> = Vec::new();
        for series in &self.series {
            if !systems.contains(&series.system.as_str()) {
                systems.push(&series.system);
            }
        }
        systems
    }

    /// The cells of a row, one for each system.
    fn cells(&self, (case, figure): (&str, &Figure)) -> Vec<String> {
        let systems = self.systems().into_iter();
        systems
            .map(|system| cell(self.of(case, system, &figure.name)))
            .collect()
    }

    /// Writes and shows what was measured, with what the file has of earlier runs.
    ///
    /// # Errors
    /// A file cannot be read or written, or a measurement has failed.
    pub fn publish(
        self,
        options: &Options,
        head: PageHead,
        goals: impl FnOnce(&Self) -> Vec<PaperGoal>,
    ) -> Result<()> {
        let failed = self.failures.len();
        let sheet = match options.earlier() {
            Some(file) => self.after(load(file)?),
            None => self,
        };
        if let Some(file) = options.later() {
            save(&sheet, file)?;
        }

        let goals = goals(&sheet);
        if let Some(file) = &options.markdown {
            write_page(file, &sheet.page(head, &goals))?;
        }
        let mut out = std::io::stdout().lock();
        std::io::Write::write_all(&mut out, sheet.print(&goals).as_bytes())
            .context("standard output")?;

        anyhow::ensure!(failed == 0, "{failed} measurements failed; see above");
        Ok(())
    }

    fn print(&self, goals: &[PaperGoal]) -> String {
        let mut table = Table::new();
        table.load_style(NOTHING);
        let names = self.systems();
        table.set_header(["case", "figure"].into_iter().chain(names));
        for (case, figure) in self.rows() {
            let first = [case.to_owned(), format!("{}, {}", figure.name, figure.unit)];
            table.add_row(first.into_iter().chain(self.cells((case, figure))));
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }

        let mut text = format!("median (least to most)\n{table}\n");
        for goal in goals {
            text += &format!("{}\n", goal.line());
        }
        for failure in &self.failures {
            text += &format!("failed: {failure}\n");
        }
        text
    }

    fn page(&self, head: PageHead, goals: &[PaperGoal]) -> String {
        let mut page = format!(
            "# {}\n\nWritten by `hermes-lab papers {}`. {} Medians, and in brackets the least and the most of all rounds. \
             Figures of one machine, whose processors everything shares: compare those of one run.\n\n",
            head.title, head.command, head.words
        );
        for run in &self.runs {
            page += &format!(
                "- `{}`: {:.0} s, seed {}, {}\n",
                run.command, run.seconds, run.seed, run.machine
            );
        }
        if !self.failures.is_empty() {
            page += &format!("- failed: {} measurements\n", self.failures.len());
        }

        let systems = self.systems();
        let names: String = systems.iter().map(|name| format!(" {name} |")).collect();
        let lines = "--:|".repeat(systems.len());
        page += &format!("\n| Case | Figure |{names}\n|---|---|{lines}\n");
        for (case, figure) in self.rows() {
            let cells: String = self
                .cells((case, figure))
                .iter()
                .map(|cell| format!(" {cell} |"))
                .collect();
            // A string takes everything that is written.
            let _ = writeln!(page, "| {case} | {}, {} |{cells}", figure.name, figure.unit);
        }

        if !goals.is_empty() {
            page += "\n## Goals\n\n";
        }
        for goal in goals {
            page += &format!("- {}\n", goal.line());
        }
        page
    }
}

impl PaperGoal {
    fn line(&self) -> String {
        let verdict = match self.is_reached {
            true => "reached",
            false => "missed",
        };
        format!("{}: {}, {verdict}", self.words, number(self.value))
    }
}

fn write_page(file: &Path, page: &str) -> Result<()> {
    std::fs::write(file, page).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_was_measured_again_replaces_the_earlier_one() {
        let (mut earlier, mut later) = (Sheet::default(), Sheet::default());
        let time = Figure::less("time", "ms");
        earlier.add("one", "hermes", time.clone(), 1.0);
        earlier.add("two", "hermes", time.clone(), 2.0);
        later.add("two", "hermes", time.clone(), 3.0);
        later.add("two", "hermes", time, 5.0);

        let both = later.after(earlier);
        assert_eq!(both.of("one", "hermes", "time").unwrap().median, 1.0);
        assert_eq!(both.of("two", "hermes", "time").unwrap().median, 4.0);
        let head = PageHead {
            title: "Times",
            command: "times",
            words: "How long.",
        };
        let page = both.page(head, &[]);
        assert!(
            page.contains("| two | time, ms | 4.00 (3.00 to 5.00) |"),
            "{page}"
        );
    }
}
