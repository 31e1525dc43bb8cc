//! Rendezvous: a node that knows which relay has a channel, and sends clients there, the handler `rendezvous`.
//!
//! Relays tell it by heartbeats that they are there. The way to a relay is a 307 with a grant, by which the relay knows that a
//! rendezvous chose it for the channel. All that it knows is soft: after a restart, it hears of its relays within a heartbeat. Where the node has a
//! controller, all rendezvous of the overlay agree there on the relay of each channel, and a restart forgets none.

mod handler;
mod heartbeats;
mod meeting;
mod settings;
mod table;

pub(crate) use handler::Rendezvous;
pub(crate) use heartbeats::send_heartbeats;
pub(crate) use meeting::Meeting;
