//! The picture of the results.

use super::measure::{LARGE, LOSSY, NEW};
use crate::report::BarPanel;

pub(super) const PANELS: [BarPanel; 3] = [
    BarPanel::of(NEW, "p50", "new connection, us"),
    BarPanel::of(LARGE, "rate", "256 MB, Gbit/s"),
    BarPanel::of(LOSSY, "p50", "4 MB, lossy and long, s"),
];
