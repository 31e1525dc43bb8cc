//! The other processes that have a node's socket: their datagrams go there, and those that they opened or received for this one are taken.

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
    others: OtherProcesses<Had>,
    /// Where their messages are.
    room: Vec<u8>,
    told: Instant,
    /// How many there were then.
    known: usize,
    is_draining: bool,
}

impl Company {
    /// Those that are met there.
    ///
    /// # Errors
    /// When the run time refuses the descriptors.
    pub(crate) fn new(rendezvous: Option<Rendezvous>) -> std::io::Result<Self> {
        Ok(Self {
            others: OtherProcesses::new(rendezvous)?,
            room: Vec::new(),
            told: Instant::now(),
            known: 0,
            is_draining: false,
        })
    }

    /// The next datagrams: of the socket, or of another process.
    pub(crate) async fn next_or<R>(
        &mut self,
        receive: impl Future<Output = R>,
    ) -> NextDatagrams<R> {
        self.others.next_or(&mut self.room, receive).await
    }

    /// Takes messages that other processes have sent already, at most as many as of the socket.
    pub(crate) async fn hear_others(&mut self, engine: &Mutex<Engine>) {
        for _ in 0..BATCH {
            match self.next_or(std::future::ready(())).await {
                NextDatagrams::Forwarded(arrived) => self.hear(engine, arrived),
                NextDatagrams::Received(()) if !self.others.has_any() => return,
                NextDatagrams::Received(()) => {}
            }
        }
    }

    /// Tells the others where neighbours are, and that this process drains.
    pub(crate) fn look(&mut self, engine: &Mutex<Engine>, is_draining: &AtomicBool) {
        if !self.is_draining && is_draining.load(Ordering::Relaxed) {
            self.is_draining = true;
            self.others.drain();
        }
        let known = std::mem::replace(&mut self.known, self.others.count());
        // Alone, as nearly always: the engine need not be locked.
        if self.known == 0 && known == 0 {
            return;
        }

        let now = Instant::now();
        let mut engine = engine.lock();
        engine.set_shared(self.known > 0);
        // A process that has just come knows no address yet.
        if self.known > known || now >= self.told + TELL {
            self.told = now;
            for known in engine.whereabouts(now) {
                self.others.tell(&run(known.address, &known.encode()));
            }
        }
    }

    /// When that is to be done again.
    pub(crate) fn due(&self, now: Instant) -> Instant {
        match self.known {
            0 => now + IDLE,
            _ => self.told + TELL,
        }
    }

    /// A datagram came by the socket.
    pub(crate) fn take(&mut self, engine: &mut Engine, datagram: &Bytes, came: Came) {
        // Alone, nothing is decoded twice; with others, a look at the packet finds its process.
        let is_given = self.others.has_any()
            && match engine.process_of(datagram) {
                DatagramProcess::Own => false,
                DatagramProcess::OfKeys(keys) => {
                    self.others.give(Had::Keys(keys), &run(came.from, datagram))
                }
                DatagramProcess::Newest => self.others.give_newest(&run(came.from, datagram)),
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
            if engine.has(&foreign) || !self.others.give_on(had, forwarded) {
                engine.handle_foreign(foreign);
            }
            return;
        }
        for datagram in forwarded.run.datagrams() {
            let datagram = Bytes::copy_from_slice(datagram);
            let is_given = match engine.process_of(&datagram) {
                DatagramProcess::Own | DatagramProcess::Newest => false,
                DatagramProcess::OfKeys(keys) => self.others.give_on(Had::Keys(keys), forwarded),
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
            if !self.others.give(had, &run(foreign.from(), &message)) {
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
