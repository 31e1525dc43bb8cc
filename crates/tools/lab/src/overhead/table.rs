//! CaseResults for a terminal: a table for each experiment, and one line about all.

use comfy_table::Table;

use super::figures::{CaseResults, Section};
use super::verdict::{Verdict, verdict};
use crate::peers::Name;
use crate::report::{cell, plain_table};

/// The tables.
pub fn print(results: &CaseResults) -> String {
    let mut text = String::new();
    for section in Section::all(results) {
        text += &format!(
            "
{}: median (least to most)
{}
",
            section.experiment.name(),
            table(results, &section)
        );
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
pub fn summary_line(results: &CaseResults) -> String {
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

fn table(results: &CaseResults, section: &Section) -> Table {
    let names = section.systems.iter().map(|system| system.text());
    let header = ["kind", "link", "figure"]
        .into_iter()
        .chain(names)
        .chain(["hermes to envoy"]);
    let rows = section.rows.iter().map(|(case, figure)| {
        let mut row = [case.kind.name(), case.link.name()]
            .map(str::to_owned)
            .to_vec();
        row.push(format!("{}, {}", figure.name, figure.unit));
        let systems = section.systems.iter();
        row.extend(systems.map(|system| cell(results.of(*case, figure, *system))));
        let verdict = verdict(results, *case, figure, Name::Envoy);
        row.push(verdict.map_or_else(String::new, spoken));
        row
    });
    plain_table(header.map(str::to_owned), rows, 3)
}

/// A verdict in words.
pub fn spoken(verdict: Verdict) -> String {
    match verdict {
        Verdict::Better(times) => format!("{times:.2} x better"),
        Verdict::Worse(times) => format!("{times:.2} x worse"),
        Verdict::Close => "within 20 %".to_owned(),
    }
}
