//! The rounds of some systems.

use serde::{Deserialize, Serialize};

use super::Summary;

/// The rounds `R` of each system `S`, in the order of the systems.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SystemRounds<S, R>(Vec<(S, Vec<R>)>);

impl<S, R> Default for SystemRounds<S, R> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Copy + Ord, R> SystemRounds<S, R> {
    /// Adds a round.
    pub fn add(&mut self, system: S, round: R) {
        match self.0.iter_mut().find(|(of, _)| *of == system) {
            Some((_, rounds)) => rounds.push(round),
            None => self.0.push((system, vec![round])),
        }
        self.0.sort_by_key(|(of, _)| *of);
    }

    /// The systems.
    pub fn systems(&self) -> impl Iterator<Item = S> {
        self.0.iter().map(|(system, _)| *system)
    }

    /// The rounds of a system; empty for one that was not measured.
    pub fn of(&self, system: S) -> &[R] {
        let found = self.0.iter().find(|(of, _)| *of == system);
        found.map_or(&[], |(_, rounds)| rounds)
    }

    /// A figure of a system, of all rounds that have it.
    pub fn summary(&self, system: S, figure: impl Fn(&R) -> Option<f64>) -> Option<Summary> {
        let values: Vec<_> = self.of(system).iter().filter_map(figure).collect();
        Summary::of(&values)
    }
}
