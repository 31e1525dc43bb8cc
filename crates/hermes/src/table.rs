//! Tables and figures as people read them.

use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};

/// A table with a header and no lines around it.
pub fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    table
}

/// Columns of a framed table: what fits a usual terminal and a page of documentation.
const WIDTH: u16 = 120;

/// A table with lines, whose cells are wrapped to fit.
pub fn framed(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL).set_header(header.to_vec());
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table
}

/// Bytes with three figures at most: `999 B`, `1.5 KiB`, `20 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1000 {
        return format!("{count} B");
    }
    // Three figures are shown, so what a float cannot hold is not missed.
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
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
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
