//! Areas of organisations, and the functions on the way that let data move between them.
//!
//! An area has attributes, such as `encrypted` or `segmented`. Data may move from one area to another if the second has all attributes
//! of the first; a missing one can be given by a function on the way, such as an allow-list at a proxy. [`Areas::read`] reads a file of
//! areas, functions and links; a [`Planner`] finds for two of its areas the cheapest sequence of functions with the place of each, or
//! the attributes that cannot be bridged and why. [`documents`] writes the routes that a node at each place needs for some plans.
//!
//! The crate opens no file and no connection, and starts nothing: the functions themselves are the plugs that a node's `through` names.
//! Work is bounded: a question that would take more is refused with an error.
//!
//! Source: J. A. Kassem et al., *EPI Framework: Approach for Traffic Redirection Through Containerised Network Functions*, section III:
//! equation 4 is [`Areas`]'s rule, equation 5 the missing attributes. Places, links, costs, capacities, the demands of functions and
//! the attributes that they take away are ours.
//!
//! Begin reading in `file.rs`, which has the keys of a file, then in `search.rs`.

mod areas;
mod demand;
mod distances;
pub mod documents;
mod errand;
mod explain;
mod file;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod fuzz_tests;
mod ids;
mod obstacle;
mod plan;
mod planner;
mod read;
pub mod sample;
mod search;
#[cfg(test)]
mod tests;
mod usage;
mod work;

pub use areas::Areas;
pub use file::{AreaSpec, AreasFile, FunctionSpec, LinkSpec, PathSpec, PlaceSpec};
#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
pub use ids::{AreaId, AreaPair};
pub use obstacle::{Candidate, Gap, Unplanned};
pub use plan::{Plan, Step, Stop};
pub use planner::{Planner, Verdict};
pub use usage::{FunctionUse, Usage};
pub use work::{WORK, Work};
