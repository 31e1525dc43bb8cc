//! A picture of panels, each with a bar for each system.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::svg::{picture, placed, text};
use super::{Sheet, number};

/// A panel.
const WIDTH: f64 = 320.0;
/// Height of a bar with its gap.
const STEP: f64 = 20.0;
/// Room around the bars.
const LEFT: f64 = 88.0;
const RIGHT: f64 = 70.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 12.0;

/// One figure of all systems.
#[derive(Debug, Clone, Copy)]
pub struct BarPanel {
    case: &'static str,
    figure: &'static str,
    title: &'static str,
}

impl BarPanel {
    /// A figure of a case, under a title.
    pub const fn of(case: &'static str, figure: &'static str, title: &'static str) -> Self {
        Self {
            case,
            figure,
            title,
        }
    }
}

/// Writes a picture of these panels; systems stand in this order, and those of Hermes in colour.
///
/// # Errors
/// The file cannot be written.
pub fn draw_bars(sheet: &Sheet, systems: &[&str], panels: &[BarPanel], file: &Path) -> Result<()> {
    let mut content = String::new();
    for (index, panel) in panels.iter().enumerate() {
        let drawn = bars(sheet, systems, panel);
        content += &placed(WIDTH * index as f64, 0.0, &drawn);
    }
    let height = TOP + STEP * systems.len() as f64 + BOTTOM;
    let drawn = picture(WIDTH * panels.len() as f64, height, &content);
    fs::write(file, drawn).with_context(|| file.display().to_string())
}

fn bars(sheet: &Sheet, systems: &[&str], panel: &BarPanel) -> String {
    let values = systems.iter().filter_map(|system| {
        let found = sheet.of(panel.case, system, panel.figure)?;
        Some((system, found.median))
    });
    let values: Vec<_> = values.collect();
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let mut lines = text(LEFT, TOP - 10.0, "start", panel.title);
    for (index, (system, value)) in values.iter().enumerate() {
        let y = TOP + STEP * index as f64;
        let length = (WIDTH - LEFT - RIGHT) * value / most.max(f64::MIN_POSITIVE);
        let colour = match system.starts_with("hermes") {
            true => "#1b6ca8",
            false => "#999999",
        };
        lines += &text(LEFT - 6.0, y + 11.0, "end", system);
        lines += &format!(
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"14\" fill=\"{colour}\"/>\n"
        );
        lines += &text(LEFT + length + 5.0, y + 11.0, "start", &number(*value));
    }
    lines
}
