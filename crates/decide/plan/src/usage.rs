//! The paths that use a function at a place.

use std::collections::HashMap;

use crate::plan::Plan;

/// A function at a place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FunctionUse {
    /// The function.
    pub function: String,
    /// The place.
    pub place: String,
}

/// How many paths use each function at each place: a planner leaves out those that are full.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    counts: HashMap<FunctionUse, u32>,
}

impl Usage {
    /// Counts a path: each function once for a place.
    pub fn add(&mut self, plan: &Plan) {
        for used in plan.uses() {
            *self.counts.entry(used).or_default() += 1;
        }
    }

    /// A path has ended.
    pub fn remove(&mut self, plan: &Plan) {
        for used in plan.uses() {
            if let Some(count) = self.counts.get_mut(&used) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&used);
                }
            }
        }
    }

    /// Paths that use this function at this place.
    pub fn count(&self, used: &FunctionUse) -> u32 {
        self.counts.get(used).copied().unwrap_or_default()
    }

    /// Functions at places that are in use, with the number of paths, in no order.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&FunctionUse, u32)> {
        self.counts.iter().map(|(used, count)| (used, *count))
    }
}
