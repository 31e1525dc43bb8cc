//! The picture: rates by the number of clients, and bars of the time that each system adds.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::goals::LONGER;
use super::network::TABLE_I;
use super::rate::{CLIENTS, case};
use super::systems::FunctionsSystem;
use crate::report::Sheet;
use crate::report::svg::{axes, curve, picture, placed, text};

/// The panel of rates.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 30.0;

/// The panel of times: a bar of this height for each system, and room between rows of Table I.
const BAR: f64 = 9.0;
const GAP: f64 = 14.0;

const COLOURS: [&str; 10] = [
    "#555555", "#009900", "#1b6ca8", "#e08214", "#0b3c5d", "#7b3294", "#c2a5cf", "#a6611a",
    "#d7191c", "#80cdc1",
];

fn colour(system: FunctionsSystem) -> &'static str {
    let mut all = FunctionsSystem::ALL.iter().zip(COLOURS);
    all.find(|(one, _)| **one == system)
        .map_or("#000000", |(_, colour)| colour)
}

/// Writes the picture.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn draw(sheet: &Sheet, folder: &Path) -> Result<()> {
    let (times, height) = times(sheet);
    let content = [rates(sheet), placed(WIDTH, 0.0, &times)].concat();
    let file = folder.join("functions.svg");
    let drawn = picture(WIDTH * 2.0, HEIGHT.max(height), &content);
    fs::write(&file, drawn).with_context(|| file.display().to_string())
}

fn rates(sheet: &Sheet) -> String {
    let value = |system: FunctionsSystem, clients| {
        let found = sheet.of(&case(clients), system.name(), "rate");
        found.map(|summary| summary.median)
    };
    let all = FunctionsSystem::ALL.iter().flat_map(|system| {
        CLIENTS
            .iter()
            .filter_map(|clients| value(*system, *clients))
    });
    let most = all.fold(f64::MIN_POSITIVE, f64::max);

    let step = (WIDTH - LEFT - RIGHT) / (CLIENTS.len() - 1) as f64;
    let mut drawn = text(LEFT, TOP - 14.0, "start", "requests/s by clients at once");
    drawn += &axes(
        LEFT,
        WIDTH - RIGHT,
        TOP,
        HEIGHT - BOTTOM,
        &crate::report::number(most),
    );
    for (index, clients) in CLIENTS.iter().enumerate() {
        let x = LEFT + step * index as f64;
        drawn += &text(x, HEIGHT - BOTTOM + 14.0, "middle", &clients.to_string());
    }
    for (index, system) in FunctionsSystem::ALL.into_iter().enumerate() {
        let places = CLIENTS.iter().enumerate().filter_map(|(index, clients)| {
            let share = value(system, *clients)? / most;
            let y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share;
            Some([LEFT + step * index as f64, y])
        });
        let mut places = places.peekable();
        if places.peek().is_some() {
            drawn += &curve(places, colour(system));
            drawn += &legend(WIDTH - RIGHT + 12.0, TOP + 14.0 * index as f64, system);
        }
    }
    drawn
}

fn legend(x: f64, y: f64, system: FunctionsSystem) -> String {
    let mark = format!(
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"9\" height=\"9\" fill=\"{}\"/>\n",
        colour(system)
    );
    mark + &text(x + 13.0, y + 9.0, "start", system.name())
}

/// The bars, and the height that they take.
fn times(sheet: &Sheet) -> (String, f64) {
    let found = |row: &str, system: FunctionsSystem| {
        let found = sheet.of(row, system.name(), LONGER);
        found.map(|summary| summary.median.max(0.0))
    };
    let rows = || TABLE_I.iter().map(|row| row.name);
    let all = rows().flat_map(|row| {
        let systems = FunctionsSystem::ALL.into_iter();
        systems.filter_map(move |system| found(row, system))
    });
    let most = all.fold(f64::MIN_POSITIVE, f64::max);

    let mut drawn = text(10.0, TOP - 14.0, "start", "longer than direct, ms");
    let mut y = TOP;
    for row in rows() {
        drawn += &text(10.0, y + BAR, "start", row);
        for system in FunctionsSystem::ALL {
            let Some(value) = found(row, system) else {
                continue;
            };
            let left = 160.0;
            let length = (WIDTH - left - 110.0) * value / most;
            drawn += &format!(
                "<rect x=\"{left}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR}\" fill=\"{}\"/>\n",
                colour(system)
            );
            let words = format!("{} {}", crate::report::number(value), system.name());
            drawn += &text(left + length + 4.0, y + BAR, "start", &words);
            y += BAR + 3.0;
        }
        y += GAP;
    }
    (drawn, y)
}
