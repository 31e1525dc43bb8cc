//! What was measured, and how it is shown.

mod json;
mod markdown;
mod statistics;
pub mod svg;
mod table;
mod targets;
mod verdict;

pub use json::{load, save};
pub use markdown::page;
pub use statistics::{Summary, deviation, median, quantile};
pub use table::{cell, number, print, summary_line};

use serde::{Deserialize, Serialize};

use crate::experiment::{Case, Figure};
use crate::peers::Name;

/// Everything that was measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Results {
    /// How it was measured, one line for each run.
    pub runs: Vec<Run>,
    /// The figures.
    pub series: Vec<Series>,
    /// What went wrong, and where.
    pub failures: Vec<String>,
}

/// A figure of a case.
pub type Row = (Case, Figure);

/// One run of the command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// The arguments, without those that name files.
    pub command: String,
    /// Seed of the order.
    pub seed: u64,
    /// Processors and kernel.
    pub machine: String,
    /// Seconds that it took.
    pub seconds: f64,
}

/// One figure of one case on one system, once for each round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Series {
    /// Which case.
    #[serde(flatten)]
    pub case: Case,
    /// Which figure.
    #[serde(flatten)]
    pub figure: Figure,
    /// On which system.
    pub system: Name,
    /// One value for each round.
    pub values: Vec<f64>,
}

impl Results {
    /// Adds what a round has measured.
    pub fn add(&mut self, case: Case, system: Name, figure: Figure, value: f64) {
        let same = |series: &&mut Series| {
            series.case == case && series.system == system && series.figure == figure
        };
        match self.series.iter_mut().find(same) {
            Some(series) => series.values.push(value),
            None => self.series.push(Series {
                case,
                figure,
                system,
                values: vec![value],
            }),
        }
    }

    /// Keeps from `earlier` the cases that were not measured again: all systems of a case are of one run.
    #[must_use]
    pub fn after(mut self, earlier: Self) -> Self {
        let kept = earlier
            .series
            .into_iter()
            .filter(|old| self.series.iter().all(|new| new.case != old.case));
        let mut series: Vec<_> = kept.collect();
        series.append(&mut self.series);
        series.sort_by_key(|series| (series.case, series.system));
        let runs = earlier.runs.into_iter().chain(self.runs).collect();

        Self {
            runs,
            series,
            failures: self.failures,
        }
    }

    /// The cases and figures that there are, each once, in the order of the report.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for series in &self.series {
            if !rows
                .iter()
                .any(|(case, figure)| *case == series.case && *figure == series.figure)
            {
                rows.push((series.case, series.figure.clone()));
            }
        }

        rows.sort_by_key(|(case, _)| *case);
        rows
    }

    /// Median and range on one system.
    pub fn of(&self, case: Case, figure: &Figure, system: Name) -> Option<Summary> {
        let found = self
            .series
            .iter()
            .find(|s| s.case == case && s.figure == *figure && s.system == system);
        found.and_then(|series| Summary::of(&series.values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::traffic::{Kind, Link};

    fn case(kind: Kind) -> Case {
        Case {
            experiment: Experiment::Latency,
            kind,
            link: Link::H1,
        }
    }

    #[test]
    fn a_case_that_was_measured_again_replaces_all_systems_of_the_earlier_one() {
        let (mut earlier, mut later) = (Results::default(), Results::default());
        let figure = Figure::less("new", "us");
        earlier.add(case(Kind::Http), Name::Direct, figure.clone(), 1.0);
        earlier.add(case(Kind::Http), Name::Envoy, figure.clone(), 2.0);
        earlier.add(case(Kind::Tcp), Name::Envoy, figure.clone(), 3.0);
        later.add(case(Kind::Http), Name::Direct, figure.clone(), 4.0);
        let both = later.after(earlier);
        assert_eq!(
            both.of(case(Kind::Http), &figure, Name::Direct)
                .map(|s| s.median),
            Some(4.0)
        );
        assert!(both.of(case(Kind::Http), &figure, Name::Envoy).is_none());
        assert_eq!(
            both.of(case(Kind::Tcp), &figure, Name::Envoy)
                .map(|s| s.median),
            Some(3.0)
        );
    }
}
