//! The picture: four panels of bars, a bar for each system.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::measure::{FAN_OUT, LATENCY, STREAM};
use super::systems::PushSystem;
use crate::report::Sheet;
use crate::report::svg::{picture, placed, text};

/// A panel.
const WIDTH: f64 = 320.0;
/// Height of a bar with its gap.
const STEP: f64 = 20.0;
/// Room around the bars.
const LEFT: f64 = 80.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 12.0;

const PANELS: [(&str, &str, &str); 4] = [
    (LATENCY[0].0, "p50", "100 B to 1 subscriber, us"),
    (LATENCY[2].0, "p50", "100 B to 1,000 subscribers, us"),
    (STREAM, "deliveries", "messages a second to 1"),
    (FAN_OUT, "deliveries", "deliveries a second to 100"),
];

/// Writes the picture.
///
/// # Errors
/// The folder cannot be written.
pub(super) fn draw(sheet: &Sheet, folder: &Path) -> Result<()> {
    let mut content = String::new();
    for (index, (case, figure, title)) in PANELS.iter().enumerate() {
        let panel = panel(sheet, case, figure, title);
        content += &placed(WIDTH * index as f64, 0.0, &panel);
    }
    let height = TOP + STEP * PushSystem::ALL.len() as f64 + BOTTOM;
    let file = folder.join("push.svg");
    let drawn = picture(WIDTH * PANELS.len() as f64, height, &content);
    fs::write(&file, drawn).with_context(|| file.display().to_string())
}

fn panel(sheet: &Sheet, case: &str, figure: &str, title: &str) -> String {
    let bars = PushSystem::ALL.into_iter().filter_map(|system| {
        let found = sheet.of(case, system.name(), figure)?;
        Some((system, found.median))
    });
    let bars: Vec<_> = bars.collect();
    let most = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut lines = text(LEFT, TOP - 10.0, "start", title);
    for (index, (system, value)) in bars.iter().enumerate() {
        let y = TOP + STEP * index as f64;
        let length = (WIDTH - LEFT - RIGHT) * value / most.max(f64::MIN_POSITIVE);
        let colour = match system {
            PushSystem::Hermes => "#1b6ca8",
            _ => "#999999",
        };
        lines += &text(LEFT - 6.0, y + 11.0, "end", system.name());
        lines += &format!(
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"14\" fill=\"{colour}\"/>\n"
        );
        let number = crate::report::number(*value);
        lines += &text(LEFT + length + 5.0, y + 11.0, "start", &number);
    }
    lines
}
