//! Tests of the whole. What they start nodes, origins and clients with is the crate `harness`, under its modules' names here.

pub use hermes_harness::*;
