//! For each figure a group of bars, one for each system, with its range as a thin line.

use super::super::figures::{CaseResults, Section};
use super::colours::colour;
use crate::report::number;
use crate::report::svg::text;

const WIDTH: f64 = 760.0;
/// Where bars begin and end; left of them is the name of the system, right of them the value.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 660.0;
const BAR: f64 = 13.0;
const HEADING: f64 = 20.0;
const GAP: f64 = 10.0;

/// Width, height and content of the picture of one experiment. Each group has a scale of its own; a group of zeros is left out.
pub fn draw(results: &CaseResults, section: &Section) -> (f64, f64, String) {
    let mut content = String::new();
    let mut y = GAP;
    for (case, figure) in &section.rows {
        let values: Vec<_> = section
            .systems
            .iter()
            .filter_map(|s| Some((*s, results.of(*case, figure, *s)?)))
            .collect();
        let most = values
            .iter()
            .map(|(_, summary)| summary.most)
            .fold(0.0, f64::max);
        if most <= 0.0 {
            continue;
        }

        let scale = |value: f64| LEFT + (RIGHT - LEFT) * value / most;
        let heading = format!(
            "{} over {}: {}, {}",
            case.kind.name(),
            case.link.name(),
            figure.name,
            figure.unit
        );

        content += &text(LEFT, y + 12.0, "start", &heading);
        y += HEADING;
        for (system, summary) in values {
            let bar = scale(summary.median) - LEFT;
            let middle = y + BAR / 2.0;
            content += &text(LEFT - 4.0, y + 9.5, "end", system.text());
            content += &format!(
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{bar:.1}\" height=\"{:.1}\" fill=\"{}\"/>\n\
                 <path d=\"M{:.1} {middle:.1}H{:.1}\" stroke=\"#000000\"/>\n",
                BAR - 2.0,
                colour(system),
                scale(summary.least),
                scale(summary.most),
            );

            content += &text(
                scale(summary.most) + 4.0,
                y + 9.5,
                "start",
                &number(summary.median),
            );

            y += BAR;
        }

        y += GAP;
    }

    (WIDTH, y, content)
}
