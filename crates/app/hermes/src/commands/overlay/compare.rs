//! `hermes diff FILE` with resources: the effect of a change of the overlay, before it is made.

use std::path::{Path, PathBuf};

use hermes_api::Name;
use hermes_config::Kind;
use hermes_control::compile::{ANYONE, Access, AccessChanges};
use hermes_control::service::admin::Apply;
use hermes_control::service::{Comparison, How, ResourceChange};

use super::apply::{files, secret_files};
use super::ask::ControllerSocket;
use crate::admin;
use crate::failure::Failure;
use crate::output::{Colour, Output};

/// Compares a file with the state in force: resources with their fields, documents, and who gains and loses what.
///
/// # Errors
/// When something differs (exit code 1), the file is not valid (2), or the controller cannot be reached (3).
pub async fn run(
    controller: &ControllerSocket,
    file: Option<&Path>,
    set: Option<&Name>,
    output: Output,
) -> Result<(), Failure> {
    let file: PathBuf = file
        .ok_or_else(|| Failure::invalid("name a file of resources"))?
        .to_owned();
    let files = files(std::slice::from_ref(&file))?;
    let asked = Apply {
        secrets: secret_files(&files)?,
        files,
        set: set.cloned(),
        how: How::default(),
    };
    let answer = controller.post("/diff", &asked).await?;
    let comparison: Comparison = admin::typed(answer)?;
    if output.json {
        output.value(&comparison);
    } else {
        show(&comparison, &file, output);
    }
    match comparison.resources.is_empty() {
        true => Ok(()),
        false => Err(Failure::told(1)),
    }
}

fn show(comparison: &Comparison, file: &Path, output: Output) {
    let base = comparison.base;
    if comparison.resources.is_empty() {
        return output.line(format_args!("no difference from revision {base}"));
    }
    for change in &comparison.resources {
        show_resource(change, output);
    }
    match comparison.documents.as_slice() {
        [] => output.line("no node's document would change"),
        documents => output.line(format_args!(
            "documents that would change: {}; {} of the nodes that attend get another one",
            documents.join(", "),
            comparison.nodes
        )),
    }
    show_access(&comparison.access, output);
    output.line(format_args!(
        "compared with revision {base}: hermes apply --base {base} {}",
        file.display()
    ));
}

fn show_resource(change: &ResourceChange, output: Output) {
    let place = change.place.as_ref();
    let place = place.map_or_else(String::new, |place| format!(" ({place})"));
    let resource = &change.resource;
    output.line(match change.kind {
        Kind::Added => output.paint(Colour::Good, &format!("+ {resource}{place}")),
        Kind::Removed => output.paint(Colour::Bad, &format!("- {resource}{place}")),
        Kind::Changed | Kind::Moved => format!("~ {resource}{place}"),
    });
    for field in &change.fields {
        output.line(format!("  {field}").replace('\n', "\n  "));
    }
}

fn show_access(access: &AccessChanges, output: Output) {
    if access.is_empty() {
        output.line("everybody reaches the same as before");
    }
    for gained in &access.gained {
        let line = format!("{} gains {}", user(gained), reached(gained));
        output.line(output.paint(Colour::Good, &line));
    }
    for lost in &access.lost {
        let line = format!("{} loses {}", user(lost), reached(lost));
        output.line(output.paint(Colour::Bad, &line));
    }
    for moved in &access.moved {
        let line = format!("{} is led elsewhere: {}", user(moved), reached(moved));
        output.line(line);
    }
    if access.left_out > 0 {
        output.line(format_args!(
            "{} pairs of a user and a name were judged, {} were not: there are too many",
            access.judged, access.left_out
        ));
    }
}

fn user(access: &Access) -> &str {
    match access.user.as_str() {
        ANYONE => "any other user",
        user => user,
    }
}

fn reached(access: &Access) -> String {
    let mut text = format!("{} ({})", access.target, access.services.join(", "));
    if !access.at.is_empty() {
        let nodes: Vec<&str> = access.at.iter().map(Name::as_str).collect();
        text += &format!(" from {}", nodes.join(", "));
    }
    text
}
