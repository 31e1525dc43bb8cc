//! The figures of all cases, and the sections of a report on them.

use crate::experiment::{Case, Experiment};
use crate::peers::Name;
use crate::report::{Figure, Results};

/// The figures of all cases.
pub(super) type CaseResults = Results<Case, Name>;

/// A figure of a case.
pub(super) type Row = (Case, Figure);

/// The section of one experiment in a report.
pub(super) struct Section {
    /// The experiment.
    pub experiment: Experiment,
    /// Its figures.
    pub rows: Vec<Row>,
    /// The systems that have some of them.
    pub systems: Vec<Name>,
}

impl Section {
    /// The sections of all experiments that were run, in the order of the report.
    pub(super) fn all(results: &CaseResults) -> impl Iterator<Item = Self> {
        Experiment::ALL.into_iter().filter_map(|experiment| {
            let mut rows = results.rows();
            rows.retain(|(case, _)| case.experiment == experiment);
            let is_measured = |name: &Name| {
                rows.iter()
                    .any(|(case, figure)| results.of(*case, figure, *name).is_some())
            };
            let systems: Vec<_> = Name::ALL.into_iter().filter(is_measured).collect();
            (!systems.is_empty()).then_some(Self {
                experiment,
                rows,
                systems,
            })
        })
    }
}
