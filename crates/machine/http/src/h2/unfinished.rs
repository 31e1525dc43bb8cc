//! An incomplete field section of a client: its cost, and the time it may take.
//!
//! No other frames can come on a connection meanwhile (RFC 9113, section 6.10), and a section has
//! no announced length: without bounds of its own it would be kept as long as the connection.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hermes_net::PeerAddress;
use hermes_net::memory::FieldsCharge;
use hermes_proto::h2::{FRAME_HEAD, UnfinishedBlock};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Sleep, sleep};

use crate::error::NO_ROOM;

/// How long a section without room may take: the rest of it that was on its way has come by then,
/// and its head is judged as any other.
#[doc(alias = "bound")]
const NO_ROOM_TIME: Duration = Duration::from_millis(200);

/// Sections and frames of the node at once that come without room for them, of as many connections: 64 KiB each as a rule. The connections
/// of further ones end.
#[doc(alias = "bound")]
const WITHOUT_ROOM: usize = 32;

static BEYOND_ROOM: Semaphore = Semaphore::const_new(WITHOUT_ROOM);

/// A field section, or one of its frames, that is under way.
#[derive(Debug)]
pub(crate) struct UnfinishedSection {
    patience: Duration,
    charge: FieldsCharge,
    late: Option<Deadline>,
}

/// The incomplete part of the input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IncompleteInput {
    part: InputPart,
    /// Bytes of memory that it takes.
    memory: usize,
}

/// The part of a connection's input that is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputPart {
    /// The field section of a stream.
    Section(u32),
    /// The frame that begins behind so many bytes.
    Frame(u64),
}

/// When a section has taken too long.
#[derive(Debug)]
struct Deadline {
    part: InputPart,
    sleep: Pin<Box<Sleep>>,
    /// For one that there is no room for.
    beyond_room: Option<SemaphorePermit<'static>>,
}

impl IncompleteInput {
    /// The incomplete part of a connection's input after `taken` bytes; `waiting` more are not whole yet. No more than the head of a frame is
    /// of no weight: content often ends with some of it.
    pub(crate) fn of(section: Option<UnfinishedBlock>, taken: u64, waiting: usize) -> Option<Self> {
        let (part, memory) = match section {
            Some(section) => (InputPart::Section(section.stream), section.memory),
            None if waiting > FRAME_HEAD => (InputPart::Frame(taken), 0),
            None => return None,
        };

        Some(Self {
            part,
            memory: memory + waiting,
        })
    }
}

impl UnfinishedSection {
    /// A guard that gives each section this time.
    pub(crate) fn new(patience: Duration) -> Self {
        Self {
            patience,
            charge: FieldsCharge::default(),
            late: None,
        }
    }

    /// Notes the section that is under way.
    ///
    /// # Errors
    /// There is no room for it, and for too many others: the connection has to end.
    pub(crate) fn note(
        &mut self,
        peer: &PeerAddress,
        incomplete: Option<IncompleteInput>,
    ) -> Result<(), &'static str> {
        let Some(IncompleteInput { part, memory }) = incomplete else {
            self.charge.clear();
            self.late = None;
            return Ok(());
        };

        let has_room = self.charge.hold(peer, memory).is_ok();
        let is_known =
            |late: &Deadline| late.part == part && late.beyond_room.is_none() == has_room;
        if self.late.as_ref().is_some_and(is_known) {
            return Ok(());
        }

        // Its permit is free before the next is asked for.
        self.late = None;
        let beyond_room = match has_room {
            true => None,
            false => Some(BEYOND_ROOM.try_acquire().map_err(|_| NO_ROOM)?),
        };
        let time = match has_room {
            true => self.patience,
            false => NO_ROOM_TIME.min(self.patience),
        };
        self.late = Some(Deadline {
            part,
            sleep: Box::pin(sleep(time)),
            beyond_room,
        });
        Ok(())
    }

    /// Ready when it has taken too long, with the reason.
    pub(crate) fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<&'static str> {
        let Some(late) = &mut self.late else {
            return Poll::Pending;
        };
        ready!(late.sleep.as_mut().poll(cx));
        let has_room = late.beyond_room.is_none();
        self.late = None;

        Poll::Ready(if has_room {
            "a field section, or a frame, took too long"
        } else {
            NO_ROOM
        })
    }
}
