//! The end of an object: the sender is told until it has let go of it as well.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hermes_proto::custody::{CustodyFrame, FinCode, ObjectId, ObjectPart};

use super::Receiver;

/// How often a FIN is repeated until the other side has let go.
#[doc(alias = "bound")]
const FIN_AGAIN: Duration = Duration::from_millis(200);

/// How long a FIN is repeated; then the other side lets go when the time of the exchange is over.
#[doc(alias = "bound")]
const FIN_TIME: Duration = Duration::from_secs(60);

/// Objects whose FIN is repeated.
#[doc(alias = "bound")]
const FINS: usize = 1024;

/// The FINs that are repeated.
#[derive(Debug, Default)]
pub(super) struct Fins {
    letting: BTreeMap<ObjectId, Letting>,
    /// When one is due at the earliest.
    pub(super) due: Option<Instant>,
}

/// A FIN that is repeated.
#[derive(Debug)]
struct Letting {
    code: FinCode,
    at: Instant,
    until: Instant,
}

impl Fins {
    /// The other side has let go.
    pub(super) fn remove(&mut self, object: ObjectId) {
        self.letting.remove(&object);
    }
}

impl Receiver {
    /// All of an object has come.
    pub(super) fn whole(&mut self, object: ObjectId, now: Instant) {
        self.drop_asked(object);
        let is_kept = self.wants.get(object).is_some_and(|want| want.is_kept);
        // A request is let go with its exchange: only then it is certain that it will not be needed again.
        if object.part == ObjectPart::Response && !is_kept {
            self.let_go(object, FinCode::Complete, now);
        }
    }

    pub(super) fn let_go(&mut self, object: ObjectId, code: FinCode, now: Instant) {
        self.drop_asked(object);
        if self.fins.letting.len() < FINS {
            let letting = Letting {
                code,
                at: now,
                until: now + FIN_TIME,
            };
            self.fins.letting.entry(object).or_insert(letting);
            self.fins.due = Some(now);
        }
    }

    pub(super) fn poll_fin(&mut self, now: Instant) -> Option<CustodyFrame> {
        self.fins.due.filter(|due| *due <= now)?;
        self.fins.letting.retain(|_, letting| now < letting.until);
        let due = self.fins.letting.iter_mut().find(|(_, fin)| fin.at <= now);
        let Some((object, letting)) = due else {
            self.fins.due = self.fins.letting.values().map(|letting| letting.at).min();
            return None;
        };
        letting.at = now + FIN_AGAIN;
        Some(CustodyFrame::Fin {
            object: *object,
            code: letting.code,
        })
    }
}
