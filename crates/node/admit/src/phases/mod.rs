//! The phases of a decision, each of which knows only what it needs.

pub mod entered;
mod identify;
pub mod permits;
