//! Tables and figures as people read them.

use std::time::Duration;

use comfy_table::{Table, presets};

/// A table with a header and no lines around it.
pub fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(header.to_vec());
    table
}

/// A table, or where it is wider than `width`, a paragraph for each row: its first cell, and below that what the others
/// are called and say, without those that say nothing.
pub fn fitted(header: &[String], rows: &[Vec<String>], width: Option<usize>) -> String {
    let mut table = plain(&header.iter().map(String::as_str).collect::<Vec<_>>());
    table.add_rows(rows);
    let text = table.trim_fmt();

    match width {
        Some(width) if text.lines().any(|line| line.chars().count() > width) => {
            paragraphs(header, rows, width)
        }
        _ => text,
    }
}

/// The cell of an unknown value.
pub const NOTHING: &str = "-";

fn paragraphs(header: &[String], rows: &[Vec<String>], width: usize) -> String {
    let mut lines = Vec::new();
    for row in rows {
        let mut cells = header.iter().zip(row);
        lines.extend(cells.next().map(|(_, first)| format!(" {first}")));
        let said = cells
            .filter(|(_, cell)| *cell != NOTHING)
            .map(|(name, cell)| format!("{name} {cell}"));
        lines.extend(wrapped(&said.collect::<Vec<_>>().join(", "), 4, width));
    }

    lines.join("\n")
}

/// Lines of at most `width` characters, each after `indent` spaces; a longer word has a line to itself.
pub fn wrapped(text: &str, indent: usize, width: usize) -> Vec<String> {
    let space = " ".repeat(indent);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.extend([" ", word])
            }
            _ => lines.push(format!("{space}{word}")),
        }
    }

    lines
}

/// Bytes with three figures at most: `999 B`, `1.5 KiB`, `20 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1000 {
        return format!("{count} B");
    }

    // Only three digits are shown, so a float is exact enough.
    let mut size = count as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1000.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }

    let decimals = if size < 10.0 { 1 } else { 0 };
    format!("{size:.decimals$} {}", UNITS[unit])
}

/// A short time: `85 us`, `1.24 ms`, `2.5 s`.
pub fn short_time(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.2} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// An age of at least a second: `5s`, `2m 05s`, `3h 02m`, `4d 01h`.
pub fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let minutes = seconds / 60;
    let hours = seconds / 3600;
    let days = seconds / 86_400;

    if days > 0 {
        format!("{days}d {:02}h", hours % 24)
    } else if hours > 0 {
        format!("{hours}h {:02}m", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes}m {:02}s", seconds % 60)
    } else {
        format!("{seconds}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_does_not_fit_becomes_paragraphs() {
        let header = ["name", "address", "why"].map(str::to_owned);
        let rows = [
            ["a", "10.0.0.1:80", "-"],
            ["b", "10.0.0.2:80", "it does not answer"],
        ]
        .map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            fitted(&header, &rows, Some(80)),
            fitted(&header, &rows, None)
        );
        let narrow = fitted(&header, &rows, Some(30));
        assert_eq!(
            narrow,
            " a\n    address 10.0.0.1:80\n b\n    address 10.0.0.2:80, why\n    it does not answer"
        );
    }

    #[test]
    fn bytes_have_three_figures_at_most() {
        let texts = [0, 999, 1536, 20 << 20, u64::MAX].map(bytes);
        assert_eq!(texts, ["0 B", "999 B", "1.5 KiB", "20 MiB", "16384 PiB"]);
    }

    #[test]
    fn short_times_choose_their_unit() {
        let texts = [85, 1_240, 2_500_000].map(|micros| short_time(Duration::from_micros(micros)));
        assert_eq!(texts, ["85 us", "1.24 ms", "2.5 s"]);
    }

    #[test]
    fn ages_name_two_units() {
        let texts = [5, 125, 10_920, 349_200].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(texts, ["5s", "2m 05s", "3h 02m", "4d 01h"]);
    }
}
