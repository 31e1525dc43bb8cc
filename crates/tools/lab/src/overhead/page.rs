//! CaseResults as tables for a page of documentation.

use super::figures::{CaseResults, Section};
use super::table::spoken;
use super::verdict::verdict;
use crate::peers::Name;
use crate::report::cell;

/// A page: how it was measured, and for each experiment a picture, if asked for, and a table.
pub fn page(results: &CaseResults, pictures: bool) -> String {
    let mut text =
        "# Figures\n\nWritten by `hermes-lab overhead`; [what they mean](../performance.md). Medians, and in \
                    brackets the least and the most of all rounds.\n\n"
            .to_owned();
    text += &results.described_runs();

    for Section {
        experiment,
        rows,
        systems,
    } in Section::all(results)
    {
        let names: String = systems
            .iter()
            .map(|name| format!(" {} |", name.text()))
            .collect();
        let lines = "-----:|".repeat(systems.len());
        let name = experiment.name();
        text += &format!("\n## {name}\n\n");

        if pictures {
            text += &format!("![{name}]({name}.svg)\n\n");
        }
        text += &format!("| Case |{names} Hermes to Envoy |\n|---|{lines}---|\n");
        for (case, figure) in &rows {
            let values: String = systems
                .iter()
                .map(|name| format!(" {} |", cell(results.of(*case, figure, *name))))
                .collect();
            let verdict =
                verdict(results, *case, figure, Name::Envoy).map_or_else(String::new, spoken);
            let kind = case.kind.name();
            let link = case.link.name();
            text += &format!(
                "| {kind} {link}: {}, {} |{values} {verdict} |\n",
                figure.name, figure.unit
            );
        }
    }

    let targets = super::targets::lines(results);
    if !targets.is_empty() {
        text += &format!("\n## targets\n\n- {}\n", targets.join("\n- "));
    }

    text
}
