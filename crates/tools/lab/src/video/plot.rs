//! The picture of the results.

use super::{BROKEN, CASES, FRAMES, LATEST};
use crate::report::BarPanel;

pub(super) const PANELS: [BarPanel; 4] = [
    BarPanel::of(CASES[1].name, FRAMES, "frames, 3 % lost"),
    BarPanel::of(CASES[1].name, BROKEN, "macroblocks in error, 3 % lost"),
    BarPanel::of(CASES[2].name, BROKEN, "macroblocks in error, 5 % lost"),
    BarPanel::of(CASES[2].name, LATEST, "delay of 99 %, 5 % lost"),
];
