//! A chat of one: subscribes to a channel, publishes to it, and prints the messages.

#![allow(clippy::print_stdout, reason = "it talks to a person")]

use hermes_relay_client::{Channel, ClientError, Event, Outgoing, Publisher, Subscription, Wish};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ClientError> {
    let url = std::env::args().nth(1).unwrap_or_default();
    chat(&url, |line| println!("{line}")).await
}

/// Chats until the first message has come.
pub async fn chat(url: &str, mut say: impl FnMut(String)) -> Result<(), ClientError> {
    let channel: Channel = url.parse()?;
    let mut publisher = Publisher::new(channel.clone());
    let mut subscription = Subscription::new(channel, Wish::default());

    while let Some(event) = subscription.next().await? {
        match event {
            // Only now the relay listens for this program.
            Event::Opened { at, .. } => {
                let message = Outgoing::new("hello").reliable().of_type("text/plain");
                let delivered = publisher.publish(&message).await?;
                say(format!(
                    "opened at {at}, receivers: {}",
                    delivered.receivers
                ));
            }
            Event::Message(message) => {
                let text = String::from_utf8_lossy(&message.data);
                say(format!("{}: {text}", message.at));
                return Ok(());
            }
            // One that is too long for the relay to keep comes in pieces.
            Event::Begun(first) => say(format!(
                "{}: {} bytes, and more",
                first.at,
                first.data.len()
            )),
            Event::Piece { data, .. } => say(format!("{} bytes", data.len())),
            Event::Lost(loss) => say(format!("{} lost: {}", loss.count, loss.reason)),
            Event::Away(reason) => say(format!("{reason}; comes again")),
            Event::Ended { reason, text } => say(format!("end: {} {text}", reason.word())),
        }
    }
    Ok(())
}
