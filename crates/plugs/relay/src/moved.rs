//! The last word to a subscriber whose channel goes on at another relay.

use std::sync::Arc;

use hermes_proto::relay::Position;

use crate::query;

/// The last word to a subscriber that goes on at another relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moved {
    /// The URI of the channel there.
    pub(crate) channel: Arc<str>,
    /// The subscription that waits for it there.
    pub(crate) subscription: Option<HeldSubscription>,
    /// Milliseconds after which a browser is to come again: not all at the same time.
    pub(crate) retry: u16,
}

/// A subscription that waits at another relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldSubscription {
    pub(crate) id: Arc<str>,
    /// The position behind which it goes on.
    pub(crate) at: Position,
}

impl Moved {
    /// The URI at which the subscriber goes on.
    pub(crate) fn uri(&self) -> String {
        match &self.subscription {
            Some(held) => query::of_subscription(&self.channel, &held.id),
            None => self.channel.to_string(),
        }
    }

    /// The name of the last event: a browser that repeats it goes on there.
    pub(crate) fn event_id(&self) -> Option<String> {
        let held = self.subscription.as_ref()?;
        Some(format!("{}.{}", held.at, held.id))
    }
}
