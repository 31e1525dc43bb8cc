//! The results as a picture: a panel for each order of links, size and protection, a bar for each way and client.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::bound::Order;
use super::results::{ComparedCase, TimedDownload, TimedDownloads, mean, paper};
use super::{Carriage, Downloader, MEGABYTE, Protection};
use crate::report::svg::{picture, placed, text};

/// A panel.
const WIDTH: f64 = 420.0;
/// Height of a bar with its gap.
const STEP: f64 = 18.0;
/// Room around the bars.
const LEFT: f64 = 120.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 14.0;

/// Writes the picture.
///
/// # Errors
/// It cannot be written.
pub fn save(results: &TimedDownloads, file: &Path) -> Result<()> {
    let panels: BTreeSet<Panel> = results.cases().keys().map(Panel::of).collect();

    let mut content = String::new();
    let mut height: f64 = 0.0;
    for (index, panel) in panels.iter().enumerate() {
        let (own, lines) = draw(results, *panel);
        let x = WIDTH * (index % 2) as f64;
        let y = own * (index / 2) as f64;
        content += &placed(x, y, &lines);
        height = height.max(y + own);
    }
    fs::write(file, picture(WIDTH * 2.0, height, &content))
        .with_context(|| file.display().to_string())
}

/// The cases that share a panel: those that differ in their client alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Panel {
    order: Order,
    bytes: usize,
    protection: Protection,
}

impl Panel {
    fn of(case: &ComparedCase) -> Self {
        Self {
            order: case.order,
            bytes: case.bytes,
            protection: case.protection,
        }
    }
}

/// A bar.
struct Bar {
    name: String,
    colour: &'static str,
    seconds: f64,
    /// The text behind the bar.
    note: String,
}

fn draw(results: &TimedDownloads, panel: Panel) -> (f64, String) {
    let bars = bars(results, panel);
    let most = bars.iter().map(|bar| bar.seconds).fold(1.0, f64::max);
    let Panel {
        order,
        bytes,
        protection,
    } = panel;
    let megabytes = bytes / MEGABYTE;
    let title = format!("{order} links, {megabytes} MB, {protection} TLS: seconds");
    let mut content = text(4.0, 16.0, "start", &title);
    for (index, bar) in bars.iter().enumerate() {
        let y = TOP + STEP * index as f64;
        let width = (WIDTH - LEFT - RIGHT) * bar.seconds / most;
        content += &text(LEFT - 6.0, y + 11.0, "end", &bar.name);
        content += &format!(
            "<rect x=\"{LEFT:.0}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"13\" fill=\"{}\"/>\n",
            bar.colour
        );
        content += &text(LEFT + width + 5.0, y + 11.0, "start", &bar.note);
    }
    // The bound and the paper, and two clients.
    let most_bars = 2 + 2 * Carriage::ALL.len();
    (TOP + STEP * most_bars as f64 + BOTTOM, content)
}

fn bars(results: &TimedDownloads, panel: Panel) -> Vec<Bar> {
    let mut measured_bars = Vec::new();
    let mut bounds = Vec::new();
    for (case, by_way) in results.cases() {
        if Panel::of(&case) != panel {
            continue;
        }
        for (way, downloads) in &by_way {
            bounds.extend(downloads.iter().map(|one| one.bound));
            measured_bars.push(measured(*way, case.client, downloads));
        }
    }

    let mut bars = vec![given("bound", "#bbbbbb", mean(bounds.into_iter()))];
    let printed = paper(panel.order, panel.bytes / MEGABYTE, panel.protection);
    bars.extend(printed.map(|seconds| given("paper", "#777777", Some(seconds))));
    bars.extend(measured_bars);
    bars
}

/// A bar of a figure that was not measured here.
fn given(name: &str, colour: &'static str, seconds: Option<f64>) -> Bar {
    let seconds = seconds.unwrap_or_default();
    Bar {
        name: name.to_owned(),
        colour,
        seconds,
        note: format!("{seconds:.1}"),
    }
}

fn measured(way: Carriage, client: Downloader, downloads: &[&TimedDownload]) -> Bar {
    let whole: Vec<f64> = downloads.iter().filter_map(|one| one.seconds).collect();
    let seconds = mean(whole.iter().copied());
    let failed = downloads.len() - whole.len();
    let note = match (seconds, failed) {
        (None, _) => "none whole".to_owned(),
        (Some(seconds), 0) => format!("{seconds:.1}"),
        (Some(seconds), _) => format!("{seconds:.1}, {failed} of {} failed", downloads.len()),
    };
    Bar {
        name: format!("{way}, {client}"),
        colour: if way.is_custody() {
            "#d1495b"
        } else {
            "#00798c"
        },
        seconds: seconds.unwrap_or_default(),
        note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intermittent::download::PlannedDownload;

    #[test]
    fn a_panel_shows_the_bound_the_paper_and_what_failed() {
        let one = |way, seconds| TimedDownload {
            download: PlannedDownload {
                order: Order::Cyclic,
                seed: 0,
                bytes: MEGABYTE,
                protection: Protection::Hop,
                client: Downloader::Curl,
                way,
            },
            begin: 0.0,
            seconds,
            bound: 6.84,
            again: None,
            resumed: None,
        };
        let downloads = vec![one(Carriage::Custody, Some(7.0)), one(Carriage::Tcp, None)];
        let panel = Panel {
            order: Order::Cyclic,
            bytes: MEGABYTE,
            protection: Protection::Hop,
        };
        let (_, content) = draw(&TimedDownloads { downloads }, panel);
        for words in [
            "bound",
            "custody, curl",
            "6.8",
            "115.8",
            "7.0",
            "tcp, curl",
            "none whole",
        ] {
            assert!(content.contains(words), "{words} in {content}");
        }
    }
}
