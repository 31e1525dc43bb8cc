//! The other processes that have a node's socket: their datagrams go there, and those that they opened or received for this one are taken.
//!
//! Each process has keys of its own with a neighbour, which sends everything under the keys that it got last. A datagram is given to the
//! process that has its keys, whichever process received it. That one opens it, and then:
//!
//! | frames for                | are handled by                                                              |
//! |---------------------------|-----------------------------------------------------------------------------|
//! | an exchange that it has   | this process                                                                |
//! | any other exchange        | the process that has it; if none has, the newest one, which begins it       |
//!
//! The newest process may have no keys yet when it begins an exchange. It asks the neighbour for them, at an address that only the others
//! know. So two things have to happen in this order, whatever a process hears first:
//!
//! 1. Another process is told where neighbours are before anything is given to it ([`Company::others`]).
//! 2. Frames of an exchange that a process does not have are offered to the others before they are handled. This is so from the start
//!    ([`Engine::set_shared`]), as datagrams may come before the news of the process that is to have them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_net::shared_socket::{
    Arrived, ForwardKind, Forwarded, NextDatagrams, OtherProcesses, ReceivedRun, Rendezvous,
};
use parking_lot::Mutex;

use crate::engine::{Came, DatagramProcess, Engine, Whereabouts};

/// How often others are told where neighbours are.
const TELL: Duration = Duration::from_secs(1);

/// A pause where there is no one to tell.
const IDLE: Duration = Duration::from_secs(3600);

/// Datagrams of others that are taken before answers are sent.
#[doc(alias = "bound")]
const BATCH: usize = 64;

/// The key by which the process of a datagram is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Had {
    /// The name of keys.
    Keys(u32),
    /// An exchange.
    Exchange([u8; 16]),
}

/// The other processes.
#[derive(Debug)]
pub(crate) struct Company {
    /// Datagrams are given to them through [`Company::others`].
    processes: OtherProcesses<Had>,
    /// Where their messages are.
    room: Vec<u8>,
    told: Instant,
    is_draining: bool,
}

impl Company {
    /// Those that are met there, by the process with this engine.
    ///
    /// # Errors
    /// When the run time refuses the descriptors.
    pub(crate) fn new(
        rendezvous: Option<Rendezvous>,
        engine: &mut Engine,
    ) -> std::io::Result<Self> {
        // Not only once there is another process: its first datagrams may come before it is known.
        engine.set_shared(rendezvous.is_some());
        Ok(Self {
            processes: OtherProcesses::new(rendezvous)?,
            room: Vec::new(),
            told: Instant::now(),
            is_draining: false,
        })
    }

    /// The next datagrams: of the socket, or of another process.
    pub(crate) async fn next_or<R>(
        &mut self,
        receive: impl Future<Output = R>,
    ) -> NextDatagrams<R> {
        self.processes.next_or(&mut self.room, receive).await
    }

    /// Takes messages that other processes have sent already, at most as many as of the socket.
    pub(crate) async fn hear_others(&mut self, engine: &Mutex<Engine>) {
        for _ in 0..BATCH {
            match self.next_or(std::future::ready(())).await {
                NextDatagrams::Forwarded(arrived) => self.hear(engine, arrived),
                NextDatagrams::Received(()) if !self.processes.has_any() => return,
                NextDatagrams::Received(()) => {}
            }
        }
    }

    /// Tells the others where neighbours are, and that this process drains.
    pub(crate) fn look(&mut self, engine: &Mutex<Engine>, is_draining: &AtomicBool) {
        if !self.is_draining && is_draining.load(Ordering::Relaxed) {
            self.is_draining = true;
            self.processes.drain();
        }
        // Alone, as nearly always: the engine need not be locked.
        let now = Instant::now();
        let is_due = self.processes.has_any() && now >= self.told + TELL;
        if self.processes.take_newcomers() || is_due {
            self.tell(&engine.lock(), now);
        }
    }

