//! The results as a picture: a panel for each order of links and size, a bar for each way.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::bound::Order;
use super::results::{TimedDownload, TimedDownloads, mean, paper};
use super::{Carriage, Downloader, MEGABYTE};
use crate::report::svg::{picture, text};

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
    let mut panels: Vec<(Order, usize)> = results
        .groups()
        .keys()
        .map(|(order, bytes, _, _)| (*order, *bytes))
        .collect();
    panels.dedup();

    let mut content = String::new();
    let mut height: f64 = 0.0;
    for (index, (order, bytes)) in panels.iter().enumerate() {
        let (own, lines) = panel(results, *order, *bytes);
        let x = WIDTH * (index % 2) as f64;
        let y = own * (index / 2) as f64;
        content += &format!("<g transform=\"translate({x:.0} {y:.0})\">\n{lines}</g>\n");
        height = height.max(y + own);
    }
    fs::write(file, picture(WIDTH * 2.0, height, &content))
        .with_context(|| file.display().to_string())
}

/// A bar.
struct Bar {
    name: String,
    colour: &'static str,
    seconds: f64,
    /// What stands behind it.
    note: String,
}

fn panel(results: &TimedDownloads, order: Order, bytes: usize) -> (f64, String) {
    let bars = bars(results, order, bytes);
    let most = bars.iter().map(|bar| bar.seconds).fold(1.0, f64::max);
    let title = format!("{order} links, {} MB: seconds", bytes / MEGABYTE);
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
    let most_bars = 3 + 2 * Carriage::ALL.len();
    (TOP + STEP * most_bars as f64 + BOTTOM, content)
}

fn bars(results: &TimedDownloads, order: Order, bytes: usize) -> Vec<Bar> {
    let mut bars = Vec::new();
    let groups = results.groups();
    let own = groups
        .iter()
        .filter(|((its, size, _, _), _)| *its == order && *size == bytes);
    for ((_, _, way, client), downloads) in own {
        if *client == Downloader::Curl && way.is_custody() {
            bars.push(bound(*way, downloads));
            bars.extend(printed(order, bytes, *way));
        }
        bars.push(measured(*way, *client, downloads));
    }
    bars
}

fn bound(way: Carriage, downloads: &[&TimedDownload]) -> Bar {
    let seconds = mean(downloads.iter().map(|one| one.bound)).unwrap_or_default();
    Bar {
        name: format!("bound, {way}"),
        colour: "#bbbbbb",
        seconds,
        note: format!("{seconds:.1}"),
    }
}

/// What the paper has.
fn printed(order: Order, bytes: usize, way: Carriage) -> Option<Bar> {
    let seconds = paper(order, bytes / MEGABYTE, way)?;
    Some(Bar {
        name: format!("paper, {way}"),
        colour: "#777777",
        seconds,
        note: format!("{seconds:.1}"),
    })
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

    #[test]
    fn a_panel_shows_the_bound_the_paper_and_what_failed() {
        let one = |way, seconds| TimedDownload {
            order: Order::Cyclic,
            seed: 0,
            way,
            client: Downloader::Curl,
            bytes: MEGABYTE,
            begin: 0.0,
            seconds,
            bound: 6.84,
        };
        let downloads = vec![one(Carriage::Custody, Some(7.0)), one(Carriage::Tcp, None)];
        let (_, content) = panel(&TimedDownloads { downloads }, Order::Cyclic, MEGABYTE);
        for words in [
            "bound, custody",
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
