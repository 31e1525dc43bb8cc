//! `hermes subscribe URL`: the messages of a channel, until it ends or is stopped.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use hermes_relay_client::{Event, Loss, Received, Subscription, Wish};
use serde_json::json;

use super::address::{ChannelAddress, failure};
use crate::failure::Failure;
use crate::output::{Output, note};

/// Arguments of `hermes subscribe`.
#[derive(Debug, Args)]
pub struct Subscribe {
    #[command(flatten)]
    address: ChannelAddress,
    /// Seconds that the subscription is to last; as the relay likes if absent.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// End after so many messages.
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
}

/// Prints messages as lines, or with `--json` as objects.
///
/// # Errors
/// The relay refuses, or is not there at the first attempt.
pub async fn run(subscribe: &Subscribe, output: Output) -> Result<(), Failure> {
    let wish = Wish {
        timeout: subscribe.timeout,
        from: None,
        approve: subscribe.address.approval()?,
    };
    let mut subscription = Subscription::new(subscribe.address.channel()?, wish);
    let mut received = 0;
    while let Some(event) = subscription.next().await.map_err(failure)? {
        match event {
            Event::Opened { .. } => {}
            Event::Message(message) => {
                show(&message, output);
                received += 1;
            }
            Event::Begun(message) => show_begin(&message, output),
            Event::Piece { data, is_last } => {
                show_piece(&data, is_last, output);
                received += u64::from(is_last);
            }
            Event::Lost(loss) => {
                lost(&loss, output);
                // They came, and count as messages.
                if matches!(loss.reason, "unreadable" | "unproved") {
                    received += 1;
                }
            }
            Event::Away(reason) => {
                let reason = crate::output::safe(&reason);
                note(format_args!("{reason}; comes again"));
            }
            Event::Ended { reason, text } => {
                let text = crate::output::safe(&text);
                note(format_args!("end: {} {text}", reason.word()));
            }
        }
        if subscribe.count == Some(received) {
            return Ok(());
        }
    }
    Ok(())
}

fn show(message: &Received, output: Output) {
    let text = String::from_utf8_lossy(&message.data);
    if output.json {
        // One line each: the reader takes them one by one.
        let mut line = json!({
            "seq": message.at.sequence,
            "type": message.content_type,
            "topic": message.topic,
            "data": text,
        });
        if let Some(sender) = &message.sender {
            line["sender"] = sender.to_string().into();
        }
        output.line(line);
        return;
    }
    // A program that reads gets the bytes as they are; a terminal no sequences that others chose.
    if output.width().is_some() {
        output.line(crate::output::safe(&text));
    } else {
        let mut out = std::io::stdout().lock();
        let line: &[u8] = if message.data.ends_with(b"\n") {
            b""
        } else {
            b"\n"
        };
        drop(
            out.write_all(&message.data)
                .and_then(|()| out.write_all(line)),
        );
        drop(out.flush());
    }
}

/// The first piece of a long message; `more` says that another line goes on with it.
fn show_begin(message: &Received, output: Output) {
    if output.json {
        output.line(json!({
            "seq": message.at.sequence,
            "type": message.content_type,
            "topic": message.topic,
            "base64": STANDARD.encode(&message.data),
            "more": true,
        }));
        return;
    }
    show_bytes(&message.data, output);
}

fn show_piece(data: &[u8], is_last: bool, output: Output) {
    if output.json {
        output.line(json!({ "base64": STANDARD.encode(data), "more": !is_last }));
        return;
    }
    show_bytes(data, output);
    if is_last && output.width().is_some() {
        output.line("");
    }
}

/// A piece is no line: nothing is added to it, so that a file arrives as it is.
fn show_bytes(data: &[u8], output: Output) {
    let mut out = std::io::stdout().lock();
    let written = match output.width() {
        Some(_) => {
            let text = String::from_utf8_lossy(data);
            out.write_all(crate::output::safe(&text).as_bytes())
        }
        None => out.write_all(data),
    };
    drop(written);
    drop(out.flush());
}

/// Says how many messages are lost; 0 if no one knows.
fn lost(loss: &Loss, output: Output) {
    let Loss {
        count,
        reason,
        details,
    } = loss;
    if output.json {
        let mut line = json!({ "gap": count, "reason": reason });
        if let Some(details) = details {
            line["details"] = details.as_str().into();
        }
        output.line(line);
        return;
    }
    let details = details.as_deref().map(crate::output::safe);
    let details = details.map_or_else(String::new, |details| format!(" ({details})"));
    match count {
        0 => note(format_args!("messages lost: {reason}{details}")),
        _ => note(format_args!("{count} messages lost: {reason}{details}")),
    }
}
