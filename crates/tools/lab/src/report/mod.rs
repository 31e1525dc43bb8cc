//! What was measured, and how it is shown.

mod cells;
mod figure;
mod json;
mod results;
mod rounds;
mod run;
mod statistics;
pub mod svg;

pub use cells::{cell, number, page_table, plain_table};
pub use figure::{Better, Figure};
pub use json::{load, save};
pub use results::{Results, Series};
pub use rounds::SystemRounds;
pub use run::Run;
pub use statistics::{Summary, deviation, median, quantile};
