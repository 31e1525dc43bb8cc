//! `hermes check FILE..`: everything that is wrong with them, and whether their upstreams can be reached.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hermes_config::model::{Access, Document};
use hermes_config::{Loaded, Problem, Problems, child};
use hermes_node::trial;
use rustix::fs::{Access as Mode, access};
use serde_json::{Value, json};

use crate::custody;
use crate::failure::Failure;
use crate::output::{Colour, Output};
use crate::plugs;

/// Time for each way to each endpoint: as long as a connection may take by default.
#[doc(alias = "bound")]
const TRIAL: Duration = Duration::from_secs(5);

/// The name of standard input.
const STANDARD_INPUT: &str = "-";

/// Bytes of standard input at most, as of a file.
#[doc(alias = "bound")]
const BYTES: u64 = 4 << 20;

/// Arguments of `hermes check`.
#[derive(Debug, Args)]
pub struct Check {
    /// Configurations of nodes, each by itself; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Try every upstream too: name, connection, TLS, certificate, and where it speaks HTTP an answer.
    #[arg(long)]
    connect: bool,
}

/// The findings about one file.
#[derive(Default)]
struct Judged {
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    tried: Vec<Tried>,
    /// The content of a file without problems.
    content: String,
}

/// One way to one endpoint.
struct Tried {
    upstream: String,
    endpoint: String,
    way: &'static str,
    /// Who answered, or why no one did.
    outcome: Result<String, String>,
}

/// Reads the files, their includes and the files that they name; changes nothing.
///
/// # Errors
/// With exit code 2 if there is any problem, with 1 if an upstream cannot be reached.
pub async fn run(check: &Check, output: Output) -> Result<(), Failure> {
    let mut all = Vec::new();
    for file in &check.files {
        let judged = judge(file, check.connect).await;
        if !output.json {
            show(file, &judged, output);
        }
        all.push(judged);
    }

    if output.json {
        output.value(&as_json(&all, check.connect));
    }

    if all.iter().any(|judged| !judged.problems.is_empty()) {
        return Err(Failure::told(2));
    }
    let failed = all
        .iter()
        .flat_map(|judged| &judged.tried)
        .any(|tried| tried.outcome.is_err());

    if failed {
        Err(Failure::told(1))
    } else {
        Ok(())
    }
}

async fn judge(file: &Path, connect: bool) -> Judged {
    let sound = load(file).and_then(|loaded| plugs::check(loaded.clone()).map(|()| loaded));
    let loaded = match sound {
        Ok(loaded) => loaded,
        Err(Problems(problems)) => {
            return Judged {
                problems,
                ..Judged::default()
            };
        }
    };

    if let Some(problem) = key_of_custody(&loaded) {
        return Judged {
            problems: vec![problem],
            ..Judged::default()
        };
    }

    let mut warnings = hermes_node::warnings(&loaded);
    warnings.extend(hermes_observe::validity::warnings(&loaded));
    warnings.extend(unwritable(&loaded));
    let content = content(&loaded.document);
    let tried = if connect {
        try_out(loaded).await
    } else {
        Vec::new()
    };

    Judged {
        warnings,
        tried,
        content,
        ..Judged::default()
    }
}

/// Reads a file, or standard input where it is called `-`.
pub(super) fn load(file: &Path) -> Result<Loaded, Problems> {
    if file != Path::new(STANDARD_INPUT) {
        return super::load(file);
    }
    let mut text = String::new();
    let read = std::io::stdin().take(BYTES).read_to_string(&mut text);

    if let Err(error) = read {
        let reason = format!("cannot read standard input: {error}");
        return Err(Problems(vec![Problem::new("", reason)]));
    }

    let format = hermes_convert::recognize(text.as_bytes());
    let loaded = plugs::form().parse_part(file, &text, &|name| std::env::var(name).ok());
    loaded.map_err(|unsound| match format {
        Some(format) => super::foreign::problem(file, format),
        None => plugs::all_mistakes(unsound),
    })
}

/// A key with which the node would not start.
fn key_of_custody(loaded: &Loaded) -> Option<Problem> {
    let config = loaded.document.defaults.custody.as_ref()?;
    let reason = custody::check_key(&config.key_file).err()?;
    let problem = Problem::new("defaults.custody.key_file", reason);
    Some(loaded.places.placed(problem))
}

