//! The picture of the results.

use super::measure::{AT_ONCE, BULK, NEW};
use crate::report::BarPanel;

pub(super) const PANELS: [BarPanel; 3] = [
    BarPanel::of(NEW, "p50", "new connection, us"),
    BarPanel::of(AT_ONCE, "all answered", "1,000 at once, ms"),
    BarPanel::of(BULK, "rate", "bulk of 8 flows, Gbit/s"),
];
