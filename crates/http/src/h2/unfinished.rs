//! A field section of a client that is not whole: what it costs, and how long it may take.
//!
//! Nothing else can come on a connection meanwhile (RFC 9113, section 6.10), and it has no length: without bounds of its own it
//! would be kept as long as the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hermes_net::memory::{ConnectionCharges, ExchangeCharge};
use tokio::time::{Sleep, sleep};

use crate::error::NO_ROOM;

/// How long one may take that there is no room for: what is on its way has come by then, and its head is judged as any other.
#[doc(alias = "bound")]
const NO_ROOM_TIME: Duration = Duration::from_millis(200);

/// So many times the bytes of one are taken by them and by what they were read into.
const KEPT: usize = 2;

/// The section that is under way, if there is one.
#[derive(Debug)]
pub(super) struct UnfinishedSection {
    patience: Duration,
    charge: Option<ExchangeCharge>,
    late: Option<Deadline>,
}

/// When a section has taken too long.
#[derive(Debug)]
struct Deadline {
    stream: u32,
    has_room: bool,
    sleep: Pin<Box<Sleep>>,
}

impl UnfinishedSection {
    /// One may take so long.
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            charge: None,
            late: None,
        }
    }

    /// What is under way now: the stream, and the bytes that have come.
    pub(super) fn note(&mut self, charges: &Arc<ConnectionCharges>, section: Option<(u32, usize)>) {
        let Some((stream, bytes)) = section else {
            self.charge = None;
            self.late = None;
            return;
        };

        let has_room = charges.hold(&mut self.charge, KEPT * bytes).is_ok();
        let is_known = |late: &Deadline| late.stream == stream && late.has_room == has_room;
        if self.late.as_ref().is_some_and(is_known) {
            return;
        }

        let time = if has_room {
            self.patience
        } else {
            NO_ROOM_TIME.min(self.patience)
        };
        self.late = Some(Deadline {
            stream,
            has_room,
            sleep: Box::pin(sleep(time)),
        });
    }

    /// Ready when it has taken too long, with the reason.
    pub(super) fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<&'static str> {
        let Some(late) = &mut self.late else {
            return Poll::Pending;
        };
        ready!(late.sleep.as_mut().poll(cx));
        let has_room = late.has_room;
        self.late = None;

        Poll::Ready(if has_room {
            "a field section took too long"
        } else {
            NO_ROOM
        })
    }
}