/// A file of access records that this user could not write. The node may run as another user.
fn unwritable(loaded: &Loaded) -> Option<Problem> {
    let Access::File(file) = &loaded.document.log.access else {
        return None;
    };
    let folder = file.0.parent().unwrap_or(Path::new("/"));
    let place = if file.0.exists() { &*file.0 } else { folder };
    let error = access(place, Mode::WRITE_OK).err()?;
    let reason = format!(
        "records cannot be written to {}: {}: {error}",
        file.0.display(),
        place.display()
    );
    let problem = Problem::new("log.access.file", reason)
        .remedy("create the folder, or let the node's user write there");
    Some(loaded.places.placed(problem))
}

async fn try_out(loaded: Loaded) -> Vec<Tried> {
    // The document was sound a moment ago; a file that changed since is a problem of its upstream.
    let tried = match trial::try_upstreams(loaded, TRIAL).await {
        Ok(tried) => tried,
        Err(problems) => {
            let endpoint = String::new();
            let outcome = Err(problems.to_string());
            return vec![Tried {
                upstream: String::new(),
                endpoint,
                way: "",
                outcome,
            }];
        }
    };

    let mut all = Vec::new();
    for (upstream, trials) in tried {
        for trial in trials {
            let outcome = match trial.outcome {
                Ok(found) => Ok(found.to_string()),
                Err(failure) => Err(format!("failed at {}: {}", failure.step(), failure.reason)),
            };
            all.push(Tried {
                upstream: upstream.clone(),
                endpoint: trial.endpoint.to_string(),
                way: trial.way,
                outcome,
            });
        }
    }

    all
}

fn show(file: &Path, judged: &Judged, output: Output) {
    judged
        .problems
        .iter()
        .for_each(|problem| output.line(problem));
    for warning in &judged.warnings {
        let place = warning
            .place
            .as_ref()
            .map(|place| format!("{place}: "))
            .unwrap_or_default();
        output.line(format_args!(
            "{place}warning: {}",
            Problem {
                place: None,
                ..warning.clone()
            }
        ));
    }

    for Tried {
        upstream,
        endpoint,
        way,
        outcome,
    } in &judged.tried
    {
        let (colour, word, said) = match outcome {
            Ok(said) => (Colour::Good, "ok", said),
            Err(said) => (Colour::Bad, "FAILED", said),
        };
        let path = child("upstreams", upstream);
        output.line(format_args!(
            "{}  {path} {endpoint} {way}: {said}",
            output.paint(colour, word)
        ));
    }

    let verdict = if judged.problems.is_empty() {
        judged.content.clone()
    } else {
        count(judged.problems.len(), "problem")
    };

    let warnings = match judged.warnings.len() {
        0 => String::new(),
        number => format!(", {}", count(number, "warning")),
    };

    output.line(format_args!("{}: {verdict}{warnings}", file.display()));
}

/// The list of problems; with `connect` an object that also has the list of attempts.
fn as_json(all: &[Judged], connect: bool) -> Value {
    let said = |problem: &Problem, level: &str| {
        let mut value = json!(problem);
        value["level"] = json!(level);
        value
    };

    let of = |judged: &Judged| {
        let problems = judged.problems.iter().map(|problem| said(problem, "error"));
        problems
            .chain(
                judged
                    .warnings
                    .iter()
                    .map(|warning| said(warning, "warning")),
            )
            .collect::<Vec<_>>()
    };

    let problems: Vec<Value> = all.iter().flat_map(of).collect();
    if !connect {
        return json!(problems);
    }

    let tried = all.iter().flat_map(|judged| &judged.tried).map(|tried| {
        let said = tried.outcome.as_ref().ok();
        let why = tried.outcome.as_ref().err();
        json!({ "upstream": tried.upstream, "endpoint": tried.endpoint, "way": tried.way, "found": said, "error": why })
    });

    json!({ "problems": problems, "tried": tried.collect::<Vec<_>>() })
}

/// The content of a valid document, in a few words.
fn content(document: &Document) -> String {
    let listeners = count(document.listeners.len(), "listener");
    let routes = count(document.routes.len(), "route");
    format!(
        "valid, with {listeners}, {routes} and {}",
        count(document.upstreams.len(), "upstream")
    )
}

/// `1 route`, `2 routes`.
fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [count(0, "route"), count(1, "route"), count(2, "route")],
            ["0 routes", "1 route", "2 routes"]
        );
    }
}
