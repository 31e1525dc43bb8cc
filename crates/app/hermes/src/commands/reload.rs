//! `hermes reload`: the running node reads its file again.

use std::time::Duration;

use clap::Args;
use hermes_config::model;
use hermes_node::change::ReloadReport;
use hermes_observe::admin::confirm_time;
use http::Method;
use serde_json::{Value, json};

use crate::admin::{self, Which};
use crate::failure::Failure;
use crate::output::Output;

/// The part of a report that is printed in a line of its own.
const UNCONFIRMED: &str = "unconfirmed";

/// Arguments of `hermes reload`.
#[derive(Debug, Args)]
pub struct Reload {
    #[command(flatten)]
    which: Which,
    /// Return to the configuration before, unless `hermes confirm` comes within this time, such as 60s.
    #[arg(long, value_name = "TIME", value_parser = confirmed_within)]
    confirm: Option<Duration>,
}

/// Reads a time to confirm a configuration.
///
/// # Errors
/// When the text is not such a time.
pub fn confirmed_within(text: &str) -> Result<Duration, String> {
    confirm_time(text)
}

/// Asks for a reload, and prints the changes, or the problems of a file that is not taken.
///
/// # Errors
/// When the node cannot be reached, its file is not valid (exit code 2), or something cannot be bound (1).
pub async fn run(reload: &Reload, output: Output) -> Result<(), Failure> {
    let socket = reload.which.socket()?;
    let time = reload
        .confirm
        .map(|time| model::Duration(time).to_string())
        .unwrap_or_default();
    let (status, answer) = admin::call(&socket, Method::POST, "/reload", &time).await?;
    let is_settled = status == 200 && answer.get(UNCONFIRMED).is_none();
    let answer = ChangeAnswer {
        path: "/reload",
        subject: "file",
        status,
        body: answer,
    };
    answer.show(output)?;

    if reload.confirm.is_some() && is_settled && !output.json {
        output.line("nothing to confirm: the file has the confirmed configuration");
    }
    Ok(())
}

/// The node's answer to a change of its configuration.
pub struct ChangeAnswer {
    /// The path that was called.
    pub path: &'static str,
    /// The new configuration, as messages name it.
    pub subject: &'static str,
    /// The status of the answer.
    pub status: u16,
    /// A report, or the problems.
    pub body: Value,
}

impl ChangeAnswer {
    /// Prints the changes, or the reasons of a refusal.
    ///
    /// # Errors
    /// When the configuration is not valid (exit code 2), or it cannot be put in force (1).
    pub fn show(&self, output: Output) -> Result<(), Failure> {
        let Self { path, subject, .. } = self;
        if self.status == 200 {
            self.show_report(output);
            return Ok(());
        }

        let problems = self.body.get("problems").and_then(Value::as_array);
        let Some(problems) = problems.filter(|_| matches!(self.status, 409 | 422)) else {
            let refusal = admin::refusal(path, self.status, &self.body);
            return Err(Failure::failed(refusal));
        };

        // An address that cannot be bound now may be free a moment later, with the same file.
        let failure = match self.status {
            409 => Failure::failed(format!(
                "the {subject} is valid, but some of its addresses cannot be bound now"
            )),
            _ => Failure::invalid(format!("the {subject} is not valid")),
        };

        if output.json {
            output.value(&self.body);
            return Err(Failure::told(failure.code));
        }

        problems
            .iter()
            .for_each(|problem| output.line(line(problem)));
        Err(failure.remedy("the configuration in force stays"))
    }

    fn show_report(&self, output: Output) {
        if output.json {
            output.value(&self.body);
            return;
        }

        output.line(match self.path {
            "/reload" => "reloaded",
            _ => "rolled back",
        });
        let parts = self.body.as_object().into_iter().flatten();
        for (name, value) in parts.filter(|(name, _)| *name != UNCONFIRMED) {
            let words = words(value);
            if !words.is_empty() {
                output.line(format_args!("  {}: {words}", name.replace('_', " ")));
            }
        }

        if let Some(unconfirmed) = self.body.get(UNCONFIRMED) {
            output.line(format_args!("unconfirmed: {}", condition(unconfirmed)));
        }
    }
}

/// The fate of an unconfirmed configuration, in one line.
pub fn condition(unconfirmed: &Value) -> String {
    let left = unconfirmed["left_seconds"].as_u64().unwrap_or_default();
    let otherwise = match unconfirmed["returns_to"].as_u64() {
        Some(revision) => format!("back to revision {revision}"),
        None => "the node stops".to_owned(),
    };

    let line = format!("{left} s left, then {otherwise}; keep it: hermes confirm");
    match unconfirmed["warning"].as_str() {
        Some(warning) => format!("{line}; {warning}"),
        None => line,
    }
}

/// A report in one line.
pub fn summary(report: &ReloadReport) -> String {
    let parts = json!(report);
    let parts = parts
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != UNCONFIRMED)
        .map(|(name, value)| (name.replace('_', " "), words(value)));

    let said = parts
        .filter(|(_, words)| !words.is_empty())
        .map(|(name, words)| format!("{name}: {words}"));
    said.collect::<Vec<_>>()
        .join("; ")
        .replacen("revision: ", "revision ", 1)
}

/// A value of the report; empty for an empty one.
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
    fn a_condition_says_what_keeps_the_configuration() {
        let condition =
            |returns_to| condition(&json!({ "left_seconds": 43, "returns_to": returns_to }));
        assert_eq!(
            condition(Some(3)),
            "43 s left, then back to revision 3; keep it: hermes confirm"
        );
        assert_eq!(
            condition(None),
            "43 s left, then the node stops; keep it: hermes confirm"
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
