//! The ways to a channel: the one that is taken, and those to take when it breaks off.

use std::collections::VecDeque;

use hermes_proto::relay::Stripe;

use crate::channel::Channel;

/// The ways of one subscription.
#[derive(Debug)]
pub(crate) struct Ways {
    /// The one that is taken.
    pub(crate) channel: Channel,
    /// The messages that are to come by them: all, or a share.
    pub(crate) share: Option<Stripe>,
    others: VecDeque<Channel>,
    /// Of the others, those that were not tried at the first attempt.
    untried: usize,
}

impl Ways {
    /// The only one.
    pub(crate) fn one(channel: Channel) -> Self {
        Self {
            channel,
            share: None,
            others: VecDeque::new(),
            untried: 0,
        }
    }

    /// For a share of the messages: the first of these, of which there is one at least, and then the others in turn.
    pub(crate) fn of_share(mut channels: Vec<Channel>, share: Stripe) -> Self {
        let others = channels.split_off(1);
        Self {
            channel: channels.remove(0),
            share: Some(share),
            untried: others.len(),
            others: others.into(),
        }
    }

    /// Whether another way is to be tried before the first attempt has failed.
    pub(crate) fn has_untried(&mut self) -> bool {
        let has_some = self.untried > 0;
        self.untried = self.untried.saturating_sub(1);
        has_some
    }

    /// Takes the next way, where there is one; returns the one before.
    pub(crate) fn change(&mut self) -> Option<Channel> {
        let next = self.others.pop_front()?;
        let before = std::mem::replace(&mut self.channel, next);
        self.others.push_back(before.clone());
        Some(before)
    }
}
