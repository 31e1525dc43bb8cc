//! `hermes cache`: the stored responses of a running node.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use crate::admin::{self, Which};
use crate::columns::{Column, fit};
use crate::failure::Failure;
use crate::output::Output;
use crate::table;

/// Where the cache of a node answers.
const PATH: &str = "/plugs/cache";

/// Arguments of `hermes cache`.
#[derive(Debug, Args)]
pub struct CacheArguments {
    #[command(subcommand)]
    command: CacheCommand,
}

/// An operation on stored responses.
#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// List stored responses, the oldest first.
    Show(Show),
    /// Remove stored responses. Answers that were asked for before are not stored afterwards.
    Purge(Purge),
}

/// Arguments of `hermes cache show`.
#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    choice: Choice,
    /// How many are listed; all that are meant are counted.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    which: Which,
}

/// Arguments of `hermes cache purge`.
#[derive(Debug, Args)]
struct Purge {
    #[command(flatten)]
    choice: Choice,
    /// All of them.
    #[arg(long, conflicts_with_all = ["url", "prefix", "tag", "user"])]
    all: bool,
    #[command(flatten)]
    which: Which,
}

/// Which stored responses are meant: those for which all is true that is said.
#[derive(Debug, Args)]
struct Choice {
    /// Of this URL.
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Of URLs that begin so, such as http://host/folder/.
    #[arg(long, value_name = "URL")]
    prefix: Option<String>,
    /// With this tag, by `Cache-Tag` or `Surrogate-Key`.
    #[arg(long)]
    tag: Option<String>,
    /// Of this user alone.
    #[arg(long)]
    user: Option<String>,
}

impl Choice {
    fn question(&self) -> Value {
        let said = [
            ("url", &self.url),
            ("prefix", &self.prefix),
            ("tag", &self.tag),
            ("user", &self.user),
        ];
        let said = said.into_iter().filter_map(|(name, value)| {
            let value = value.as_ref()?;
            Some((name.to_owned(), Value::from(value.as_str())))
        });
        Value::Object(said.collect())
    }
}

/// Lists stored responses, or removes some.
///
/// # Errors
/// When the node cannot be reached, or a choice is none (exit code 2).
pub async fn run(arguments: &CacheArguments, output: Output) -> Result<(), Failure> {
    match &arguments.command {
        CacheCommand::Show(show) => {
            let choice = show.choice.question();
            let question = json!({ "show": { "choice": choice, "limit": show.limit } });
            let answer = ask(&show.which, &question).await?;
            if output.json {
                output.value(&answer);
            } else {
                output.line(text(&answer, output.width()));
            }
        }
        CacheCommand::Purge(purge) => {
            let choice = purge.choice.question();
            let question = json!({ "purge": { "choice": choice, "all": purge.all } });
            let answer = ask(&purge.which, &question).await?;
            if output.json {
                output.value(&answer);
            } else {
                output.line(format_args!("purged: {}", answer["purged"]));
            }
        }
    }
    Ok(())
}

async fn ask(which: &Which, question: &Value) -> Result<Value, Failure> {
    let socket = which.socket()?;
    let question = question.to_string();
    match admin::call(&socket, Method::POST, PATH, &question).await? {
        (200, answer) => Ok(answer),
        (422, answer) => {
            let reason = answer["error"].as_str().unwrap_or("the node refused");
            Err(Failure::invalid(reason.to_owned()))
        }
        (status, answer) => Err(Failure::failed(admin::refusal(PATH, status, &answer))),
    }
}

/// The columns of [`row`].
const COLUMNS: [Column; 7] = [
    Column::text("url", 0),
    Column::figure("status", 2),
    Column::figure("bytes", 0),
    Column::figure("age", 1),
    Column::figure("fresh for", 0),
    Column::text("user", 0),
    Column::text("tags", 3),
];

fn text(answer: &Value, width: Option<usize>) -> String {
    let list = answer["responses"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    if list.is_empty() {
        return "no response is stored".to_owned();
    }
    let rows: Vec<_> = list.iter().map(row).collect();
    let table = fit(&COLUMNS, &rows, width.unwrap_or(usize::MAX));
    let mut lines = table.lines;
    if !table.missing.is_empty() {
        lines.push(format!(
            "  a wider terminal and --json show also: {}",
            table.missing.join(", ")
        ));
    }
    let bytes = table::bytes(answer["bytes"].as_u64().unwrap_or(0));
    lines.push(format!("  {} in all, {bytes}", answer["matching"]));
    lines.join("\n")
}

fn row(response: &Value) -> Vec<String> {
    let number = |name: &str| response[name].as_i64();
    let seconds = |name: &str| number(name).map_or("-".to_owned(), |count| format!("{count} s"));
    let tags = response["tags"].as_array().into_iter().flatten();
    let tags: Vec<_> = tags.filter_map(Value::as_str).collect();
    vec![
        response["url"].as_str().unwrap_or("-").to_owned(),
        response["status"].to_string(),
        response["bytes"]
            .as_u64()
            .map_or("-".to_owned(), table::bytes),
        seconds("age"),
        seconds("ttl"),
        response["user"].as_str().unwrap_or("everyone").to_owned(),
        tags.join(" "),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_response_is_one_row_and_none_is_said_in_words() {
        let response = json!({
            "url": "http://origin.example:80/a", "status": 200, "bytes": 2048, "user": null, "owner": "user alice",
            "age": 3, "ttl": -2, "tags": ["news", "home"],
        });
        let shown = text(
            &json!({ "responses": [response], "matching": 7, "bytes": 4096 }),
            None,
        );
        for part in [
            "http://origin.example:80/a",
            "2.0 KiB",
            "-2 s",
            "everyone",
            "news home",
            "7 in all",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert_eq!(
            text(&json!({ "responses": [] }), None),
            "no response is stored"
        );
    }
}
