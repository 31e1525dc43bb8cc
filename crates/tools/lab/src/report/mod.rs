//! Results, and their forms: a file, a table, a page, a picture.

mod bars;
mod cells;
mod figure;
mod json;
mod results;
mod rounds;
mod run;
mod sheet;
mod statistics;
pub mod svg;

pub use bars::{BarPanel, draw_bars};
pub use cells::{cell, number, page_table, plain_table};
pub use figure::{Better, Figure};
pub use json::{load, save};
pub use results::{Results, Series};
pub use rounds::SystemRounds;
pub use run::Run;
pub use sheet::{PageHead, Sheet, SheetGoal};
pub use statistics::{Summary, deviation, median, quantile};