    /// When that is to be done again.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        match self.processes.has_any() {
            true => self.told + TELL,
            false => now + IDLE,
        }
    }

    /// The other processes, to give them datagrams: those that have just come are told first where neighbours are, as they could not
    /// answer before.
    fn others(&mut self, engine: &Engine) -> &mut OtherProcesses<Had> {
        if self.processes.take_newcomers() {
            self.tell(engine, Instant::now());
        }
        &mut self.processes
    }

    fn tell(&mut self, engine: &Engine, now: Instant) {
        self.told = now;
        for known in engine.whereabouts(now) {
            self.processes.tell(&run(known.address, &known.encode()));
        }
    }

    /// A datagram came by the socket.
    pub(crate) fn take(&mut self, engine: &mut Engine, datagram: &Bytes, came: Came) {
        // On a socket of this process alone, nothing is decoded twice; with others, a look at the packet finds its process.
        let is_given = self.processes.may_have_any()
            && match engine.process_of(datagram) {
                DatagramProcess::Own => false,
                DatagramProcess::OfKeys(keys) => {
                    let datagram = run(came.from, datagram);
                    self.others(engine).give(Had::Keys(keys), &datagram)
                }
                DatagramProcess::Newest => {
                    let datagram = run(came.from, datagram);
                    self.others(engine).give_newest(&datagram)
                }
            };
        if !is_given {
            engine.handle_late_datagram(datagram, came);
            self.give_foreign(engine);
        }
    }

    /// Another process has sent something.
    pub(crate) fn hear(&mut self, engine: &Mutex<Engine>, arrived: Arrived) {
        // Taken out for the borrow and put back: no allocation for each message.
        let room = std::mem::take(&mut self.room);
        if let Some(forwarded) = arrived.decode(&room) {
            self.hear_one(&mut engine.lock(), &forwarded, Instant::now());
        }
        self.room = room;
    }

    fn hear_one(&mut self, engine: &mut Engine, forwarded: &Forwarded<'_>, now: Instant) {
        let came = Came {
            from: forwarded.run.source,
            waited: Duration::ZERO,
            now,
        };
        let bytes = forwarded.run.bytes;
        if forwarded.kind == ForwardKind::Whereabouts {
            if let Some(told) = Whereabouts::decode(bytes, came.from) {
                engine.handle_whereabouts(&told, now);
            }
            return;
        }

        if let Some(foreign) = engine.foreign(bytes, came) {
            let had = Had::Exchange(foreign.exchange());
            if engine.has(&foreign) || !self.others(engine).give_on(had, forwarded) {
                engine.handle_foreign(foreign);
            }
            return;
        }
        for datagram in forwarded.run.datagrams() {
            let datagram = Bytes::copy_from_slice(datagram);
            let is_given = match engine.process_of(&datagram) {
                DatagramProcess::Own | DatagramProcess::Newest => false,
                DatagramProcess::OfKeys(keys) => {
                    let others = self.others(engine);
                    others.give_on(Had::Keys(keys), forwarded)
                }
            };
            if !is_given {
                engine.handle_late_datagram(&datagram, came);
                self.give_foreign(engine);
            }
        }
    }

    /// Gives others the frames of exchanges that this process does not have. Exchanges that no process has are begun here.
    fn give_foreign(&mut self, engine: &mut Engine) {
        while let Some(foreign) = engine.poll_foreign() {
            let message = engine.encode_foreign(&foreign);
            let had = Had::Exchange(foreign.exchange());
            let message = run(foreign.from(), &message);
            if !self.others(engine).give(had, &message) {
                engine.handle_foreign(foreign);
            }
        }
    }
}

fn run(source: SocketAddr, bytes: &[u8]) -> ReceivedRun<'_> {
    ReceivedRun {
        source,
        local: None,
        ecn: 0,
        stride: bytes.len().max(1),
        bytes,
    }
}

#[cfg(test)]
mod tests;
