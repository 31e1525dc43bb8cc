//! `hermes refusals`: who was refused, when, and why.

use clap::Args;
use serde_json::Value;

use crate::admin::{self, Which};
use crate::columns::{Column, fit};
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes refusals`.
#[derive(Debug, Args)]
pub struct Refusals {
    /// Show those of this user only.
    #[arg(long)]
    user: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// Lists the refusals that a node remembers, the latest first.
///
/// # Errors
/// When the node cannot be reached.
pub async fn run(refusals: &Refusals, output: Output) -> Result<(), Failure> {
    let answer = admin::ask(&refusals.which.socket()?, "/refusals").await?;
    let list = answer["refusals"].as_array().map_or(&[][..], Vec::as_slice);
    let user = refusals.user.as_deref();
    let shown: Vec<&Value> = list
        .iter()
        .filter(|refusal| user.is_none_or(|user| refusal["user"] == user))
        .collect();

    if output.json {
        output.value(&serde_json::json!({ "refusals": shown }));
        return Ok(());
    }
    output.line(text(&shown, output.width()));
    Ok(())
}

/// The columns of [`row`].
const COLUMNS: [Column; 8] = [
    Column::text("time", 0),
    Column::text("user", 0),
    Column::text("target", 0),
    Column::text("reason", 0),
    Column::text("refusal", 1),
    Column::text("from", 2),
    Column::text("status", 3),
    Column::text("listener", 4),
];

fn text(refusals: &[&Value], width: Option<usize>) -> String {
    if refusals.is_empty() {
        return "no refusal is remembered".to_owned();
    }
    let rows: Vec<_> = refusals.iter().map(|refusal| row(refusal)).collect();
    let table = fit(&COLUMNS, &rows, width.unwrap_or(usize::MAX));
    let mut lines = table.lines;
    if !table.missing.is_empty() {
        lines.push(format!(
            "  a wider terminal and --json show also: {}",
            table.missing.join(", ")
        ));
    }
    lines.push("  explained by: hermes why REFUSAL".to_owned());
    lines.join("\n")
}

fn row(refusal: &Value) -> Vec<String> {
    let shown = |name: &str| match &refusal[name] {
        Value::String(text) if !text.is_empty() => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => "-".to_owned(),
    };
    let names = [
        "time", "user", "target", "reason", "refusal", "source", "status", "listener",
    ];
    names.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_is_one_row_and_none_is_said_in_words() {
        let refusal = json!({
            "time": "2026-01-01T10:00:00Z", "refusal": "abc", "source": "192.0.2.1:7", "user": "alice",
            "listener": "web", "target": "GET db:5432", "status": 403, "reason": "denied by routes[2]",
        });
        let shown = text(&[&refusal], None);
        assert!(
            shown.contains("alice") && shown.contains("denied by routes[2]"),
            "{shown}"
        );
        assert!(
            shown.contains("403") && shown.contains("hermes why"),
            "{shown}"
        );
        assert_eq!(text(&[], None), "no refusal is remembered");
    }
}
