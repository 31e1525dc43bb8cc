//! The end of an object: the sender is told until it has let go of it as well.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hermes_proto::custody::{CustodyFrame, FinCode, ObjectId};

/// How often a FIN is repeated until the sender has let go.
#[doc(alias = "bound")]
const FIN_AGAIN: Duration = Duration::from_millis(200);

/// How long a FIN is repeated; from then on the sender lets go when the time of the exchange is over.
#[doc(alias = "bound")]
const FIN_TIME: Duration = Duration::from_secs(60);

/// Objects whose FIN is repeated.
#[doc(alias = "bound")]
const FINS: usize = 1024;

/// The FINs that are repeated.
#[derive(Debug, Default)]
pub(super) struct Fins {
    pending: BTreeMap<ObjectId, PendingFin>,
    /// When one is due at the earliest.
    pub(super) due: Option<Instant>,
}

/// A FIN that is repeated.
#[derive(Debug)]
struct PendingFin {
    code: FinCode,
    at: Instant,
    until: Instant,
}

impl Fins {
    /// The sender is told that this node has let go of an object.
    pub(super) fn add(&mut self, object: ObjectId, code: FinCode, now: Instant) {
        // Beyond the bound no FIN is sent: the sender lets go of the object when the time of its exchange is over.
        if self.pending.len() < FINS {
            let fin = PendingFin {
                code,
                at: now,
                until: now + FIN_TIME,
            };
            self.pending.entry(object).or_insert(fin);
            self.due = Some(now);
        }
    }

    /// The sender has let go.
    pub(super) fn remove(&mut self, object: ObjectId) {
        self.pending.remove(&object);
    }

    /// The next FIN that is due.
    pub(super) fn poll(&mut self, now: Instant) -> Option<CustodyFrame> {
        self.due.filter(|due| *due <= now)?;
        self.pending.retain(|_, fin| now < fin.until);
        let due = self.pending.iter_mut().find(|(_, fin)| fin.at <= now);
        let Some((object, fin)) = due else {
            self.due = self.pending.values().map(|fin| fin.at).min();
            return None;
        };
        fin.at = now + FIN_AGAIN;
        Some(CustodyFrame::Fin {
            object: *object,
            code: fin.code,
        })
    }
}
