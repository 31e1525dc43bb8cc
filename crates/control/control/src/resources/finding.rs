//! Mistakes in resources: each with its resource, field, file and line.

use std::fmt;

use hermes_config::Problem;
use serde::Serialize;

use super::Key;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The resource; `None` where a text is none.
    pub resource: Option<Key>,
    /// Its path is one within the resource, such as `spec.rules[0].match`.
    #[serde(flatten)]
    pub problem: Problem,
}

impl Finding {
    /// A mistake in a resource.
    pub fn new(resource: &Key, problem: Problem) -> Self {
        Self {
            resource: Some(resource.clone()),
            problem,
        }
    }
}

impl From<Problem> for Finding {
    fn from(problem: Problem) -> Self {
        Self {
            resource: None,
            problem,
        }
    }
}

impl fmt::Display for Finding {
    /// As `overlay.yaml:12:5: Policy/default/video: spec.rules[0].match: reason; remedy`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(resource) = &self.resource else {
            return self.problem.fmt(out);
        };
        if let Some(place) = &self.problem.place {
            write!(out, "{place}: ")?;
        }
        let unplaced = Problem {
            place: None,
            ..self.problem.clone()
        };
        write!(out, "{resource}: {unplaced}")
    }
}

/// Mistakes of resources that are told: no one reads more at once, and to find the place of each takes longer than to find the mistake.
#[doc(alias = "bound")]
pub(super) const TOLD: usize = 100;

/// All mistakes; at least one where they are an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// In the order of files and lines, each once.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        let rank = |finding: &Finding| {
            let place = finding.problem.place.as_ref();
            place.map(|place| (place.file.clone(), place.line, place.column))
        };
        self.0.sort_by_cached_key(rank);
        self.0.dedup();
        self
    }

    /// The first of them, and the number of all; `untold` were found beside them.
    pub(super) fn first(self, untold: usize) -> Self {
        let mut told = self.in_order();
        let all = told.0.len() + untold;
        told.0.truncate(TOLD);
        if all > told.0.len() {
            let reason = format!(
                "there are {all} mistakes, of which {} are told",
                told.0.len()
            );
            told.0.insert(0, Problem::new("", reason).into());
        }
        told
    }

    /// Whether there are as many as are told.
    pub(crate) fn are_enough(&self) -> bool {
        self.0.len() >= TOLD
    }

    /// `value`, unless there are mistakes.
    ///
    /// # Errors
    /// There are.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(self.in_order())
        }
    }
}

impl Extend<Finding> for Findings {
    fn extend<I: IntoIterator<Item = Finding>>(&mut self, findings: I) {
        self.0.extend(findings);
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            finding.fmt(out)?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}
