//! The picture of the results.

use super::case::{CASES, FIRST, LOAD};
use crate::report::BarPanel;

pub(super) const PANELS: [BarPanel; 4] = [
    BarPanel::of(CASES[0].name, LOAD, "load, whole page, s"),
    BarPanel::of(CASES[0].name, FIRST, "first byte, whole page, s"),
    BarPanel::of(CASES[3].name, LOAD, "load, 16 browsers of a client, s"),
    BarPanel::of(CASES[4].name, LOAD, "load, 16 clients, s"),
];
