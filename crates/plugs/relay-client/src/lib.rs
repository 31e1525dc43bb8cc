//! A client of the relay (docs/relay.md): channels by their URL, messages that are published to them, and subscriptions that come again by
//! themselves when the way breaks off, and say which messages were lost.
//!
//! It speaks HTTP/1.1 without TLS: to a relay, or to a node beside it, which leads there over TLS. It is not a part of a node:
//! `hermes publish` and `hermes subscribe` stand on it, and so may other programs that run on Tokio.
//!
//! Specifications: the relay's own; RFC 9297 for capsules, RFC 9421 for signatures of channels that name a key.
//!
//! # Examples
//! ```no_run
//! use hermes_relay_client::{Channel, Event, Outgoing, Publisher, Subscription, Wish};
//!
//! # async fn chat() -> Result<(), hermes_relay_client::ClientError> {
//! let channel: Channel = "http://127.0.0.1:8080/c/chat".parse()?;
//! let mut subscription = Subscription::new(channel.clone(), Wish::default());
//! let mut publisher = Publisher::new(channel);
//! let delivered = publisher.publish(&Outgoing::new("hi")).await?;
//! println!("receivers: {}", delivered.receivers);
//! while let Some(event) = subscription.next().await? {
//!     match event {
//!         Event::Message(message) => println!("{:?}", message.data),
//!         // One that is too long for the relay to keep comes in pieces.
//!         Event::Begun(first) => println!("{} bytes, and more", first.data.len()),
//!         Event::Piece { data, .. } => println!("{} bytes", data.len()),
//!         Event::Lost(loss) => println!("{} lost: {}", loss.count, loss.reason),
//!         Event::Opened { .. } | Event::Away(_) | Event::Ended { .. } => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Begin reading in [`Channel`]. [`Multipath`] is a subscription by several ways at once.

mod channel;
mod connection;
mod error;
mod event;
mod multipath;
mod publisher;
mod receiving;
mod seal;
mod signing;
mod subscription;
mod ways;

pub use channel::Channel;
pub use error::ClientError;
pub use event::{Event, Loss, Received};
pub use hermes_proto::relay::fields::Delivered;
pub use hermes_proto::relay::{End, Position};
pub use multipath::Multipath;
pub use publisher::{Outgoing, Publisher};
pub use subscription::{Subscription, Wish};
