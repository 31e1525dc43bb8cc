//! The other processes that have the same socket, and their messages.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, recv, send, sendmsg};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::message::{self, ForwardKind, HEADER, ReceivedRun, SiblingMessage};
use super::process::{ProcessId, ProcessTag};
use super::rendezvous::{PROCESSES, Rendezvous, enlarge};
use super::{DROPPED, FORWARDED};
use crate::os;

/// Bytes of a message: the datagrams that the kernel merges at most, and their header.
const MESSAGE: usize = HEADER + 65_535;

/// Connections that are taken in a row.
#[doc(alias = "bound")]
const ACCEPTED: usize = 64;

/// The other processes.
#[derive(Debug)]
pub struct Siblings {
    own: ProcessId,
    drains: bool,
    listener: UnixDatagram,
    peers: Vec<Peer>,
    /// Connections of our user that have not said yet who they are.
    callers: Vec<Caller>,
    /// A peer has come since [`Self::take_newcomers`] was called.
    has_newcomers: bool,
    /// The number of the peer that is heard next.
    turn: usize,
}

/// Another process; valid until [`Siblings::poll_next`] is called again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sibling(usize);

/// Datagrams that another process received.
#[derive(Debug)]
pub struct Forwarded<'a> {
    /// Their purpose.
    pub kind: ForwardKind,
    /// The forwarding process.
    pub from: Sibling,
    /// The datagrams.
    pub run: ReceivedRun<'a>,
}

#[derive(Debug)]
struct Peer {
    id: ProcessId,
    pid: i32,
    connection: UnixDatagram,
    drains: bool,
    /// It has yet to be told that we drain.
    is_untold: bool,
}

#[derive(Debug)]
struct Caller {
    pid: i32,
    connection: UnixDatagram,
}

/// Datagrams that another process forwarded, in the room that they were put into.
#[derive(Debug, Clone, Copy)]
pub struct Arrived {
    from: Sibling,
    /// Bytes of their message.
    length: usize,
}

impl Arrived {
    /// Reads them; `None` if the room has something else by now.
    #[must_use]
    pub fn decode(self, room: &[u8]) -> Option<Forwarded<'_>> {
        match message::decode(room.get(..self.length)?) {
            Some(SiblingMessage::Datagrams { kind, run }) => Some(Forwarded {
                kind,
                from: self.from,
                run,
            }),
            _ => None,
        }
    }
}

/// The result of reading a peer's messages.
enum Heard {
    Datagrams(usize),
    Other,
    Gone,
}

impl Siblings {
    /// The processes found at a rendezvous, now and later.
    ///
    /// # Errors
    /// When the run time refuses the descriptors.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(rendezvous: Rendezvous) -> io::Result<Self> {
        let mut peers = Vec::new();
        for found in rendezvous.found {
            peers.push(Peer {
                id: found.id,
                pid: found.pid,
                connection: registered(found.connection)?,
                drains: false,
                is_untold: false,
            });
        }

