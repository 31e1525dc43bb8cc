//! A chat of one: subscribes to a channel, publishes to it, and prints the messages.

#![allow(clippy::print_stdout, reason = "it talks to a person")]

use hermes_relay_client::{Channel, ClientError, Event, Outgoing, Publisher, Subscription, Wish};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ClientError> {
    let url = std::env::args().nth(1).unwrap_or_default();
    let channel: Channel = url.parse()?;
    let mut publisher = Publisher::new(channel.clone());
    let mut subscription = Subscription::new(channel, Wish::default());

    while let Some(event) = subscription.next().await? {
        match event {
            // Only now the relay listens for this program.
            Event::Opened { at, .. } => {
                let message = Outgoing::new("hello").reliable().of_type("text/plain");
                let delivered = publisher.publish(&message).await?;
                println!("opened at {at}, receivers: {}", delivered.receivers);
            }
            Event::Message(message) => {
                println!("{}: {}", message.at, String::from_utf8_lossy(&message.data));
                return Ok(());
            }
            // One that is too long for the relay to keep comes in pieces.
            Event::Begun(first) => println!("{}: {} bytes, and more", first.at, first.data.len()),
            Event::Piece { data, .. } => println!("{} bytes", data.len()),
            Event::Lost(loss) => println!("{} lost: {}", loss.count, loss.reason),
            Event::Away(reason) => println!("{reason}; comes again"),
            Event::Ended { reason, text } => println!("end: {} {text}", reason.word()),
        }
    }
    Ok(())
}
