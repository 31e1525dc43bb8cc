//! The place of a case, and its figures.

use std::time::Duration;

use super::case::Case;
use crate::origin::Addresses;
use crate::peers::{Surroundings, System};
use crate::report::Figure;
use crate::traffic::{Client, Entry};

/// The figures of one run of a case.
pub type Measured = Vec<(Figure, f64)>;

/// Where a case runs.
pub struct Bench<'a> {
    /// The case.
    pub case: Case,
    /// The load.
    pub client: &'a Client,
    /// The system.
    pub system: &'a System,
    /// Where the load enters.
    pub entry: &'a Entry,
    /// The far end.
    pub origin: &'a Addresses,
    /// For experiments that start a system of their own.
    pub around: &'a Surroundings,
    /// Less time, for figures that scatter more.
    pub short: bool,
}

impl Bench<'_> {
    /// Processor time of the proxies for each of so many exchanges, in microseconds, since they had used `before`. `None` without proxies.
    pub(super) fn cost(
        &self,
        name: &str,
        before: Duration,
        exchanges: u64,
    ) -> Option<(Figure, f64)> {
        let used = self.system.processor_time().saturating_sub(before);
        let each = used.as_secs_f64() * 1e6 / exchanges.max(1) as f64;
        (!self.system.processes.is_empty()).then(|| (Figure::less(name, "CPU us each"), each))
    }
}
