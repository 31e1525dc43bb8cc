//! The other processes that have the socket of a `udp` listener, and which of them has the session of a client.
//!
//! A datagram does not say whose session it is of, so a process that knows no session of its client asks the others:
//!
//! | received by | action |
//! |---|---|
//! | the newest process | gives it to the next older one, which takes it or returns it; when all have, begins a session |
//! | an older one | gives it to the newest, which asks the others, if there are any, and begins a session |

use std::future::{pending, poll_fn};
use std::io;

use hermes_net::shared_socket::{
    Arrived, ForwardKind, Forwarded, ReceivedRun, Rendezvous, Sibling, Siblings,
};

/// The other processes; none has a socket that this one opened.
pub(super) struct OtherProcesses(Option<Siblings>);

impl OtherProcesses {
    pub(super) fn new(rendezvous: Option<Rendezvous>) -> io::Result<Self> {
        Ok(Self(rendezvous.map(Siblings::new).transpose()?))
    }

    /// Whether there is one.
    pub(super) fn has_any(&self) -> bool {
        self.0.as_ref().is_some_and(|others| !others.is_alone())
    }

    /// Lets another process have the clients that come.
    pub(super) fn drain(&mut self) {
        if let Some(others) = &mut self.0 {
            others.drain();
        }
    }

    /// The next datagrams that another process forwards, put into `room`. Dropping the future loses none.
    pub(super) async fn next(&mut self, room: &mut Vec<u8>) -> Arrived {
        match &mut self.0 {
            Some(others) => poll_fn(|cx| others.poll_next(cx, room)).await,
            None => pending().await,
        }
    }

    /// Gives another process the datagrams of a client that this one has no session of. False: it may begin one.
    pub(super) fn give(&self, run: &ReceivedRun<'_>) -> bool {
        let Some(others) = &self.0 else { return false };
        let Some(newest) = others.newest() else {
            return ask(others, others.older(None), run);
        };

        // While this process still serves new clients, it does so if the newer one takes no more: that may stand still.
        let is_given = others.try_forward(newest, ForwardKind::Final, run);
        is_given || others.drains()
    }

    /// Gives on forwarded datagrams of a client that this one has no session of. False: it may begin one.
    pub(super) fn give_on(&self, forwarded: &Forwarded<'_>) -> bool {
        let Some(others) = &self.0 else { return false };
        let Forwarded { kind, from, run } = forwarded;

        match kind {
            ForwardKind::IfKnown => {
                others.forward(*from, ForwardKind::Returned, run);
                true
            }
            ForwardKind::Returned => ask(others, others.older(Some(*from)), run),
            // Who forwarded it does not know the client.
            ForwardKind::Final => {
                let older = others.older(None).filter(|older| older != from);
                ask(others, older, run)
            }
        }
    }
}

/// Gives datagrams to an older process that may know their client. One that takes no more stands still, and its clients are not waited for.
fn ask(others: &Siblings, older: Option<Sibling>, run: &ReceivedRun<'_>) -> bool {
    older.is_some_and(|older| others.try_forward(older, ForwardKind::IfKnown, run))
}
