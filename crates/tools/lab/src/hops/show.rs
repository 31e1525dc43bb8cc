//! Results for a terminal and for a page of documentation.

use std::collections::BTreeMap;

use comfy_table::presets::{ASCII_MARKDOWN, NOTHING};
use comfy_table::{CellAlignment, Table, TableStyle};

use super::plan::{HopExperiment, HopResults, HopSystem, Point};
use super::targets::targets;
use crate::report::Figure;
use crate::report::{cell, number};

/// The tables.
pub fn print(results: &HopResults) -> String {
    let mut text = String::new();
    for experiment in HopExperiment::ALL {
        if let Some(table) = table(results, experiment, NOTHING, |_, _| true) {
            text += &format!("\n{}: median (least to most)\n{table}\n", experiment.name());
        }
    }

    text += &format!("\n{}\n", goals(results, NOTHING));
    for failure in &results.failures {
        text += &format!("failed: {failure}\n");
    }

    text
}

/// One line about all.
pub fn summary_line(results: &HopResults) -> String {
    let found = targets(results);
    let count = |verdict: &str| {
        found
            .iter()
            .filter(|target| target.verdict() == verdict)
            .count()
    };

    let seconds: f64 = results.runs.iter().map(|run| run.seconds).sum();
    format!(
        "hops: {} goals reached, {} missed, {} too close to say; {seconds:.0} s, {} failed",
        count("reached"),
        count("missed"),
        count("too close to say"),
        results.failures.len()
    )
}

/// A page for people: how it was measured, the goals, and for each experiment its pictures and its headline, of one
/// transaction at a time where there were several. Every figure is in the JSON.
pub fn page(results: &HopResults, pictures: &[String]) -> String {
    let mut text = "# Hops\n\nWritten by `hermes-lab hops`; [what it means](../performance.md#hops). Medians, and in \
                    brackets the least and the most of all rounds; `--json` has every figure.\n\n"
        .to_owned();
    text += &results.described_runs();

    for (system, count) in failures(&results.failures) {
        text += &format!("- failed: {count} of {system}\n");
    }

    text += &format!(
        "\n## Goals\n\n{}\n",
        compact(&goals(results, ASCII_MARKDOWN))
    );
    for experiment in HopExperiment::ALL {
        let is_headline = |point: &Point, figure: &Figure| {
            let alone = point.transactions == 1 || experiment == HopExperiment::Flows;
            alone && figure.name == experiment.headline()
        };
        let Some(table) = table(results, experiment, ASCII_MARKDOWN, is_headline) else {
            continue;
        };

        text += &format!("\n## {}\n\n", experiment.name());
        for picture in pictures
            .iter()
            .filter(|name| name.contains(experiment.name()))
        {
            text += &format!("![{}]({picture})\n\n", picture.trim_end_matches(".svg"));
        }

        text += &format!("{}\n", compact(&table));
    }

    text
}

/// How often each system failed; a failure begins with `round 2: envoy: `.
fn failures(failures: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for failure in failures {
        let system = failure.split(": ").nth(1).unwrap_or(failure);
        *counts.entry(system).or_default() += 1;
    }

    counts
}

/// A table without the spaces that align its columns.
fn compact(table: &Table) -> String {
    let words = |line: String| {
        let words = line.split_whitespace().map(|word| {
            if word.contains("--") {
                shortest(word)
            } else {
                word.to_owned()
            }
        });
        words.collect::<Vec<_>>().join(" ")
    };
    table.lines().map(words).collect::<Vec<_>>().join("\n")
}

/// A line between rows, with three dashes a column.
fn shortest(line: &str) -> String {
    let columns = line
        .split('|')
        .map(|column| match (column.is_empty(), column.ends_with(':')) {
            (true, _) => "",
            (_, true) => "--:",
            _ => "---",
        });
    columns.collect::<Vec<_>>().join("|")
}

fn goals(results: &HopResults, style: TableStyle) -> Table {
    let mut table = Table::new();
    table.load_style(style);
    table.set_header(["goal", "measured", ""]);

    for target in targets(results) {
        table.add_row([
            target.words.clone(),
            number(target.value),
            target.verdict().to_owned(),
        ]);
    }

    table
}

fn table(
    results: &HopResults,
    experiment: HopExperiment,
    style: TableStyle,
    is_shown: impl Fn(&Point, &Figure) -> bool,
) -> Option<Table> {
    let rows: Vec<_> = results
        .rows()
        .into_iter()
        .filter(|(point, figure)| point.experiment == experiment && is_shown(point, figure))
        .collect();
    let measured = |system: &HopSystem| {
        rows.iter()
            .any(|(point, figure)| results.named(*point, *system, &figure.name).is_some())
    };

    let systems: Vec<_> = HopSystem::ALL.into_iter().filter(measured).collect();
    let mut table = Table::new();
    table.load_style(style);
    let names = systems.iter().map(|system| system.name());
    table.set_header(
        ["links", "chain", "at once", "figure"]
            .into_iter()
            .chain(names),
    );

    for (point, figure) in &rows {
        let chain = format!("{} {}", point.hops, point.way.name());
        let start = [
            point.links.name().to_owned(),
            chain,
            point.transactions.to_string(),
        ];
        let name = format!("{}, {}", figure.name, figure.unit);
        let values = systems
            .iter()
            .map(|system| cell(results.named(*point, *system, &figure.name)));
        table.add_row(start.into_iter().chain([name]).chain(values));
    }

    for column in table.column_iter_mut().skip(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    (!rows.is_empty()).then_some(table)
}
