//! Results as tables for a page of documentation.

use crate::experiment::Experiment;
use crate::peers::Name;

use super::table::spoken;
use super::verdict::verdict;
use super::{Results, cell};

/// A page: how it was measured, and for each experiment a picture, if asked for, and a table.
pub fn page(results: &Results, pictures: bool) -> String {
    let mut text =
        "# Figures\n\nWritten by `hermes-lab overhead`; [what they mean](../performance.md). Medians, and in \
                    brackets the least and the most of all rounds.\n\n"
            .to_owned();
    for run in &results.runs {
        text += &format!(
            "- `{}`: {:.0} s, seed {}, {}\n",
            run.command, run.seconds, run.seed, run.machine
        );
    }

    for experiment in Experiment::ALL {
        let rows: Vec<_> = results
            .rows()
            .into_iter()
            .filter(|(case, _)| case.experiment == experiment)
            .collect();
        let measured = |name: &Name| {
            rows.iter()
                .any(|(case, figure)| results.of(*case, figure, *name).is_some())
        };

        let systems: Vec<_> = Name::ALL.into_iter().filter(measured).collect();
        if systems.is_empty() {
            continue;
        }

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
