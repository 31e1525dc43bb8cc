//! The last refusals, kept so that they can be asked about.

pub mod account;
pub mod remembered;
mod ring;
