//! The phases of an exchange that arrives, each a type with the knowledge of that phase alone. Begin reading at [`admit`].

pub mod admit;
pub mod entered;
mod identify;
pub mod permits;
