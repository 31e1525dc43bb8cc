//! `hermes exchanges`: what a running node carries, live.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::admin::{self, Which};
use crate::columns::{Column, fit};
use crate::failure::Failure;
use crate::output::{Output, terminal_size};
use crate::table;

/// How often the live table is drawn again.
const REFRESH: Duration = Duration::from_secs(1);

/// Another screen of the terminal, so that what stood there comes back; and its end.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
/// Back to the top left corner; everything below the cursor is cleared.
const HOME: &str = "\x1b[H\x1b[J";

/// Arguments of `hermes exchanges`.
#[derive(Debug, Args)]
pub struct Exchanges {
    /// Show them once, as it is done where the output is no terminal.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    which: Which,
}

/// Shows the exchanges once, or every second until Ctrl-C.
///
/// # Errors
/// When the node cannot be reached, or no longer.
pub async fn run(exchanges: &Exchanges, output: Output) -> Result<(), Failure> {
    let socket = exchanges.which.socket()?;
    if exchanges.once || output.json || !output.terminal {
        let answer = admin::ask(&socket, "/exchanges").await?;
        if output.json {
            output.value(&answer)
        } else {
            output.line(text(&answer, output.width(), None))
        }
        return Ok(());
    }

    output.raw(ENTER);
    let ended = tokio::select! {
        failure = draw(&socket, output) => Err(failure),
        _ = tokio::signal::ctrl_c() => Ok(()),
    };

    output.raw(LEAVE);
    ended
}

/// Draws until the node no longer answers.
async fn draw(socket: &Path, output: Output) -> Failure {
    let mut ticks = tokio::time::interval(REFRESH);
    loop {
        ticks.tick().await;
        match admin::ask(socket, "/exchanges").await {
            Ok(answer) => {
                let (width, height) = terminal_size();
                // Four lines besides the header: exchanges without room, exchanges left out, an empty one and the last.
                let text = text(&answer, Some(width), Some(height.saturating_sub(5).max(1)));
                output.raw(&format!("{HOME}{text}\n\nCtrl-C ends this view."));
            }
            Err(failure) => return failure,
        }
    }
}

/// The live exchanges of an answer.
pub fn list(answer: &Value) -> &[Value] {
    let list = answer.get("exchanges").unwrap_or(answer);
    list.as_array().map_or(&[], Vec::as_slice)
}

/// The columns of [`row`].
const COLUMNS: [Column; 11] = [
    Column::text("what", 0),
    Column::text("target", 0),
    Column::text("user", 0),
    Column::text("from", 3),
    Column::text("listener", 5),
    Column::text("route", 4),
    Column::text("to", 2),
    Column::figure("in", 0),
    Column::figure("out", 0),
    Column::figure("drops", 0),
    Column::figure("age", 0),
];

/// As a table that fits the width, of at most this many exchanges.
fn text(answer: &Value, width: Option<usize>, most: Option<usize>) -> String {
    let list = list(answer);
    if list.is_empty() {
        return "no exchange is live".to_owned();
    }

    let shown = &list[..list.len().min(most.unwrap_or(usize::MAX))];
    let table = fit(
        &COLUMNS,
        &shown.iter().map(row).collect::<Vec<_>>(),
        width.unwrap_or(usize::MAX),
    );
    let mut lines = table.lines;

    // A view that is drawn again and again has no room for them.
    for exchange in shown.iter().filter(|_| most.is_none()) {
        if let (Some(target), Some(waits)) =
            (exchange["target"].as_str(), exchange["waits"].as_str())
        {
            lines.push(format!("  {target} waits for {waits}"));
        }
    }
    if list.len() > shown.len() {
        lines.push(format!("  and {} more", list.len() - shown.len()));
    }
    if !table.missing.is_empty() {
        lines.push(format!(
            "  a wider terminal and --json show also: {}",
            table.missing.join(", ")
        ));
    }

    lines.join("\n")
}

fn row(exchange: &Value) -> Vec<String> {
    let text = |name: &str| {
        exchange[name]
            .as_str()
            .filter(|text| !text.is_empty())
            .unwrap_or("-")
            .to_owned()
    };

    let count = |name: &str| exchange[name].as_u64().unwrap_or(0);
    let to = match (exchange["upstream"].as_str(), exchange["endpoint"].as_str()) {
        (Some(name), Some(endpoint)) => format!("{name} {endpoint}"),
        (name, endpoint) => name.or(endpoint).unwrap_or("-").to_owned(),
    };

    vec![
        format!("{} {}", text("kind"), text("protocol")),
        text("target"),
        text("user"),
        text("source"),
        text("listener"),
        text("route"),
        to,
        table::bytes(count("client_to_target")),
        table::bytes(count("target_to_client")),
        match count("dropped") {
            0 => table::NOTHING.to_owned(),
            count => count.to_string(),
        },
        table::age(Duration::from_millis(count("age_ms"))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_exchange_is_one_row() {
        let exchange = json!({
            "kind": "connect", "protocol": "h2", "target": "DB:5432", "user": "alice", "source": "127.0.0.1:4",
            "listener": "overlay", "route": null, "upstream": "core", "endpoint": "127.0.0.1:5",
            "client_to_target": 12, "target_to_client": 2048, "dropped": 7, "age_ms": 65_000,
        });
        let row = row(&exchange);
        let expected = [
            "connect h2",
            "DB:5432",
            "alice",
            "127.0.0.1:4",
            "overlay",
            "-",
            "core 127.0.0.1:5",
            "12 B",
            "2.0 KiB",
            "7",
            "1m 05s",
        ];
        assert_eq!(row, expected);
    }

    #[test]
    fn no_exchange_is_said_in_words() {
        assert_eq!(
            text(&json!({"exchanges": []}), None, None),
            "no exchange is live"
        );
    }

    #[test]
    fn a_terminal_of_eighty_columns_shows_what_matters_most() {
        let exchange = json!({
            "kind": "connect-udp", "protocol": "h2", "target": "VOICE.example.org:5004", "user": "alice",
            "source": "127.0.0.1:40404", "listener": "overlay", "route": "voices", "upstream": "core",
            "endpoint": "127.0.0.1:5", "client_to_target": 12, "target_to_client": 2048, "dropped": 12_345, "age_ms": 65_000,
        });
        let text = text(
            &json!({"exchanges": [exchange, exchange, exchange]}),
            Some(80),
            Some(2),
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(
            lines[1].contains("VOICE.example.org:5004") && lines[1].contains("12345"),
            "{text}"
        );
        assert_eq!(lines[3], "  and 1 more");
        assert!(
            lines[4].ends_with("show also: from, listener, route, to"),
            "{text}"
        );
    }
}
