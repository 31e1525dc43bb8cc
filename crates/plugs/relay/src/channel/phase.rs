//! Whether a channel is here, or on its way to another relay.

/// Where a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Here.
    Here,
    /// Here, but without messages for a moment: another relay is asked to take it over.
    Stopped,
    /// At another relay.
    Gone,
}

impl Phase {
    /// Whether it takes messages.
    pub(super) fn takes_messages(self) -> Result<(), Unpublished> {
        match self {
            Self::Here => Ok(()),
            Self::Stopped => Err(Unpublished::Stopped),
            Self::Gone => Err(Unpublished::Gone),
        }
    }
}

/// Some subscription has no room, and the message must not be lost for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoRoom {
    /// Subscriptions.
    pub(crate) receivers: u64,
}

/// Why a message was not published here.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unpublished {
    /// Some have no room for it.
    NoRoom(NoRoom),
    /// The channel takes none for a moment.
    Stopped,
    /// It goes on at another relay.
    Gone,
    /// A long message is under way.
    Passing,
}
