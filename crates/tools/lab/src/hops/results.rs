//! What was measured, as a file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::plan::{HopSystem, Point};
use crate::experiment::Figure;
use crate::report::{Run, Summary};

/// Everything that was measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct HopResults {
    /// How it was measured, one for each run.
    pub runs: Vec<Run>,
    /// The figures.
    pub series: Vec<HopSeries>,
    /// What went wrong, and where.
    pub failures: Vec<String>,
}

/// One figure of one point on one system, once for each round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HopSeries {
    /// Which point.
    #[serde(flatten)]
    pub point: Point,
    /// Which figure.
    #[serde(flatten)]
    pub figure: Figure,
    /// On which system.
    pub system: HopSystem,
    /// One value for each round.
    pub values: Vec<f64>,
}

impl HopResults {
    /// Adds what a round has measured.
    pub fn add(&mut self, point: Point, system: HopSystem, figure: Figure, value: f64) {
        let same = |series: &&mut HopSeries| {
            series.point == point && series.system == system && series.figure == figure
        };
        match self.series.iter_mut().find(same) {
            Some(series) => series.values.push(value),
            None => self.series.push(HopSeries {
                point,
                figure,
                system,
                values: vec![value],
            }),
        }
    }

    /// Keeps from `earlier` the points that were not measured again.
    #[must_use]
    pub fn after(mut self, earlier: Self) -> Self {
        let kept = earlier
            .series
            .into_iter()
            .filter(|old| self.series.iter().all(|new| new.point != old.point));
        let mut series: Vec<_> = kept.collect();
        series.append(&mut self.series);
        series.sort_by_key(|series| (series.point, series.system));
        let runs = earlier.runs.into_iter().chain(self.runs).collect();
        let failures = earlier.failures.into_iter().chain(self.failures).collect();

        Self {
            runs,
            series,
            failures,
        }
    }

    /// Median and range of a figure; none if it was not measured.
    pub fn of(&self, point: Point, system: HopSystem, figure: &str) -> Option<Summary> {
        let found = self
            .series
            .iter()
            .find(|s| s.point == point && s.system == system && s.figure.name == figure);
        found.and_then(|series| Summary::of(&series.values))
    }

    /// The points and figures that there are, each once, in the order of the report.
    pub fn rows(&self) -> Vec<(Point, Figure)> {
        let mut rows: Vec<(Point, Figure)> = Vec::new();
        for HopSeries { point, figure, .. } in &self.series {
            if !rows
                .iter()
                .any(|(other, known)| other == point && known == figure)
            {
                rows.push((*point, figure.clone()));
            }
        }

        rows.sort_by_key(|(point, _)| *point);
        rows
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is not there, or is no such file.
    pub fn load(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())
    }

    /// Writes a file, in place of what was there.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, file: &Path) -> Result<()> {
        fs::write(file, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| file.display().to_string())
    }
}
