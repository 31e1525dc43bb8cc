//! Documents under a condition: an administrator who is locked out by one cannot confirm it, and the node returns to the last
//! confirmed one.
//!
//! There is one condition at a time. Documents that are put in force while it runs are under it, too, and the node always returns to the
//! last confirmed document.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_net::Watch;

use super::{Candidate, NotReloaded, ReloadReport};
use crate::answers::Unconfirmed;
use crate::documents::{Deadline, DocumentSource, Documents, LastConfirmed, Probation, Revision};
use crate::process::{Changing, Node};

/// Pause before a failed return is tried again: a file or port that is gone may be back.
#[doc(alias = "bound")]
const AGAIN: Duration = Duration::from_secs(5);

/// How a confirmation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// The document in force is kept from now on.
    Now(u64),
    /// It was not under a condition.
    Before(u64),
}

/// A confirmation of a document that the node has returned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLate {
    /// The revision that was not confirmed in time.
    pub given_up: u64,
    /// The revision in force.
    pub in_force: u64,
}

/// Why the node does not return to an earlier document.
#[derive(Debug)]
pub enum NotReturned {
    /// There is none.
    NoEarlier,
    /// It cannot be put in force.
    Refused(NotReloaded),
}

impl fmt::Display for TooLate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { given_up, in_force } = self;
        write!(
            out,
            "too late: revision {given_up} was given up, and the node is back at an earlier document, as revision {in_force}"
        )
    }
}

impl fmt::Display for NotReturned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEarlier => out.write_str("there is no earlier configuration"),
            Self::Refused(refused) => refused.fmt(out),
        }
    }
}

impl Node {
    /// A document was put in force after `previous`: under the condition `confirm`, or under the one that runs.
    pub(super) fn set_condition(
        &self,
        documents: &mut Documents,
        previous: &Revision,
        confirm: Option<Duration>,
    ) -> Option<Unconfirmed> {
        documents.given_up = None;
        // A second unconfirmed document returns where the first would, not to the first.
        let back = match &documents.waiting {
            Some(waiting) => waiting.back.clone(),
            None => Some(previous.clone()),
        };

        let is_confirmed = back
            .as_ref()
            .is_some_and(|back| back.text == documents.current.text);
        let time = confirm.or(documents.waiting.as_ref().map(|waiting| waiting.time));
        let Some(time) = time.filter(|_| !is_confirmed) else {
            documents.settle();
            self.deadline.send_replace(Deadline::None);
            return None;
        };

        let kept = back
            .as_ref()
            .map(|back| documents.state.write(back, Some(time)));
        let warning = kept
            .and_then(Result::err)
            .map(|error| format!("a restart in between would confirm it: {error}"));
        if documents.waiting.is_none() || confirm.is_some() {
            documents.waiting = Some(Probation::new(back, time, warning));
        }

        self.follow_condition(documents);
        documents.unconfirmed(Instant::now())
    }

    /// The node has started: the document is under a condition if every start is, or if one was before.
    pub(crate) fn begin_condition(&self, confirm: Option<Duration>) {
        let mut changing = self.changing.lock();
        let documents = &mut changing.documents;
        documents.guarded |= confirm.is_some();
        let remembered = documents.state.read();
        // A restart confirms nothing: the time of a condition from before begins anew.
        let time = confirm.or(remembered.as_ref().and_then(|found| found.time));
        let Some(time) = time else {
            if documents.guarded {
                documents.settle();
            }
            return;
        };
        let back = remembered.map(|LastConfirmed { confirmed, .. }| confirmed);

        if back
            .as_ref()
            .is_some_and(|back| back.text == documents.current.text)
        {
            documents.settle();
            return;
        }

        documents.waiting = Some(Probation::new(back, time, None));

        self.follow_condition(documents);
    }

    /// Sets the clock, and says so.
    fn follow_condition(&self, documents: &Documents) {
        let Some(waiting) = &documents.waiting else {
            return;
        };
        let revision = documents.current.number;
        let what = match &waiting.back {
            Some(back) => format!("goes back to the document of revision {}", back.number),
            None => "stops, for there is no earlier document".to_owned(),
        };

        let left = waiting.until.saturating_duration_since(Instant::now());
        tracing::warn!(
            "revision {revision} is unconfirmed: without `hermes confirm` the node {what} in {} s ({} s in all)",
            left.as_secs_f32().round(),
            waiting.time.as_secs(),
        );
        self.deadline.send_replace(Deadline::At(waiting.until));
    }

