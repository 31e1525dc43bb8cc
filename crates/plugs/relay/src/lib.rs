//! The relay: publish and subscribe over HTTP, the handler `relay`.
//!
//! A GET subscribes to the channel of its URI, and is answered by one content without end, in the form that it accepts. A POST
//! publishes its content to all who subscribe at that time, and is answered with their number. Nothing is stored: a message
//! waits in the queues of its receivers, within bounds, and a receiver that misses one is told so.
//!
//! The protocol is in docs/relay.md, its messages in [`hermes_proto::relay`]. The idea is HTTP-RS, "HTTP as a narrow waist".
//!
//! From the top down: `handler` reads requests, `publish` and `stream` carry them out, `space` knows all channels and subscriptions, a
//! `channel` numbers messages, a `share` has the subscriptions of one worker, whose `queue` is a machine without input or output.

mod account;
mod aggregate;
mod certified;
mod channel;
mod form;
mod handler;
mod message;
mod moved;
mod moves;
mod plug;
mod publish;
mod query;
mod queue;
mod rendezvous;
mod settings;
mod share;
#[cfg(test)]
mod soak;
mod space;
mod stream;
mod subscription;

pub use plug::register;
