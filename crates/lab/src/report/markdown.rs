//! Results as tables for a page of documentation.

use crate::experiment::Experiment;
use crate::peers::Name;

use super::table::spoken;
use super::verdict::verdict;
use super::{Results, Summary, number};

/// A table for each experiment.
pub fn tables(results: &Results) -> String {
    let mut text = String::new();
    for experiment in Experiment::ALL {
        let rows: Vec<_> = results.rows().into_iter().filter(|(case, _)| case.experiment == experiment).collect();
        let measured = |name: &Name| rows.iter().any(|(case, figure)| results.of(*case, figure, *name).is_some());
        let systems: Vec<_> = Name::ALL.into_iter().filter(measured).collect();
        if systems.is_empty() {
            continue;
        }
        let names: String = systems.iter().map(|name| format!(" {} |", name.text())).collect();
        let lines = "-----:|".repeat(systems.len());
        text += &format!("\n### {}\n\n| Case |{names} Hermes to Envoy |\n|---|{lines}---|\n", experiment.name());
        for (case, figure) in &rows {
            let values: String =
                systems.iter().map(|name| format!(" {} |", cell(results.of(*case, figure, *name)))).collect();
            let verdict = verdict(results, *case, figure, Name::Envoy).map_or_else(String::new, spoken);
            let (kind, link) = (case.kind.name(), case.link.name());
            text += &format!("| {kind} {link}: {}, {} |{values} {verdict} |\n", figure.name, figure.unit);
        }
    }
    text
}

fn cell(summary: Option<Summary>) -> String {
    summary.map_or_else(String::new, |Summary { median, least, most }| {
        if least == most {
            return number(median);
        }
        format!("{} ({} to {})", number(median), number(least), number(most))
    })
}
