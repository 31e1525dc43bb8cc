//! Results as pictures: one file for each experiment.

mod bars;
mod lines;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::experiment::Experiment;
use crate::peers::Name;

use super::Results;

/// Writes `EXPERIMENT.svg` for each experiment that was run.
///
/// # Errors
/// When a file cannot be written.
pub fn save(results: &Results, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for experiment in Experiment::ALL {
        let rows: Vec<_> = results
            .rows()
            .into_iter()
            .filter(|(case, _)| case.experiment == experiment)
            .collect();
        if rows.is_empty() {
            continue;
        }

        let systems = systems(results, &rows);
        let (width, height, content) = match experiment {
            Experiment::Burst => lines::draw(results, &rows, &systems),
            _ => bars::draw(results, &rows, &systems),
        };

        let picture = picture(width, height, &content);
        let file = folder.join(format!("{}.svg", experiment.name()));
        fs::write(&file, picture).with_context(|| file.display().to_string())?;
    }

    Ok(())
}

/// The systems that have figures, in the order of the tables.
fn systems(results: &Results, rows: &[super::Row]) -> Vec<Name> {
    let measured = |name: &Name| {
        rows.iter()
            .any(|(case, figure)| results.of(*case, figure, *name).is_some())
    };
    Name::ALL.into_iter().filter(measured).collect()
}

/// Colours that also differ in brightness.
fn colour(system: Name) -> &'static str {
    match system {
        Name::Direct => "#bbbbbb",
        Name::Null => "#777777",
        Name::Hermes => "#d1495b",
        Name::Envoy => "#00798c",
        Name::Nginx => "#66a182",
        Name::Haproxy => "#edae49",
        Name::H2o => "#8f6bb3",
        Name::Caddy => "#3b3b98",
    }
}

/// A whole picture.
pub(crate) fn picture(width: f64, height: f64, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{content}</svg>\n"
    )
}

/// Words at a place; they begin, end or have their middle there.
pub(crate) fn text(x: f64, y: f64, anchor: &str, words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>\n")
}
