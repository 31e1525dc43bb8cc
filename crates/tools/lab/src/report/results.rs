//! Figures of cases on systems.

use serde::{Deserialize, Serialize};

use super::{Figure, Run, Summary};

/// Everything that was measured of cases `C` on systems `S`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results<C, S> {
    /// How it was measured, one line for each run.
    pub runs: Vec<Run>,
    /// The figures.
    pub series: Vec<Series<C, S>>,
    /// Measurements that failed, and why.
    pub failures: Vec<String>,
}

/// One figure of one case on one system, once for each round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Series<C, S> {
    /// Which case.
    #[serde(flatten)]
    pub case: C,
    /// Which figure.
    #[serde(flatten)]
    pub figure: Figure,
    /// On which system.
    pub system: S,
    /// One value for each round.
    pub values: Vec<f64>,
}

impl<C, S> Default for Results<C, S> {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            series: Vec::new(),
            failures: Vec::new(),
        }
    }
}

impl<C: Copy + Ord, S: Copy + Ord> Results<C, S> {
    /// Adds a figure of a round.
    pub fn add(&mut self, case: C, system: S, figure: Figure, value: f64) {
        let same = |series: &&mut Series<C, S>| {
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
        let failures = earlier.failures.into_iter().chain(self.failures).collect();

        Self {
            runs,
            series,
            failures,
        }
    }

    /// The cases and figures that there are, each once, in the order of the report.
    pub fn rows(&self) -> Vec<(C, Figure)> {
        let mut rows: Vec<(C, Figure)> = Vec::new();
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
    pub fn of(&self, case: C, figure: &Figure, system: S) -> Option<Summary> {
        self.summary(case, system, |known| known == figure)
    }

    /// The same of the figure with this name.
    pub fn named(&self, case: C, system: S, figure: &str) -> Option<Summary> {
        self.summary(case, system, |known| known.name == figure)
    }

    fn summary(&self, case: C, system: S, is_it: impl Fn(&Figure) -> bool) -> Option<Summary> {
        let mut series = self.series.iter();
        let found =
            series.find(|one| one.case == case && one.system == system && is_it(&one.figure));
        found.and_then(|series| Summary::of(&series.values))
    }

    /// How it was measured, as items of a list.
    pub fn described_runs(&self) -> String {
        self.runs.iter().map(|run| format!("- {run}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_was_measured_again_replaces_all_systems_of_the_earlier_one() {
        let (mut earlier, mut later) = (Results::default(), Results::default());
        let figure = Figure::less("new", "us");
        earlier.add("http", "direct", figure.clone(), 1.0);
        earlier.add("http", "envoy", figure.clone(), 2.0);
        earlier.add("tcp", "envoy", figure.clone(), 3.0);
        later.add("http", "direct", figure.clone(), 4.0);
        let both = later.after(earlier);
        assert_eq!(
            both.of("http", &figure, "direct").map(|s| s.median),
            Some(4.0)
        );
        assert!(both.of("http", &figure, "envoy").is_none());
        assert_eq!(
            both.of("tcp", &figure, "envoy").map(|s| s.median),
            Some(3.0)
        );
    }
}
