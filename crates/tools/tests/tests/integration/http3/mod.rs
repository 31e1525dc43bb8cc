//! HTTP/3: every payload in every combination of versions, falling back, and reloads.

mod capsules;
mod changes;
mod choice;
mod congestion;
mod early;
mod matrix;
pub mod overlay;
mod silence;
mod streams;
mod trust;
