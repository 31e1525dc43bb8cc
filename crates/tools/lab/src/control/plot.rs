//! The picture: how long changes take, over the number of agents.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::agents::{SINGLE, WHOLE};
use crate::report::Sheet;
use crate::report::svg::{curve, picture, text};

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
/// Room around the lines.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = 40.0;

/// Agents and milliseconds at the sides, both in powers of ten.
const AGENTS: [f64; 2] = [2.0, 4.0];
const TIMES: [f64; 2] = [0.0, 4.5];

/// The mean and p99 of one who asks every 5 s.
const POLL: f64 = 4950.0;

/// A line: a figure of a case.
struct ChangeLine {
    case: &'static str,
    figure: &'static str,
    words: &'static str,
    colour: &'static str,
}

const LINES: [ChangeLine; 3] = [
    ChangeLine {
        case: SINGLE,
        figure: "p99",
        words: "one node, p99",
        colour: "#1b6ca8",
    },
    ChangeLine {
        case: SINGLE,
        figure: "p50",
        words: "one node, p50",
        colour: "#7fb2d6",
    },
    ChangeLine {
        case: WHOLE,
        figure: "last agent",
        words: "all nodes, the last",
        colour: "#c0504d",
    },
];

/// Writes the picture.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn draw(sheet: &Sheet, folder: &Path) -> Result<()> {
    let file = folder.join("control.svg");
    fs::write(&file, drawn(sheet)).with_context(|| file.display().to_string())
}

fn drawn(sheet: &Sheet) -> String {
    let mut content = grid();
    let poll = AGENTS.map(|agents| [across(agents), down(POLL)]);
    content += &curve(poll.into_iter(), "#999999");
    content += &text(
        WIDTH - RIGHT + 6.0,
        down(POLL) + 4.0,
        "start",
        "poll every 5 s, p99",
    );
    for line in &LINES {
        let places: Vec<_> = [100.0_f64, 1000.0, 10_000.0]
            .into_iter()
            .filter_map(|agents| {
                let system = format!("{agents:.0} agents");
                let found = sheet.of(line.case, &system, line.figure)?;
                Some([across(agents.log10()), down(found.median)])
            })
            .collect();
        let Some([_, end]) = places.last().copied() else {
            continue;
        };
        content += &curve(places.into_iter(), line.colour);
        content += &text(WIDTH - RIGHT + 6.0, end + 4.0, "start", line.words);
    }
    picture(WIDTH, HEIGHT, &content)
}

/// Lines of equal times, and the numbers beside them.
fn grid() -> String {
    let mut content = String::new();
    for power in [0, 1, 2, 3, 4] {
        let time = 10_f64.powi(power);
        let places = AGENTS.map(|agents| [across(agents), down(time)]);
        content += &curve(places.into_iter(), "#eeeeee");
        content += &text(
            LEFT - 6.0,
            down(time) + 4.0,
            "end",
            &format!("{time:.0} ms"),
        );
    }
    for agents in ["100", "1000", "10000"] {
        let power = agents.len() as f64 - 1.0;
        content += &text(across(power), HEIGHT - BOTTOM + 18.0, "middle", agents);
    }
    content + &text(across(3.0), HEIGHT - 6.0, "middle", "agents")
}

fn across(power: f64) -> f64 {
    let [least, most] = AGENTS;
    LEFT + (power - least) / (most - least) * (WIDTH - LEFT - RIGHT)
}

fn down(milliseconds: f64) -> f64 {
    let [least, most] = TIMES;
    let share = (milliseconds.max(1.0).log10() - least) / (most - least);
    HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
}
