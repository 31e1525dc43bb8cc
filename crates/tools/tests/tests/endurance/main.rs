//! What is left running: processes that die and come back under load, and memory that stays flat whatever comes and goes.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

mod chain;
mod churn;
mod custody;
mod kills;
mod links;
mod other_links;
mod overlay;
mod visits;
mod work;

/// The number in this variable, or `ordinary`.
fn asked(variable: &str, ordinary: usize) -> usize {
    std::env::var(variable)
        .ok()
        .map_or(ordinary, |text| text.parse().unwrap())
}
