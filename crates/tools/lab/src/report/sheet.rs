//! Figures by case and system, as a file, a table and a page with goals.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::{Figure, Run, Summary, cell, number, page_table, plain_table, save};
use crate::options::{Options, show};

/// All results of one command.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sheet {
    /// The runs that measured them.
    pub runs: Vec<Run>,
    series: Vec<SheetSeries>,
    /// Measurements that failed, and why.
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

/// A goal, and its figure.
#[derive(Debug, Clone)]
pub struct SheetGoal {
    /// In words, with the bound.
    pub words: String,
    /// Measured.
    pub value: f64,
    /// Whether it is reached.
    pub is_reached: bool,
}

/// The head of a page.
#[derive(Debug, Clone, Copy)]
pub struct PageHead {
    /// The title.
    pub title: &'static str,
    /// The command that writes it, after `hermes-lab`.
    pub command: &'static str,
    /// The measurement in words.
    pub words: &'static str,
    /// What follows the goals; empty if nothing does.
    pub notes: &'static str,
}

impl Sheet {
    /// Adds a figure of a round.
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

    /// Puts the columns in this order; those of other systems follow.
    pub fn order_systems(&mut self, names: &[&str]) {
        let rows = self.rows().into_iter();
        let rows: Vec<_> = rows
            .map(|(case, figure)| (case.to_owned(), figure.clone()))
            .collect();
        let place = |series: &SheetSeries| {
            let row = rows
                .iter()
                .position(|(case, figure)| *case == series.case && *figure == series.figure);
            let column = names.iter().position(|name| *name == series.system);
            (row, column.unwrap_or(names.len()))
        };
        let mut placed: Vec<_> = self.series.drain(..).collect();
        placed.sort_by_key(place);
        self.series = placed;
    }

    /// Keeps from `earlier` the cases that were not measured again.
    #[must_use]
    pub fn after(mut self, earlier: Self) -> Self {
        let is_kept = |old: &SheetSeries| self.series.iter().all(|new| new.case != old.case);
        let mut series: Vec<_> = earlier.series.into_iter().filter(is_kept).collect();
        series.append(&mut self.series);

        Self {
            runs: earlier.runs.into_iter().chain(self.runs).collect(),
            series,
            failures: self.failures,
        }
    }

    /// Median and range of a figure; `None` if it was not measured.
    pub fn of(&self, case: &str, system: &str, figure: &str) -> Option<Summary> {
        Summary::of(self.values(case, system, figure))
    }

    /// The values of a figure, one of each round; none if it was not measured.
    pub fn values(&self, case: &str, system: &str, figure: &str) -> &[f64] {
        let found = self.series.iter().find(|series| {
            series.case == case && series.system == system && series.figure.name == figure
        });
        found.map_or(&[], |series| &series.values)
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

    /// The header of the table.
    fn header(&self) -> Vec<String> {
        let names = ["Case", "Figure"].into_iter().chain(self.systems());
        names.map(str::to_owned).collect()
    }

    /// The rows of the table, with a cell for each system.
    fn cells(&self) -> impl Iterator<Item = Vec<String>> {
        let systems = self.systems();
        self.rows().into_iter().map(move |(case, figure)| {
            let words = [case.to_owned(), format!("{}, {}", figure.name, figure.unit)];
            let values = systems
                .iter()
                .map(|system| cell(self.of(case, system, &figure.name)));
            words.into_iter().chain(values).collect()
        })
    }

    /// Writes and prints the results.
    ///
    /// # Errors
    /// A file cannot be written, or a measurement has failed.
    pub fn publish(
        &self,
        options: &Options,
        head: PageHead,
        goals: impl FnOnce(&Self) -> Vec<SheetGoal>,
    ) -> Result<()> {
        if let Some(file) = options.later() {
            save(self, file)?;
        }

        let goals = goals(self);
        options.output.publish_page(|| self.page(head, &goals))?;
        show(&self.print(&goals))?;

        let failed = self.failures.len();
        ensure!(failed == 0, "{failed} measurements failed; see above");
        Ok(())
    }

    fn print(&self, goals: &[SheetGoal]) -> String {
        let table = plain_table(self.header(), self.cells(), 2);
        let mut text = format!("median (least to most)\n{table}\n");
        for goal in goals {
            text += &format!("{}\n", goal.line());
        }
        for failure in &self.failures {
            text += &format!("failed: {failure}\n");
        }
        text
    }

    fn page(&self, head: PageHead, goals: &[SheetGoal]) -> String {
        let mut page = format!(
            "# {}\n\nWritten by `hermes-lab {}`. {} Medians, and in brackets the least and the most of all rounds. \
             Figures of one machine, whose processors everything shares: compare those of one run.\n\n",
            head.title, head.command, head.words
        );
        for run in &self.runs {
            page += &format!("- {run}\n");
        }
        if !self.failures.is_empty() {
            page += &format!("- failed: {} measurements\n", self.failures.len());
        }
        page += "\n";
        page += &page_table(&self.header(), self.cells(), 2);

        if !goals.is_empty() {
            page += "\n## Goals\n\n";
        }
        for goal in goals {
            page += &format!("- {}\n", goal.line());
        }
        page += head.notes;
        page
    }
}

impl SheetGoal {
    fn line(&self) -> String {
        let verdict = match self.is_reached {
            true => "reached",
            false => "missed",
        };
        format!("{}: {}, {verdict}", self.words, number(self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_order_of_their_names_and_rows_keep_theirs() {
        let mut sheet = Sheet::default();
        let time = Figure::less("time", "ms");
        for (case, system) in [("two", "b"), ("two", "a"), ("one", "other"), ("one", "a")] {
            sheet.add(case, system, time.clone(), 1.0);
        }
        sheet.order_systems(&["a", "b"]);
        assert_eq!(sheet.systems(), ["a", "b", "other"]);
        let cases: Vec<_> = sheet.rows().into_iter().map(|(case, _)| case).collect();
        assert_eq!(cases, ["two", "one"]);
    }

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
            notes: "",
        };
        let page = both.page(head, &[]);
        assert!(
            page.contains("| two | time, ms | 4.00 (3.00 to 5.00) |"),
            "{page}"
        );
    }
}
