//! `hermes reload`: the running node reads its file again.

use clap::Args;
use hermes_proxy::change::ReloadReport;
use http::Method;
use serde_json::{Value, json};

use crate::admin::{self, Which};
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes reload`.
#[derive(Debug, Args)]
pub struct Reload {
    #[command(flatten)]
    which: Which,
}

/// Asks for a reload and shows what changed, or what is wrong with the file; then nothing changed.
///
/// # Errors
/// When the node cannot be reached, its file is not valid (exit code 2), or something cannot be bound (1).
pub async fn run(reload: &Reload, output: Output) -> Result<(), Failure> {
    let socket = reload.which.socket()?;
    let (status, answer) = admin::call(&socket, Method::POST, "/reload", "").await?;
    if status == 200 {
        shown(&answer, output);
        return Ok(());
    }
    let problems = answer.get("problems").and_then(Value::as_array);
    let Some(problems) = problems.filter(|_| matches!(status, 409 | 422)) else {
        return Err(Failure::failed(admin::refusal("/reload", status, &answer)));
    };
    // What cannot be bound now may be free a moment later, with the same file.
    let failure = match status {
        409 => Failure::failed("the file is valid, but not all that it asks for can be bound now"),
        _ => Failure::invalid("the file is not valid"),
    };
    if output.json {
        output.value(&answer);
        return Err(Failure::told(failure.code));
    }
    problems
        .iter()
        .for_each(|problem| output.line(line(problem)));
    Err(failure.remedy("the node goes on as it was"))
}

fn shown(answer: &Value, output: Output) {
    if output.json {
        output.value(answer);
        return;
    }
    output.line("reloaded");
    for (name, value) in answer.as_object().into_iter().flatten() {
        let words = words(value);
        if !words.is_empty() {
            output.line(format_args!("  {}: {words}", name.replace('_', " ")));
        }
    }
}

/// A report in one line.
pub fn summary(report: &ReloadReport) -> String {
    let parts = json!(report);
    let parts = parts
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.replace('_', " "), words(value)));
    let said = parts
        .filter(|(_, words)| !words.is_empty())
        .map(|(name, words)| format!("{name}: {words}"));
    said.collect::<Vec<_>>()
        .join("; ")
        .replacen("revision: ", "revision ", 1)
}

/// A value of the report; nothing for what is empty.
fn words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join(", "),
        Value::Object(parts) => {
            let said = parts.iter().map(|(name, value)| (name, words(value)));
            let said = said.filter(|(_, words)| !words.is_empty() && words != "0");
            said.map(|(name, words)| format!("{name} {words}"))
                .collect::<Vec<_>>()
                .join("; ")
        }
        other => other.to_string(),
    }
}

/// A problem as `hermes check` prints it.
fn line(problem: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut line = String::new();
    if let Some(place) = problem.get("place").filter(|place| place.is_object()) {
        line = format!(
            "{}:{}:{}: ",
            text(&place["file"]),
            place["line"],
            place["column"]
        );
    }
    if let Some(path) = problem["path"].as_str().filter(|path| !path.is_empty()) {
        line += &format!("{path}: ");
    }
    line += &text(&problem["reason"]);
    if let Some(remedy) = problem["remedy"].as_str() {
        line += &format!("; {remedy}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_problem_reads_as_in_check() {
        let place = json!({"file": "a.yaml", "line": 3, "column": 5});
        let problem = json!({"place": place, "path": "routes[0].to", "reason": "no Upstream `x`", "remedy": "add it"});
        assert_eq!(
            line(&problem),
            "a.yaml:3:5: routes[0].to: no Upstream `x`; add it"
        );
        assert_eq!(
            line(&json!({"place": null, "path": "", "reason": "empty", "remedy": null})),
            "empty"
        );
    }

    #[test]
    fn a_report_skips_what_is_empty() {
        assert_eq!(words(&json!(["web", "db"])), "web, db");
        assert_eq!(words(&json!([])), "");
        assert_eq!(words(&json!(3)), "3");
        assert_eq!(
            words(&json!({"opened": [], "closed": ["web"], "kept": ["db", "rtp"]})),
            "closed web; kept db, rtp"
        );
    }
}
