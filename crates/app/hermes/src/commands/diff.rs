//! `hermes diff`: the changes that a file would make at a running node.

use std::path::{Path, PathBuf};

use clap::Args;
use hermes_api::Name;
use hermes_config::{Change, Kind, Loaded, Places, write_whole};
use hermes_node::answers::DocumentView;
use hermes_observe::admin::default_socket;
use http::Method;
use serde_json::Value;

use super::foreign;
use super::overlay::ask::ControllerSocket;
use super::overlay::compare;
use crate::admin::{self, Named};
use crate::failure::Failure;
use crate::output::{Colour, Output};

const EXIT_CODES: &str = "\
Exit codes:
  0  the file says what is in force
  1  it says something else
  2  it is not valid, or could not be compared
  3  the running node cannot be reached";

/// Arguments of `hermes diff`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct Diff {
    /// The file; `-` is standard input. Default: the one that the node would read again.
    file: Option<PathBuf>,
    /// The file has resources of the overlay: say which ones and which nodes' documents would change, and who gains and loses what. A file
    /// shows by itself that it has; standard input does not.
    #[arg(long, conflicts_with_all = ["name", "admin", "node"])]
    overlay: bool,
    /// The file is the whole of this set, as for `hermes apply --set`.
    #[arg(long, value_name = "NAME", requires = "file")]
    set: Option<Name>,
    #[command(flatten)]
    controller: ControllerSocket,
    #[command(flatten)]
    node: Named,
}

/// Prints the differences by the paths of keys, and the effect of a reload on the listeners.
///
/// The file is read here, with this process's environment, as `hermes check` reads it.
///
/// # Errors
/// When something differs (exit code 1), the file is not valid (2), or the node cannot be reached (3).
pub async fn run(diff: &Diff, output: Output) -> Result<(), Failure> {
    compare(diff, output)
        .await
        .map_err(|failure| match failure {
            // That the command failed is not to look like a difference.
            Failure { code: 1, .. } if !failure.reason.is_empty() => Failure { code: 2, ..failure },
            failure => failure,
        })
}

async fn compare(diff: &Diff, output: Output) -> Result<(), Failure> {
    let file = diff.file.as_deref();
    if diff.overlay || diff.set.is_some() || file.is_some_and(foreign::has_resources) {
        return compare::run(&diff.controller, file, diff.set.as_ref(), output).await;
    }
    let socket = diff.node.socket()?;
    let file = match &diff.file {
        Some(file) => file.clone(),
        None => of_node(&socket).await?,
    };

    let loaded = super::check::load(&file).map_err(|problems| {
        let failure = Failure::from(problems);
        match diff.file.as_deref().and_then(Path::to_str) {
            Some(name) if !file.exists() && default_socket(name).exists() => failure.remedy(
                format!("to compare with node {name}: hermes diff FILE {name}"),
            ),
            _ => failure,
        }
    })?;

    // The node answers with differences alone, and never with a secret.
    let text = write_whole(&loaded.document, &Places::nowhere());
    let (status, answer) = admin::call(&socket, Method::POST, "/diff", &text).await?;
    if status != 200 {
        return Err(Failure::failed(admin::refusal("/diff", status, &answer)));
    }

    shown(&file, &loaded, answer, output)
}

/// The file that the node would read again, if there is one.
async fn of_node(socket: &Path) -> Result<PathBuf, Failure> {
    let in_force: DocumentView = admin::typed(admin::ask(socket, "/config").await?)?;
    in_force
        .file
        .ok_or_else(|| Failure::failed("the node was started without a file: name one"))
}

fn shown(file: &Path, loaded: &Loaded, mut answer: Value, output: Output) -> Result<(), Failure> {
    let mut changes: Vec<Change> = admin::typed(answer["changes"].take())?;
    for change in &mut changes {
        // Which values came from variables is known here only.
        change.conceal(loaded, loaded);
    }

    let problems = problems(file, loaded, answer["problems"].take());
    if output.json {
        answer["changes"] = serde_json::json!(changes);
        answer["problems"] = serde_json::json!(problems);
        output.value(&answer);
    } else {
        changes
            .iter()
            .for_each(|change| output.line(painted(change, output)));
        if changes.is_empty() {
            output.line("no difference");
        } else if problems.is_empty() {
            output.line(foreseen(&answer["reload"]));
        }
    }

    if !problems.is_empty() {
        let failure = Failure {
            problems,
            ..Failure::invalid("a reload would refuse the file")
        };
        return Err(if output.json {
            Failure::told(2)
        } else {
            failure
        });
    }

    if changes.is_empty() {
        Ok(())
    } else {
        Err(Failure::told(1))
    }
}

/// The problems that the node found, with their places in the file.
fn problems(file: &Path, loaded: &Loaded, found: Value) -> Vec<hermes_config::Problem> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let found = found.as_array().cloned().unwrap_or_default();
    let problem = |found: Value| {
        let path = text(&found["path"]).unwrap_or_default();
        let reason = text(&found["reason"]);
        let reason = reason.unwrap_or_else(|| format!("{} is not valid", file.display()));
        loaded.places.placed(hermes_config::Problem {
            remedy: text(&found["remedy"]),
            ..hermes_config::Problem::new(path, reason)
        })
    };

    found.into_iter().map(problem).collect()
}

fn painted(change: &Change, output: Output) -> String {
    let text = change.to_string();
    match change.kind {
        Kind::Added => output.paint(Colour::Good, &text),
        Kind::Removed => output.paint(Colour::Bad, &text),
        Kind::Changed | Kind::Moved => text,
    }
}

/// The effect of a reload, in one line.
fn foreseen(reload: &Value) -> String {
    let names = |list: &Value| {
        let names = list
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        names.collect::<Vec<_>>().join(", ")
    };

    let listeners = &reload["listeners"];
    let effects = [
        ("open", names(&listeners["opened"])),
        ("close", names(&listeners["closed"])),
        ("rename", names(&listeners["renamed"])),
    ];
    let said: Vec<String> = effects
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(verb, names)| format!("{verb} {names}"))
        .collect();
    let mut line = match said.as_slice() {
        [] => "a reload would open and close no listener".to_owned(),
        said => format!("a reload would {}", said.join("; ")),
    };

    let restart = names(&reload["needs_restart"]);
    if !restart.is_empty() {
        line += &format!("; only a restart changes {restart}");
    }

    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_reload_would_do_is_one_line() {
        let none = json!({ "listeners": { "opened": [], "closed": [], "kept": ["web"], "renamed": [] }, "needs_restart": [] });
        assert_eq!(foreseen(&none), "a reload would open and close no listener");
        let some = json!({ "listeners": { "opened": ["web"], "closed": ["db", "rtp"] }, "needs_restart": ["workers"] });
        assert_eq!(
            foreseen(&some),
            "a reload would open web; close db, rtp; only a restart changes workers"
        );
    }
}
