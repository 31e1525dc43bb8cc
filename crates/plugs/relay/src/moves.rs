//! Migration: the channels of this relay go on at another one, its successor, and no subscriber misses a message.
//!
//! 1. The channel takes no message for a moment: its publishers wait.
//! 2. The successor begins the channel at the same number, and holds a subscription for each subscriber, whose queue fills from there on.
//! 3. Each subscriber is told the name of its own, behind the last message from here. Publishers go on: their messages are sent there.
//!
//! If the successor refuses, the channel goes on here, and it is tried again.

mod grant;
mod hold;
mod membership;
mod moves_of_node;
mod moving;
mod settings;

pub(crate) use grant::{Grant, GrantKey};
pub(crate) use hold::{HOLDS, forward};
pub(crate) use membership::{GrantCheck, Membership, heartbeat, is_heartbeat, make_grant};
pub(crate) use moves_of_node::Moves;
pub(crate) use moving::Stopped;
pub(crate) use settings::MoveSettings;

/// Another relay that takes over the channels of this one.
pub(crate) struct Successor {
    /// Its host and port, as requests name it.
    pub(crate) authority: String,
    /// By which it knows that this relay may ask.
    pub(crate) key: GrantKey,
    /// Whether it takes over now, and not only when this node stops.
    pub(crate) is_now: bool,
}

impl Successor {
    /// The URI of a channel there.
    pub(crate) fn uri(&self, channel: &str) -> String {
        format!("http://{}{channel}", self.authority)
    }
}
