//! HTTP/3: every payload in every combination of versions, falling back, and reloads.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod capsules;
mod changes;
mod choice;
mod early;
mod matrix;
mod overlay;
mod silence;
mod streams;
mod trust;
