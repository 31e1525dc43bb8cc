//! The phases of a decision, each a type with the knowledge of that phase alone.

pub mod entered;
mod identify;
pub mod permits;
