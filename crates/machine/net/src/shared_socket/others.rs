//! Which of the processes that share a socket has the session that a datagram is of, where datagrams do not say so.
//!
//! A process that knows no such session asks the others:
//!
//! | received by | action |
//! |---|---|
//! | the newest process | gives it to the next older one, which takes it or returns it; when all have, begins a session |
//! | an older one | gives it to the newest, which asks the others, if there are any, and begins a session |

use std::collections::HashMap;
use std::future::{Future, pending, poll_fn};
use std::hash::Hash;
use std::io;

use super::{Arrived, ForwardKind, Forwarded, ProcessTag, ReceivedRun};
use super::{Rendezvous, Sibling, Siblings};

/// Sessions of which it is remembered which other process took a datagram last: some hundred kilobytes. With more, all are asked again.
#[doc(alias = "bound")]
const OWNERS: usize = 8192;

/// The other processes, for a protocol with sessions of key `K`. Sockets that only this process
/// opened have none.
#[derive(Debug)]
pub struct OtherProcesses<K> {
    siblings: Option<Siblings>,
    /// The process that was asked about a session last, and has not returned it. So a stalled
    /// process is not asked about the sessions of others.
    owners: HashMap<K, ProcessTag>,
    is_others_turn: bool,
}

/// The datagrams that came next.
#[derive(Debug)]
pub enum NextDatagrams<R> {
    /// Another process forwards them.
    Forwarded(Arrived),
    /// This one received them.
    Received(R),
}

impl<K: Eq + Hash> OtherProcesses<K> {
    /// The processes at a rendezvous.
    ///
    /// # Errors
    /// When the run time refuses the descriptors.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(rendezvous: Option<Rendezvous>) -> io::Result<Self> {
        Ok(Self {
            siblings: rendezvous.map(Siblings::new).transpose()?,
            owners: HashMap::new(),
            is_others_turn: false,
        })
    }

    /// Whether there is one.
    #[must_use]
    pub fn has_any(&self) -> bool {
        self.siblings
            .as_ref()
            .is_some_and(|siblings| !siblings.is_alone())
    }

    /// Whether there may be one, now or later.
    #[must_use]
    pub fn may_have_any(&self) -> bool {
        self.siblings.is_some()
    }

    /// As [`Siblings::take_newcomers`].
    pub fn take_newcomers(&mut self) -> bool {
        let siblings = self.siblings.as_mut();
        siblings.is_some_and(Siblings::take_newcomers)
    }

    /// Lets another process have the clients that come.
    pub fn drain(&mut self) {
        if let Some(siblings) = &mut self.siblings {
            siblings.drain();
        }
    }

    /// The next datagrams: received from the socket by `receive`, or forwarded by another process
    /// into `room`, by turns if there are both. Dropping the future loses none, if that is true of
    /// `receive`.
    pub async fn next_or<R>(
        &mut self,
        room: &mut Vec<u8>,
        receive: impl Future<Output = R>,
    ) -> NextDatagrams<R> {
        let siblings = &mut self.siblings;
        let forwarded = async {
            match siblings {
                Some(siblings) => poll_fn(|cx| siblings.poll_next(cx, room)).await,
                None => pending().await,
            }
        };

        let next = match self.is_others_turn {
            true => tokio::select! {
                biased;
                arrived = forwarded => NextDatagrams::Forwarded(arrived),
                received = receive => NextDatagrams::Received(received),
            },
            false => tokio::select! {
                biased;
                received = receive => NextDatagrams::Received(received),
                arrived = forwarded => NextDatagrams::Forwarded(arrived),
            },
        };
        self.is_others_turn = matches!(next, NextDatagrams::Received(_));
        next
    }

    /// Gives another process the datagrams of a session that this one does not have. False: it may begin one.
    pub fn give(&mut self, session: K, run: &ReceivedRun<'_>) -> bool {
        let Some(siblings) = &self.siblings else {
            return false;
        };
        let Some(newest) = siblings.newest() else {
            return self.ask(session, None, run);
        };

        // While this process still serves new clients, it does so if the newer one takes no more: that may stand still.
        let is_given = siblings.try_forward(newest, ForwardKind::Final, run);
        is_given || siblings.drains()
    }

    /// Gives datagrams of someone who is new to the process that takes those. False: that is this one, or it may be.
    pub fn give_newest(&self, run: &ReceivedRun<'_>) -> bool {
        let Some(siblings) = &self.siblings else {
            return false;
        };
        let newest = siblings.newest();
        newest.is_some_and(|newest| {
            siblings.try_forward(newest, ForwardKind::Final, run) || siblings.drains()
        })
    }

    /// Tells all of them who is where ([`ForwardKind::Whereabouts`]).
    pub fn tell(&self, run: &ReceivedRun<'_>) {
        if let Some(siblings) = &self.siblings {
            siblings.tell(run);
        }
    }

    /// Gives on forwarded datagrams of a session that this process does not have. False: it may begin one.
    pub fn give_on(&mut self, session: K, forwarded: &Forwarded<'_>) -> bool {
        let Some(siblings) = &self.siblings else {
            return false;
        };
        let Forwarded { kind, from, run } = forwarded;

        match kind {
            ForwardKind::IfKnown => {
                siblings.forward(*from, ForwardKind::Returned, run);
                true
            }
            ForwardKind::Returned => {
                self.owners.remove(&session);
                self.ask(session, Some(*from), run)
            }
            // The forwarding process does not know the session.
            ForwardKind::Final => {
                let is_senders = |owner: &ProcessTag| siblings.named(*owner) == Some(*from);
                if self.owners.get(&session).is_some_and(is_senders) {
                    self.owners.remove(&session);
                }
                self.ask_all_but(*from, session, run)
            }
            // Not a datagram.
            ForwardKind::Whereabouts => true,
        }
    }

    /// Asks the process that took datagrams of the session last, or the next older one. One that takes no more stands still, and its clients
    /// are not waited for.
    fn ask(&mut self, session: K, than: Option<Sibling>, run: &ReceivedRun<'_>) -> bool {
        let Some(siblings) = &self.siblings else {
            return false;
        };
        let known = self.owners.get(&session);
        let known = known.and_then(|owner| siblings.named(*owner));
        let Some(asked) = known.or_else(|| siblings.older(than)) else {
            return false;
        };
        self.ask_one(asked, session, run)
    }

    fn ask_all_but(&mut self, but: Sibling, session: K, run: &ReceivedRun<'_>) -> bool {
        let Some(siblings) = &self.siblings else {
            return false;
        };
        let known = self.owners.get(&session);
        let known = known.and_then(|owner| siblings.named(*owner));
        let next = || {
            let older = siblings.older(None)?;
            match older == but {
                true => siblings.older(Some(but)),
                false => Some(older),
            }
        };
        let Some(asked) = known.or_else(next) else {
            return false;
        };
        self.ask_one(asked, session, run)
    }

    fn ask_one(&mut self, asked: Sibling, session: K, run: &ReceivedRun<'_>) -> bool {
        let Some(siblings) = &self.siblings else {
            return false;
        };
        if !siblings.try_forward(asked, ForwardKind::IfKnown, run) {
            return false;
        }
        if self.owners.len() >= OWNERS {
            self.owners.clear();
        }
        if let Some(tag) = siblings.tag_of(asked) {
            self.owners.insert(session, tag);
        }
        true
    }
}