    /// Keeps the document in force.
    ///
    /// # Errors
    /// The node has returned to an earlier one.
    pub(crate) fn confirm(&self) -> Result<Confirmed, TooLate> {
        let mut changing = self.changing.lock();
        let documents = &mut changing.documents;
        let revision = documents.current.number;

        if documents.waiting.is_none() {
            return match &documents.given_up {
                None => Ok(Confirmed::Before(revision)),
                Some(given_up) => Err(TooLate {
                    given_up: given_up.number,
                    in_force: revision,
                }),
            };
        }

        documents.settle();
        self.deadline.send_replace(Deadline::None);
        self.shared.telemetry.reload("confirmed");
        tracing::info!("revision {revision} is confirmed");

        Ok(Confirmed::Now(revision))
    }

    /// Returns to the last confirmed document, or to the one before the one in force.
    ///
    /// # Errors
    /// When there is none, or it does not hold any more; then nothing has changed.
    pub(crate) fn roll_back(&self) -> Result<ReloadReport, NotReturned> {
        loop {
            let back = earlier(&self.changing.lock().documents).ok_or(NotReturned::NoEarlier)?;
            let candidate = self
                .earlier_candidate(&back)
                .map_err(NotReturned::Refused)?;

            let mut changing = self.changing.lock();
            // It may have been confirmed meanwhile, and then returns elsewhere.
            let is_still =
                earlier(&changing.documents).is_some_and(|now| now.number == back.number);
            if is_still && self.follows(&candidate) {
                return self
                    .return_to(&mut changing, &back, candidate)
                    .map_err(NotReturned::Refused);
            }
        }
    }

    fn earlier_candidate(&self, back: &Revision) -> Result<Candidate, NotReloaded> {
        self.candidate(back.loaded()?)
    }

    fn return_to(
        &self,
        changing: &mut Changing,
        back: &Revision,
        candidate: Candidate,
    ) -> Result<ReloadReport, NotReloaded> {
        let left = changing.documents.current.clone();
        let was_confirmed = changing.documents.waiting.is_none();
        let report = self.put_in_force(changing, candidate)?;
        let documents = &mut changing.documents;

        if documents.guarded && was_confirmed {
            documents.settle();
        }
        documents.before = None;
        documents.waiting = None;
        tracing::warn!(
            "back from revision {} to the document of revision {}, as revision {}{}",
            left.number,
            back.number,
            report.revision,
            match self.source {
                DocumentSource::File(_) => "; the file still says otherwise",
                DocumentSource::Caller { .. } => "",
            }
        );

        documents.given_up = Some(left);
        self.deadline.send_replace(Deadline::None);
        self.shared.telemetry.reload("returned");

        Ok(report)
    }

    /// The time may be over: then the node returns.
    fn expire(&self) {
        let over = |waiting: &&Probation| waiting.until <= Instant::now();
        let back = {
            let changing = self.changing.lock();
            let Some(waiting) = changing.documents.waiting.as_ref().filter(over) else {
                return;
            };
            tracing::warn!(
                "revision {} was not confirmed within {} s",
                changing.documents.current.number,
                waiting.time.as_secs()
            );
            waiting.back.clone()
        };
        let Some(back) = back else {
            self.deadline.send_replace(Deadline::Missed);
            return;
        };

        let candidate = self.earlier_candidate(&back);
        let mut changing = self.changing.lock();
        if changing.documents.waiting.as_ref().filter(over).is_none() {
            // It was confirmed, or replaced, at the last moment.
            return;
        }
        let returned = match candidate {
            Ok(candidate) if self.follows(&candidate) => {
                self.return_to(&mut changing, &back, candidate).map(drop)
            }
            // Another document came meanwhile, under the same condition: its time is over as well, and the clock calls again.
            Ok(_) => return,
            Err(problems) => Err(problems),
        };

        if let Err(problems) = returned {
            tracing::error!(
                "cannot go back to the document of revision {}, and tries again:\n{problems}",
                back.number
            );
            let again = Instant::now() + AGAIN;
            if let Some(waiting) = &mut changing.documents.waiting {
                waiting.until = again;
                waiting.warning = Some(format!("the node cannot return: {problems}"));
            }

            self.deadline.send_replace(Deadline::At(again));
        }
    }
}

/// Where the node returns to from the document in force.
fn earlier(documents: &Documents) -> Option<Revision> {
    match &documents.waiting {
        Some(waiting) => waiting.back.clone(),
        None => documents.before.clone(),
    }
}

/// Returns when the time is over, until the node stops.
pub(crate) async fn keep_time(node: Arc<Node>, watch: Watch) {
    let mut deadline = node.deadline.subscribe();
    loop {
        let until = *deadline.borrow_and_update();
        let over = async {
            match until {
                Deadline::At(until) => tokio::time::sleep_until(until.into()).await,
                Deadline::None | Deadline::Missed => std::future::pending().await,
            }
        };

        tokio::select! {
            () = over => {
                let node = node.clone();
                // It reads files. A return that failed has set the clock anew.
                let _ = tokio::task::spawn_blocking(move || node.expire()).await;
            }
            // The node has the sender.
            _ = deadline.changed() => {}
            () = watch.graceful() => return,
        }
    }
}
