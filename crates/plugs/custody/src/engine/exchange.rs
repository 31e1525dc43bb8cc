//! An exchange with a neighbour: its name, its side, its terms, and the events and readings that its tasks see.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::custody::{ErrCode, ObjectId, ObjectPart};

use super::tunnel_state::Tunnelled;
use crate::disk::SharedLog;
use crate::owner::Owner;
use crate::spool::Spool;

/// The number of a neighbour, for as long as the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NeighbourId(pub(super) usize);

/// An exchange with a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeKey {
    /// The neighbour.
    pub neighbour: NeighbourId,
    /// Its name.
    pub exchange: [u8; 16],
}

/// A change of an exchange, for its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A neighbour asks for a response.
    Asked(ExchangeKey),
    /// There is something to read, or it has ended.
    Readable(ExchangeKey),
    /// There is room to write.
    Writable(ExchangeKey),
    /// The neighbour does not want the response any more, or has all of it; or its time is over.
    Over(ExchangeKey),
}

/// How far an exchange is that this node has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskingProgress {
    /// The neighbour is known to have it.
    pub is_confirmed: bool,
    /// How long ago the neighbour was heard last, about anything; `None` if it was never.
    pub heard: Option<Duration>,
}

/// The result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Bytes, at least one.
    Bytes(Bytes),
    /// The end of it.
    End,
    /// Nothing yet: an event will say when.
    Waiting,
    /// It will not be whole.
    Broken(ErrCode),
}

/// The side that asks in an exchange, and how far its offer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// This node asks.
    Asking {
        /// It may be offered again to a neighbour that has forgotten it.
        repeatable: bool,
    },
    /// The neighbour asks.
    Answering,
    /// The neighbour asks for something that may be done once only, and may not know yet that this node has the request.
    Unconfirmed,
}

/// An open exchange.
#[derive(Debug)]
pub(super) struct KeptExchange {
    pub(super) side: Side,
    pub(super) until: Instant,
    /// When it is looked whether its time is over: not behind `until`.
    pub(super) due: Instant,
    /// For how long it is kept.
    pub(super) keep: Duration,
    pub(super) tunnelled: Tunnelled,
    /// Its owner, where that is known.
    pub(super) owner: Option<Owner>,
    /// The file that it is kept in.
    pub(super) log: Option<SharedLog>,
    /// It was kept when the last process ended.
    pub(super) is_resumed: bool,
    /// It may be acted on once only.
    pub(super) once: bool,
    /// The end of the records that have to be in its file before it is acted on, while they are still to be written.
    pub(super) acts_behind: Option<u64>,
}

/// How an exchange begins.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// It is given up after so long.
    pub keep: Duration,
    /// It may be offered again to a neighbour that has forgotten it.
    pub repeatable: bool,
    /// The exchange of another neighbour that it is begun for.
    pub parent: Option<ExchangeKey>,
}

impl Side {
    /// Whether the neighbour asks.
    pub(super) fn answers(self) -> bool {
        matches!(self, Self::Answering | Self::Unconfirmed)
    }
}

/// An empty spool for an object, on disk where its exchange has a file.
pub(super) fn spool(log: &Option<SharedLog>, object: ObjectId) -> Spool {
    let log = log.clone();
    log.map_or_else(Spool::default, |log| Spool::on_disk(log, object.part))
}

/// The name of one half of an exchange.
pub(super) fn object(key: ExchangeKey, part: ObjectPart) -> ObjectId {
    ObjectId {
        exchange: key.exchange,
        part,
    }
}
