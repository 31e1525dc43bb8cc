//! The sessions of a peer: the current one, the previous one, whose messages may still come, and
//! one that the peer has not used yet.

use std::time::Instant;

use crate::transport::Transport;

/// Up to three sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    previous: Option<Transport>,
    current: Option<Transport>,
    /// The session of a handshake that this end answered, until the first message under it proves that the peer has the keys.
    next: Option<Transport>,
}

/// Indices that no session has any more.
pub(crate) type Retired = [Option<u32>; 2];

impl Sessions {
    /// The keys to send with now.
    pub(crate) fn usable(&mut self, now: Instant) -> Option<&mut Transport> {
        self.current.as_mut().filter(|one| one.may_send(now))
    }

    /// The session with this local index.
    pub(crate) fn of_index(&mut self, local: u32) -> Option<&mut Transport> {
        let all = [&mut self.current, &mut self.previous, &mut self.next];
        all.into_iter()
            .flatten()
            .find(|session| session.local == local)
    }

    /// A handshake that this end began has ended: its keys are used from now on.
    pub(crate) fn began(&mut self, session: Transport) -> Retired {
        let next = self.next.take();
        let current = self.current.replace(session);
        let (kept, left) = match next {
            // The peer may be sending under it already, although nothing has arrived yet.
            Some(next) => (Some(next), current),
            None => (current, None),
        };
        let previous = std::mem::replace(&mut self.previous, kept);
        [index(&left), index(&previous)]
    }

    /// A handshake that the peer began was answered.
    pub(crate) fn answered(&mut self, session: Transport) -> Retired {
        let before = self.next.replace(session);
        [index(&before), None]
    }

    /// The peer has used a session: if this end answered it, it becomes the current one. Returns
    /// whether it did, and the retired sessions.
    pub(crate) fn used(&mut self, local: u32) -> (bool, Retired) {
        let is_next = self.next.as_ref().is_some_and(|next| next.local == local);
        if !is_next {
            return (false, Retired::default());
        }
        let current = std::mem::replace(&mut self.current, self.next.take());
        let previous = std::mem::replace(&mut self.previous, current);
        (true, [index(&previous), None])
    }

    /// The one that is used.
    pub(crate) fn current(&self) -> Option<&Transport> {
        self.current.as_ref()
    }

    /// All indices; the sessions are over.
    pub(crate) fn clear(&mut self) -> Vec<u32> {
        let all = std::mem::take(self);
        let all = [all.previous, all.current, all.next];
        all.iter().filter_map(index).collect()
    }
}

fn index(session: &Option<Transport>) -> Option<u32> {
    session.as_ref().map(|session| session.local)
}
