//! `hermes publish URL`: messages for a channel.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use hermes_proto::relay::fields::Publish as How;
use hermes_relay_client::{Delivered, Outgoing, Publisher};
use serde_json::json;

use super::address::{ChannelAddress, failure};
use crate::failure::Failure;
use crate::output::Output;

/// Bytes of a message that is read from a file or from standard input: relays take 16 MiB at most.
#[doc(alias = "bound")]
const MAX_MESSAGE: u64 = 16 << 20;

/// Arguments of `hermes publish`.
#[derive(Debug, Args)]
pub struct Publish {
    #[command(flatten)]
    address: ChannelAddress,
    /// The message. Without one, standard input is.
    #[arg(value_name = "MESSAGE", conflicts_with_all = ["file", "lines"])]
    message: Option<String>,
    /// A file that is the message.
    #[arg(long, value_name = "FILE", conflicts_with = "lines")]
    file: Option<PathBuf>,
    /// Each line of standard input is a message.
    #[arg(long)]
    lines: bool,
    /// Wait until each receiver has room, so that none loses it.
    #[arg(long)]
    reliable: bool,
    /// A later message of the same topic replaces this one where it still waits.
    #[arg(long)]
    topic: Option<String>,
    /// The media type of the message.
    #[arg(long = "type", value_name = "TYPE")]
    content_type: Option<String>,
}

/// Publishes, and says how many receivers there were.
///
/// # Errors
/// The relay is not there, or refuses.
pub async fn run(publish: &Publish, output: Output) -> Result<(), Failure> {
    let mut publisher = Publisher::new(publish.address.channel()?);
    if let Some(approval) = publish.address.approval()? {
        publisher.approve(&approval).await.map_err(failure)?;
        let senders = approval.keys.len() + approval.users.len();
        output.line(format_args!("approved senders: {senders}"));
        return Ok(());
    }
    if publish.lines {
        let (sender, mut lines) = tokio::sync::mpsc::channel(1);
        // Standard input blocks, and would hold up the connection.
        std::thread::spawn(move || {
            let mut all = io::stdin().lock().lines();
            while let Some(Ok(line)) = all.next() {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        while let Some(line) = lines.recv().await {
            one(publish, &mut publisher, line.into(), output).await?;
        }
        return Ok(());
    }
    let message = message(publish)?;
    one(publish, &mut publisher, message, output).await
}

fn message(publish: &Publish) -> Result<Bytes, Failure> {
    if let Some(message) = &publish.message {
        return Ok(message.clone().into());
    }
    let mut read = Vec::new();
    let mut take = |source: &mut dyn Read| source.take(MAX_MESSAGE + 1).read_to_end(&mut read);
    let (name, taken) = match &publish.file {
        Some(file) => {
            let opened = std::fs::File::open(file);
            let taken = opened.and_then(|mut opened| take(&mut opened));
            (file.display().to_string(), taken)
        }
        None => ("standard input".to_owned(), take(&mut io::stdin().lock())),
    };
    taken.map_err(|error| Failure::failed(format!("{name}: {error}")))?;
    if read.len() as u64 > MAX_MESSAGE {
        let reason = format!("{name}: longer than the {MAX_MESSAGE} bytes of a message");
        return Err(Failure::invalid(reason).remedy("publish it in pieces"));
    }
    Ok(read.into())
}

async fn one(
    publish: &Publish,
    publisher: &mut Publisher,
    message: Bytes,
    output: Output,
) -> Result<(), Failure> {
    let message = Outgoing {
        data: message,
        content_type: publish.content_type.clone(),
        how: How {
            is_reliable: publish.reliable,
            topic: publish.topic.clone(),
            ..How::default()
        },
        wait: None,
    };
    let delivered = publisher.publish(&message).await.map_err(failure)?;
    if output.json {
        output.value(&json!({
            "receivers": delivered.receivers,
            "enqueued": delivered.enqueued,
            "dropped": delivered.dropped,
            "exact": delivered.is_exact,
            "at": delivered.at.map(|at| at.to_string()),
        }));
    } else if delivered.dropped > 0 {
        let Delivered {
            receivers, dropped, ..
        } = delivered;
        output.line(format_args!(
            "receivers: {receivers}, lost for want of room: {dropped}"
        ));
    } else {
        output.line(format_args!("receivers: {}", delivered.receivers));
    }
    Ok(())
}
