//! Results as cells, lines and tables.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::Summary;

/// Three digits that count.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A figure of some rounds: its median, and its range if there is one.
pub fn cell(summary: Option<Summary>) -> String {
    let Some(Summary {
        median,
        least,
        most,
    }) = summary
    else {
        return String::new();
    };
    match least == most {
        true => number(median),
        false => format!("{} ({} to {})", number(median), number(least), number(most)),
    }
}

/// A table for a terminal, of which all columns but the first `words` are numbers.
pub fn plain_table(
    header: impl IntoIterator<Item = String>,
    rows: impl IntoIterator<Item = Vec<String>>,
    words: usize,
) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The same table for a page.
pub fn page_table(
    header: &[String],
    rows: impl IntoIterator<Item = Vec<String>>,
    words: usize,
) -> String {
    let numbers = header.len() - words;
    let mut text = format!(
        "| {} |\n|{}{}\n",
        header.join(" | "),
        "---|".repeat(words),
        "---:|".repeat(numbers)
    );
    for row in rows {
        text += &format!("| {} |\n", row.join(" | "));
    }
    text
}
