//! `hermes exchanges`: what a running node carries, live.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::admin::{self, Which};
use crate::failure::Failure;
use crate::output::Output;
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
            output.line(text(&answer))
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
            Ok(answer) => output.raw(&format!("{HOME}{}\n\nCtrl-C ends this view.\n", text(&answer))),
            Err(failure) => return failure,
        }
    }
}

/// The live exchanges of an answer.
pub fn list(answer: &Value) -> &[Value] {
    let list = answer.get("exchanges").unwrap_or(answer);
    list.as_array().map_or(&[], Vec::as_slice)
}

fn text(answer: &Value) -> String {
    let list = list(answer);
    if list.is_empty() {
        return "no exchange is live".to_owned();
    }
    let mut table = table::plain(&["what", "target", "user", "from", "listener", "route", "to", "in", "out", "age"]);
    table.add_rows(list.iter().map(row));
    table.trim_fmt()
}

fn row(exchange: &Value) -> Vec<String> {
    let text = |name: &str| exchange[name].as_str().filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
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
            "client_to_target": 12, "target_to_client": 2048, "age_ms": 65_000,
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
            "1m 05s",
        ];
        assert_eq!(row, expected);
    }

    #[test]
    fn no_exchange_is_said_in_words() {
        assert_eq!(text(&json!({"exchanges": []})), "no exchange is live");
    }
}
