//! A plan: the way between two areas, and the functions on it.

use serde::{Deserialize, Serialize};

use crate::usage::FunctionUse;

/// The cheapest way for data from one area to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The area where it begins.
    pub from: String,
    /// The area where it ends.
    pub to: String,
    /// The sum of the costs of its functions and links.
    pub cost: u64,
    /// The places on the way, from that of the first area to that of the last; a place can be passed twice.
    pub stops: Vec<Stop>,
}

/// A place on a way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The place.
    pub place: String,
    /// Functions that run there, in their order.
    pub functions: Vec<Step>,
}

/// A function on a way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The function.
    pub function: String,
    /// Attributes that it gives.
    pub adds: Vec<String>,
    /// Its cost.
    pub cost: u64,
}

impl Plan {
    /// The functions on the way, in their order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.stops.iter().flat_map(|stop| &stop.functions)
    }

    /// The functions and their places, each once.
    pub fn uses(&self) -> Vec<FunctionUse> {
        let mut uses: Vec<FunctionUse> = Vec::new();
        for stop in &self.stops {
            for step in &stop.functions {
                let used = FunctionUse {
                    function: step.function.clone(),
                    place: stop.place.clone(),
                };
                if !uses.contains(&used) {
                    uses.push(used);
                }
            }
        }
        uses
    }
}
