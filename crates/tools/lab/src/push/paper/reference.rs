//! The figures that the paper says in words; its pictures have more.

use super::call::OUTSIDE;
use super::local::{CALL, HEADS, LARGEST, PING};
use super::wide::ping_case;
use crate::report::{Figure, Sheet};

/// The column of the paper's own server.
pub(crate) const PAPER: &str = "paper";

/// Round trips by the paper's server in milliseconds: on one machine, and by each way over the wide area.
const PINGS: [f64; 4] = [0.455, 88.0, 178.3, 173.5];

/// Adds them, as one round more.
pub(super) fn add(sheet: &mut Sheet) {
    let cases = [PING.to_owned(), ping_case(0), ping_case(1), ping_case(2)];
    for (case, milliseconds) in cases.iter().zip(PINGS) {
        sheet.add(case, PAPER, Figure::less("RTT, p50", "ms"), milliseconds);
    }
    // "Less than 0.1 %", "over 7 Gbps", 160 to 170 B, 70 to 80 B.
    sheet.add(CALL, PAPER, Figure::less(OUTSIDE, "%"), 0.1);
    sheet.add(LARGEST, PAPER, Figure::more("throughput", "Gbit/s"), 7.0);
    sheet.add(HEADS, PAPER, Figure::less("publish", "B"), 165.0);
    sheet.add(HEADS, PAPER, Figure::less("subscribe, once", "B"), 75.0);
}
