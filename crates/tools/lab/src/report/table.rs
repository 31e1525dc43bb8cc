//! Results for a terminal: a table for each experiment, and one line about all.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use crate::experiment::Experiment;
use crate::peers::Name;

use super::verdict::{Verdict, verdict};
use super::{Results, Row, Summary};

/// The tables.
pub fn print(results: &Results) -> String {
    let mut text = String::new();
    for experiment in Experiment::ALL {
        let rows: Vec<_> = results
            .rows()
            .into_iter()
            .filter(|(case, _)| case.experiment == experiment)
            .collect();
        if !rows.is_empty() {
            text += &format!(
                "\n{}: median (least to most)\n{}\n",
                experiment.name(),
                table(results, &rows)
            );
        }
    }

    for line in super::targets::lines(results) {
        text += &format!("\n{line}");
    }
    text += "\n";
    for failure in &results.failures {
        text += &format!("failed: {failure}\n");
    }

    text
}

/// In how many figures Hermes is better or worse than the others.
pub fn summary_line(results: &Results) -> String {
    let against = [
        Name::Envoy,
        Name::Nginx,
        Name::Haproxy,
        Name::H2o,
        Name::Caddy,
    ]
    .map(|other| {
        let rows = results.rows();
        let verdicts: Vec<_> = rows
            .iter()
            .filter_map(|(case, figure)| verdict(results, *case, figure, other))
            .collect();
        let count = |wanted: fn(&Verdict) -> bool| {
            verdicts.iter().filter(|verdict| wanted(verdict)).count()
        };

        let better = count(|verdict| matches!(verdict, Verdict::Better(_)));
        let worse = count(|verdict| matches!(verdict, Verdict::Worse(_)));
        let close = verdicts.len() - better - worse;

        (!verdicts.is_empty()).then(|| {
            format!(
                "against {} better in {better}, worse in {worse}, within 20 % in {close}",
                other.text()
            )
        })
    });

    let against: Vec<_> = against.into_iter().flatten().collect();
    let seconds: f64 = results.runs.iter().map(|run| run.seconds).sum();
    format!(
        "overhead: {} in {seconds:.0} s, {} failed",
        against.join("; "),
        results.failures.len()
    )
}

fn table(results: &Results, rows: &[Row]) -> Table {
    let measured = |system: &Name| {
        rows.iter()
            .any(|(case, figure)| results.of(*case, figure, *system).is_some())
    };

    let systems: Vec<_> = Name::ALL.into_iter().filter(measured).collect();
    let mut table = Table::new();
    table.load_style(NOTHING);
    let names = systems.iter().map(|system| system.text());
    table.set_header(
        ["kind", "link", "figure"]
            .into_iter()
            .chain(names)
            .chain(["hermes to envoy"]),
    );

    for (case, figure) in rows {
        let start = [case.kind.name(), case.link.name()].map(str::to_owned);
        let figure_cell = format!("{}, {}", figure.name, figure.unit);
        let values = systems
            .iter()
            .map(|system| cell(results.of(*case, figure, *system)));
        let verdict = verdict(results, *case, figure, Name::Envoy).map_or_else(String::new, spoken);
        table.add_row(
            start
                .into_iter()
                .chain([figure_cell])
                .chain(values)
                .chain([verdict]),
        );
    }

    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A verdict in words.
pub fn spoken(verdict: Verdict) -> String {
    match verdict {
        Verdict::Better(times) => format!("{times:.2} x better"),
        Verdict::Worse(times) => format!("{times:.2} x worse"),
        Verdict::Close => "within 20 %".to_owned(),
    }
}

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