        Ok(Self {
            own: rendezvous.own,
            drains: false,
            listener: registered(rendezvous.listener)?,
            has_newcomers: !peers.is_empty(),
            peers,
            callers: Vec::new(),
            turn: 0,
        })
    }

    /// The bytes that name this process in connection IDs.
    #[must_use]
    pub fn tag(&self) -> ProcessTag {
        self.own.tag
    }

    /// Whether no other process has the socket, as far as is known.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.peers.is_empty()
    }

    /// The process of a tag.
    #[must_use]
    pub fn named(&self, tag: ProcessTag) -> Option<Sibling> {
        let found = self.peers.iter().position(|peer| peer.id.tag == tag);
        found.map(Sibling)
    }

    /// The bytes that name another process.
    #[must_use]
    pub fn tag_of(&self, sibling: Sibling) -> Option<ProcessTag> {
        self.peers.get(sibling.0).map(|peer| peer.id.tag)
    }

    /// The number of another process.
    #[must_use]
    pub fn process(&self, sibling: Sibling) -> Option<i32> {
        self.peers.get(sibling.0).map(|peer| peer.pid)
    }

    /// How many other processes there are, as far as is known.
    #[must_use]
    pub fn count(&self) -> usize {
        self.peers.len()
    }

    /// Tells all of them who is where ([`ForwardKind::Whereabouts`]); false if one takes nothing of it now.
    pub fn tell(&self, run: &ReceivedRun<'_>) -> bool {
        let mut is_told = true;
        for peer in &self.peers {
            // No short circuit: one full socket must not keep the news from the others.
            is_told &= peer.send(ForwardKind::Whereabouts, run);
        }
        is_told
    }

    /// The process that serves new clients: the newest that does not drain. `None` if it is this one, or all drain.
    #[must_use]
    pub fn newest(&self) -> Option<Sibling> {
        let ready = self
            .peers
            .iter()
            .enumerate()
            .filter(|(_, peer)| !peer.drains);
        let (number, newest) = ready.max_by_key(|(_, peer)| peer.id)?;
        (self.drains || newest.id > self.own).then_some(Sibling(number))
    }

    /// The newest process that is older than `than`, or than this one: the next one to ask for a
    /// client's session.
    #[must_use]
    pub fn older(&self, than: Option<Sibling>) -> Option<Sibling> {
        let limit = than
            .and_then(|sibling| self.peers.get(sibling.0))
            .map_or(self.own, |peer| peer.id);
        let older = self.peers.iter().enumerate();
        let older = older.filter(|(_, peer)| peer.id < limit);
        older
            .max_by_key(|(_, peer)| peer.id)
            .map(|(number, _)| Sibling(number))
    }

    /// Tells the others that this one serves no new clients any more.
    pub fn drain(&mut self) {
        self.drains = true;
        for peer in &mut self.peers {
            peer.is_untold = true;
            peer.tell();
        }
    }

    /// Whether [`Self::drain`] was called.
    #[must_use]
    pub fn drains(&self) -> bool {
        self.drains
    }

    /// Forwards datagrams; false if the process does not take its waiting messages; they are
    /// counted as lost then.
    pub fn forward(&self, to: Sibling, kind: ForwardKind, run: &ReceivedRun<'_>) -> bool {
        let is_sent = self.try_forward(to, kind, run);
        if !is_sent {
            DROPPED.fetch_add(run.count(), Ordering::Relaxed);
        }
        is_sent
    }

    /// As [`Self::forward`], for those who have another use for datagrams that are not taken.
    #[must_use]
    pub fn try_forward(&self, to: Sibling, kind: ForwardKind, run: &ReceivedRun<'_>) -> bool {
        let Some(peer) = self.peers.get(to.0) else {
            return false;
        };
        let is_sent = peer.send(kind, run);
        if is_sent {
            FORWARDED.fetch_add(run.count(), Ordering::Relaxed);
        }
        is_sent
    }

    /// Takes in processes that came in between, without waiting. Before something is taken for unknown: who forwards does not hear of a
    /// new one before its first packet comes.
    pub fn look_again(&mut self) {
        for _ in 0..ACCEPTED {
            match os::accept_local(&self.listener) {
                Ok(connection) => self.called(connection),
                Err(_) => break,
            }
        }
        self.hear_callers();
    }

    /// Whether processes have come since the last call, after a [look](Self::look_again) for more: for those who have something to tell
    /// a process before they forward anything to it.
    pub fn take_newcomers(&mut self) -> bool {
        self.look_again();
        std::mem::take(&mut self.has_newcomers)
    }

    /// The next datagrams that another process forwards, which are put into `room`: [`Arrived::decode`] reads them there. While it is
    /// pending, the task is woken also when a process comes or goes.
    pub fn poll_next(&mut self, cx: &mut Context<'_>, room: &mut Vec<u8>) -> Poll<Arrived> {
        self.poll_callers(cx);
        // Memory for those who have company.
        if !self.peers.is_empty() {
            room.resize(MESSAGE, 0);
        }
        self.poll_datagrams(cx, room)
    }

    fn poll_datagrams(&mut self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<Arrived> {
        let mut left = self.peers.len();
        while left > 0 {
            // Peers take turns: one that forwards a flood must not starve the rest.
            let number = self.turn % self.peers.len();
            match self.poll_peer(number, cx, room) {
                Poll::Ready(Heard::Datagrams(length)) => {
                    self.turn = number + 1;
                    let from = Sibling(number);
                    return Poll::Ready(Arrived { from, length });
                }
                Poll::Ready(Heard::Other) => {}
                Poll::Ready(Heard::Gone) => {
                    let gone = self.peers.remove(number);
                    tracing::info!(process = gone.pid, "a process that shared a socket is gone");
                    // The numbers have shifted: all peers are asked once more, so that each has the waker of this task.
                    left = self.peers.len();
                }
                Poll::Pending => {
                    self.turn = number + 1;
                    left -= 1;
                }
            }
        }

        Poll::Pending
    }

    fn poll_callers(&mut self, cx: &mut Context<'_>) {
        for _ in 0..ACCEPTED {
            if !matches!(self.listener.poll_recv_ready(cx), Poll::Ready(Ok(()))) {
                break;
            }
            let accept = || os::accept_local(&self.listener);
            match self.listener.try_io(Interest::READABLE, accept) {
                Ok(connection) => self.called(connection),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }

        self.hear_callers();
        for caller in &self.callers {
            // Woken when it speaks, or is gone.
            if caller.connection.poll_recv_ready(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
    }

    /// A process of our user is heard; another one is sent away.
    fn called(&mut self, connection: OwnedFd) {
        // The kernel vouches for the user of the other end: a message could claim anything.
        let Ok(process) = os::local_process(&connection) else {
            return;
        };
        if !process.is_of_our_user {
            tracing::warn!(
                user = process.uid,
                process = process.pid,
                "another user's process claims to share a socket with this one, and is ignored"
            );
            return;
        }

        if self.callers.len() + self.peers.len() >= PROCESSES {
            tracing::warn!(
                process = process.pid,
                "too many processes share a socket: this one gets no packets of it"
            );
            return;
        }
        enlarge(&connection);
        if let Ok(connection) = registered(connection) {
            self.callers.push(Caller {
                pid: process.pid,
                connection,
            });
        }
    }

    /// Callers that have introduced themselves become peers.
    fn hear_callers(&mut self) {
        let mut waiting = Vec::new();
        for caller in std::mem::take(&mut self.callers) {
            // More than a hello has. A longer message is cut off by the kernel, and is no hello.
            let mut hello = [0; 64];
            match recv(&caller.connection, &mut hello[..], RecvFlags::DONTWAIT) {
                // An empty one is the end of the connection.
                Ok((length, _)) => {
                    if let Some(SiblingMessage::Hello(id)) = message::decode(&hello[..length]) {
                        self.meet(id, caller);
                    }
                }
                Err(error) if error == rustix::io::Errno::AGAIN => waiting.push(caller),
                Err(_) => {}
            }
        }
        self.callers = waiting;
    }

    fn meet(&mut self, id: ProcessId, caller: Caller) {
        // A tag names one process: a second one with it would get the packets of the first.
        if self.peers.iter().any(|peer| peer.id.tag == id.tag) || id.tag == self.own.tag {
            return;
        }
        tracing::info!(
            process = caller.pid,
            is_newer = id > self.own,
            "another process shares a socket with this one"
        );
        let mut peer = Peer {
            id,
            pid: caller.pid,
            connection: caller.connection,
            drains: false,
            is_untold: self.drains,
        };
        peer.tell();
        self.peers.push(peer);
        self.has_newcomers = true;
    }

    fn poll_peer(&mut self, number: usize, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<Heard> {
        let peer = &mut self.peers[number];
        peer.tell();

        loop {
            if ready!(peer.connection.poll_recv_ready(cx)).is_err() {
                return Poll::Ready(Heard::Gone);
            }
            let received = peer.connection.try_io(Interest::READABLE, || {
                let (_, length) = recv(&peer.connection, &mut *room, RecvFlags::DONTWAIT)?;
                Ok(length)
            });
            return Poll::Ready(match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Ok(0) | Err(_) => Heard::Gone,
                Ok(length) => match message::decode(&room[..length]) {
                    Some(SiblingMessage::Datagrams { .. }) => Heard::Datagrams(length),
                    Some(SiblingMessage::Draining) => {
                        peer.drains = true;
                        Heard::Other
                    }
                    Some(SiblingMessage::Hello(_)) | None => Heard::Other,
                },
            });
        }
    }
}

impl Peer {
    /// Sends the process a message, unless its socket is full.
    fn send(&self, kind: ForwardKind, run: &ReceivedRun<'_>) -> bool {
        let header = message::header(kind, run);
        let parts = [IoSlice::new(&header), IoSlice::new(run.bytes)];
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut nothing = SendAncillaryBuffer::default();
        sendmsg(&self.connection, &parts, &mut nothing, flags).is_ok()
    }

    /// Says that we drain, if that has to be said. One that takes nothing now is told when it is heard next.
    fn tell(&mut self) {
        if self.is_untold {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            self.is_untold = send(&self.connection, &message::draining(), flags).is_err();
        }
    }
}

/// A Unix socket that the run time watches. The type says that it has messages; of a listener they are connections.
fn registered(socket: OwnedFd) -> io::Result<UnixDatagram> {
    UnixDatagram::from_std(socket.into())
}
