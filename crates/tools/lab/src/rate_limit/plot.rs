//! The picture of the results.

use super::{CASES, DONE, REFUSED};
use crate::report::BarPanel;

pub(super) const PANELS: [BarPanel; 4] = [
    BarPanel::of(CASES[2].2, REFUSED, "refused, RateLimit fields"),
    BarPanel::of(CASES[3].2, REFUSED, "refused, Retry-After"),
    BarPanel::of(CASES[4].2, REFUSED, "refused, only 429"),
    BarPanel::of(CASES[2].2, DONE, "time of the best, RateLimit fields"),
];
