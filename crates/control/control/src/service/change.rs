//! From one state of the overlay to the next: compiled and compared first, then kept, then spread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_api::Revision;
use hermes_net::clock::unix_seconds;
use parking_lot::MutexGuard;

use super::controller::Controller;
use super::difference::Difference;
use super::endorsing;
use super::fleet::Change;
use super::guards::restarts;
use super::in_force::{self, Awaiting, InForce, authorities, compiled, revoked};
use super::outcome::{Changed, How, NotChanged, Outcome, Refusal};
use super::published::Published;
use super::stages::{Making, Spread, concerned};
use crate::resources::{Findings, Key, RolloutPlan, Tree};
use crate::rollout::{Bake, Event, Stage, StopBounds};
use crate::store::Course;
use crate::store::history::{Commit, NotCommitted};

/// The longest time to confirm a change, in seconds.
#[doc(alias = "bound")]
const LONGEST: u32 = 7 * 24 * 60 * 60;

/// How often a change is planned anew when others come before it.
#[doc(alias = "bound")]
const TRIES: usize = 5;

/// A change that could be made.
struct PlannedChange {
    tree: Arc<Tree>,
    difference: Difference,
    /// The state after it.
    next: Published,
    /// The answer to who asked for it.
    changed: Changed,
}

impl Controller {
    /// Makes a change: `edit` makes the next tree of the one in force.
    ///
    /// # Errors
    /// See [`NotChanged`]; then nothing has changed.
    pub fn change(
        &self,
        how: &How,
        edit: &dyn Fn(&Tree) -> Result<Tree, Findings>,
    ) -> Result<Changed, NotChanged> {
        for _ in 0..TRIES {
            let before = self.changeable(how)?;
            // Without the lock: a large change takes seconds, in which nodes join and other changes come to their end.
            let planned = self.planned(&before, how, edit)?;
            if how.dry_run || planned.difference.is_empty() {
                return Ok(planned.changed);
            }

            let in_force = self.in_force.lock();
            if in_force.published.revision == before.revision {
                self.may_change(&in_force, how)?;
                return self.carry_out(in_force, planned, how);
            }
        }
        let reason = "other changes came before this one each time; try again";
        Err(NotChanged::Conflict(reason.to_owned()))
    }

    /// The state that a change may begin from.
    fn changeable(&self, how: &How) -> Result<Arc<Published>, NotChanged> {
        let in_force = self.in_force.lock();
        self.may_change(&in_force, how)?;
        Ok(in_force.published.clone())
    }

    /// A change of a state, if nothing is in its way.
    fn planned(
        &self,
        before: &Published,
        how: &How,
        edit: &dyn Fn(&Tree) -> Result<Tree, Findings>,
    ) -> Result<PlannedChange, NotChanged> {
        let tree = edit(&before.tree).map_err(NotChanged::Invalid)?;
        let tree = Arc::new(tree);
        let difference = Difference::between(&before.tree, &tree);
        let next = self.next(before, &tree, how)?;
        let changed = Changed {
            guarded: self.guarded(before, &next, &difference, how),
            ..self.described(&difference, before, &next)
        };
        if !changed.guarded.is_empty() && !how.dry_run {
            return Err(NotChanged::Guarded(format!(
                "{}\nif that is meant, repeat it with --force",
                changed.guarded.join("\n")
            )));
        }
        let revision = match how.dry_run || !difference.is_empty() {
            true => changed.revision,
            false => before.revision,
        };
        Ok(PlannedChange {
            tree,
            difference,
            next,
            changed: Changed {
                revision,
                ..changed
            },
        })
    }

    /// Keeps a change of the state in force, and lets it spread.
    fn carry_out(
        &self,
        mut in_force: MutexGuard<'_, InForce>,
        planned: PlannedChange,
        how: &How,
    ) -> Result<Changed, NotChanged> {
        let PlannedChange {
            tree,
            difference,
            next,
            changed,
        } = planned;
        // They are about the documents of before, too: nodes may have them though the change is not made.
        let kept = self.authority.keep_endorsements(&how.endorsements);
        kept.map_err(|error| NotChanged::Store(error.to_string()))?;
        let course = Course::Begins { at_once: how.now };
        self.commit(&tree, in_force.published.revision, how, course)?;
        let lists_programs = difference.lists_programs(&in_force.published.tree, &tree);
        let events = self.begin(&mut in_force, next, &difference, how);
        if lists_programs {
            // Nodes that get no other document are judged anew, too.
            self.fleet.lock().wake_all();
        }
        // The end of a change takes the lock itself.
        drop(in_force);
        self.settle(events);
        Ok(changed)
    }

    fn may_change(&self, in_force: &InForce, how: &How) -> Result<(), NotChanged> {
        let revision = in_force.published.revision;
        if how.base.is_some_and(|base| base != revision) {
            return Err(NotChanged::Conflict(format!(
                "revision {revision} is in force, the change was made from {}",
                how.base.unwrap_or(revision)
            )));
        }
        if how.dry_run {
            return Ok(());
        }
        if self.fleet.lock().is_changing() {
            return Err(NotChanged::Spreads(revision));
        }
        if in_force.awaiting.is_some() {
            return Err(NotChanged::Conflict(format!(
                "revision {revision} waits to be confirmed"
            )));
        }
        Ok(())
    }

    /// The state after a change.
    fn next(
        &self,
        before: &Published,
        tree: &Arc<Tree>,
        how: &How,
    ) -> Result<Published, NotChanged> {
        let documents =
            compiled(tree, &self.about.trust_domain, Some(before)).map_err(NotChanged::Invalid)?;
        Ok(Published {
            revision: before.revision.next(),
            tree: tree.clone(),
            documents,
            authorities: before.authorities.clone(),
            revoked: before.revoked.clone(),
            endorsements: Arc::new(endorsing::merged(&before.endorsements, &how.endorsements)),
            confirm: how.confirm_seconds.map(|seconds| seconds.min(LONGEST)),
        })
    }

    fn commit(
        &self,
        tree: &Tree,
        expected: Revision,
        how: &How,
        course: Course,
    ) -> Result<Revision, NotChanged> {
        let commit = Commit {
            expected,
            tree,
            author: &how.author,
            message: &how.message,
            time: unix_seconds(),
            confirm_seconds: how.confirm_seconds.map(|seconds| seconds.min(LONGEST)),
            course,
        };
        self.history.commit(&commit).map_err(|error| match error {
            NotCommitted::Moved(head) => {
                NotChanged::Conflict(format!("another controller has made revision {head}"))
            }
            NotCommitted::Store(error) => NotChanged::Store(error.to_string()),
        })
    }

    /// Lets a change spread that is in the store.
    fn begin(
        &self,
        in_force: &mut InForce,
        next: Published,
        difference: &Difference,
        how: &How,
    ) -> Vec<Event> {
        let next = Arc::new(next);
        let before = in_force.published.clone();
        let is_restriction = difference.is_restriction(&before.tree, &next.tree);
        let plan = next.tree.rollout();

        let mut fleet = self.fleet.lock();
        let spread = match is_restriction {
            // Who is denied something should not have it for the time of a rollout.
            true => Spread::at_once(&fleet, &before, &next),
            false => Spread::in_stages(&fleet, &before, &next, self.making(&plan)),
        };
        let change = Change {
            waves: spread.waves,
            bake: match is_restriction {
                true => Bake::default(),
                false => bake(&plan, spread.decides, how),
            },
            stages: spread.states,
            back: Arc::new(Published {
                revision: next.revision.next(),
                confirm: None,
                // A node that has seen these follows no earlier ones, and they are about the documents of before, too.
                endorsements: next.endorsements.clone(),
                ..(*before).clone()
            }),
        };
        in_force.awaiting = how.confirm_seconds.map(|seconds| Awaiting {
            until: None,
            time: Duration::from_secs(u64::from(seconds.min(LONGEST))),
        });
        in_force.before = before.tree.clone();
        self.authority.set_grace(in_force::grace(&next.tree));
        in_force.published = next;
        fleet.begin(change, self.now())
    }

    /// The trust domain and the number of first nodes, for the stages of a change.
    pub(super) fn making(&self, plan: &RolloutPlan) -> Making<'_> {
        Making {
            domain: &self.about.trust_domain,
            canaries: plan.canaries(),
        }
    }

    pub(super) fn described(
        &self,
        difference: &Difference,
        before: &Published,
        next: &Published,
    ) -> Changed {
        let documents = next.differing(before);
        let fleet = self.fleet.lock();
        let nodes = concerned(&fleet, before, next).into_iter();
        let nodes = nodes.filter(|record| record.session.is_some()).count();
        drop(fleet);
        let text = |keys: &[Key]| keys.iter().map(Key::to_string).collect();
        Changed {
            revision: next.revision,
            added: text(&difference.added),
            changed: text(&difference.changed),
            removed: text(&difference.removed),
            documents: documents.iter().map(ToString::to_string).collect(),
            nodes,
            restarts: restarts(before, next),
            guarded: Vec::new(),
        }
    }
}

impl Controller {
    /// The end of a change: it is in force everywhere, or it was stopped. It may block.
    pub(super) fn settle(&self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Reach { .. } | Event::Look(_) => {}
                Event::Done => self.done(),
                Event::Stopped { node, reason } => self.stopped(Refusal { node, reason }),
            }
        }
    }

    fn done(&self) {
        let mut in_force = self.in_force.lock();
        if let Some(awaiting) = &mut in_force.awaiting {
            awaiting.until.get_or_insert(Instant::now() + awaiting.time);
        }
        let revision = in_force.published.revision;
        // Otherwise the next controller spreads it anew, to nodes that have it already.
        if let Err(error) = self.history.arrived() {
            tracing::warn!("the store does not know that revision {revision} is in force: {error}");
        }
        self.fleet.lock().settled();
        tracing::info!("revision {revision} is in force");
        self.steps.send_replace(Some(Outcome {
            revision,
            stopped: None,
        }));
    }

    /// Nodes go back already: the store follows them, by a new revision with the tree of before.
    fn stopped(&self, refusal: Refusal) {
        let mut in_force = self.in_force.lock();
        let revision = in_force.published.revision;
        tracing::error!(
            "revision {revision} is stopped: {}: {}",
            refusal.node,
            refusal.reason
        );
        let message = format!(
            "revision {revision} was stopped at {}: {}",
            refusal.node, refusal.reason
        );
        self.go_back(&mut in_force, &message);
        self.fleet.lock().settled();
        drop(in_force);
        self.steps.send_replace(Some(Outcome {
            revision,
            stopped: Some(refusal),
        }));
    }

    /// Makes the state before the last change the one in force, as a new revision.
    fn go_back(&self, in_force: &mut InForce, message: &str) {
        let revision = in_force.published.revision;
        // The operator's time is over with the change itself.
        in_force.awaiting = None;
        let how = How {
            author: "controller".to_owned(),
            message: message.to_owned(),
            ..How::default()
        };
        let tree = in_force.before.clone();
        // The nodes have the documents of before, whatever becomes of the store.
        if let Err(error) = self.commit(&tree, revision, &how, Course::Ends) {
            tracing::error!(
                "the store keeps revision {revision}, which the nodes have left: {error:?}"
            );
        }
        match compiled(&tree, &self.about.trust_domain, None) {
            Ok(documents) => {
                let published = Published {
                    revision: revision.next(),
                    tree,
                    documents,
                    confirm: None,
                    ..(*in_force.published).clone()
                };
                self.authority.set_grace(in_force::grace(&published.tree));
                in_force.published = Arc::new(published);
                self.fleet.lock().replace(in_force.published.clone());
            }
            Err(findings) => tracing::error!("the state before {revision}:\n{findings}"),
        }
    }

    /// Keeps the change that waits for it; returns its revision.
    ///
    /// # Errors
    /// No change waits for it.
    pub fn confirm(&self) -> Result<Revision, NotChanged> {
        let mut in_force = self.in_force.lock();
        if in_force.awaiting.is_none() {
            return Err(NotChanged::Conflict(
                "no change waits to be confirmed".to_owned(),
            ));
        }
        // First the store: a controller that starts anew must not return from it.
        let revision = in_force.published.revision;
        let kept = self.history.confirm(revision);
        kept.map_err(|error| NotChanged::Store(error.to_string()))?;
        in_force.awaiting = None;
        let published = Published {
            confirm: None,
            ..(*in_force.published).clone()
        };
        in_force.published = Arc::new(published);
        self.fleet.lock().confirm(in_force.published.clone());
        Ok(in_force.published.revision)
    }

    /// Returns from a change that was not confirmed in time. Its nodes have returned by their own clocks, wherever this controller was.
    pub(super) fn return_if_unconfirmed(&self) {
        let mut in_force = self.in_force.lock();
        if in_force.is_overdue() {
            let message = format!(
                "revision {} was not confirmed in time",
                in_force.published.revision
            );
            tracing::warn!("{message}");
            self.go_back(&mut in_force, &message);
        }
    }

    /// Goes back to the tree of an earlier revision, or of the one before the one in force, as a new revision.
    ///
    /// # Errors
    /// See [`NotChanged`].
    pub fn roll_back(&self, to: Option<Revision>, how: &How) -> Result<Changed, NotChanged> {
        let in_force = self.in_force.lock().published.revision;
        let tree = match to {
            Some(revision) => self
                .history
                .at(revision)
                .and_then(|state| self.history.tree(&state)),
            None => self.history.tree_before(in_force),
        };
        let tree = tree.map_err(|error| NotChanged::Store(error.to_string()))?;
        // The state was in force once: no guard is between an operator and the way back.
        let how = &How {
            force: true,
            ..how.clone()
        };
        self.change(how, &|_| Ok(tree.clone()))
    }

    /// Waits until the change that led to this revision is over.
    pub async fn outcome(&self, revision: Revision) -> Option<Outcome> {
        let mut steps = self.steps.subscribe();
        let is_over = |outcome: &Option<Outcome>| {
            outcome
                .as_ref()
                .is_some_and(|outcome| outcome.revision >= revision)
        };
        let outcome = steps.wait_for(is_over).await.ok()?;
        outcome.clone()
    }

    /// Gives all nodes the authorities and revocations of now, as a new revision of the same tree. It may block.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(super) fn republish(&self, message: &str) -> Result<(), String> {
        let mut in_force = self.in_force.lock();
        let authorities = authorities(&self.authority)?;
        let revoked = revoked(&self.authority, unix_seconds())?;
        let before = &in_force.published;
        if authorities.hash == before.authorities.hash && revoked.hash == before.revoked.hash {
            return Ok(());
        }
        let how = How {
            author: "controller".to_owned(),
            message: message.to_owned(),
            // A change that waits goes on waiting.
            confirm_seconds: in_force.awaiting.as_ref().and(in_force.published.confirm),
            ..How::default()
        };
        let tree = in_force.published.tree.clone();
        self.commit(&tree, before.revision, &how, Course::GoesOn)
            .map_err(|error| format!("{error:?}"))?;
        let next = before.revision.next();
        let amend = |state: &Published, revision: Revision| Published {
            revision,
            authorities: authorities.clone(),
            revoked: revoked.clone(),
            ..state.clone()
        };
        in_force.published = Arc::new(amend(before, next));
        // A restriction waits for no one: everyone gets it at once, and a change that spreads goes on with it.
        self.fleet.lock().amend(next, &amend);
        Ok(())
    }
}

/// How the first nodes with a change are looked at.
pub(super) fn bake(plan: &RolloutPlan, stages: Vec<Stage>, how: &How) -> Bake {
    /// Long enough for some requests, and short enough to wait for.
    const TIME: Duration = Duration::from_secs(10);
    let time = plan.bake.map_or(TIME, |bake| bake.0);
    let usual = StopBounds::default();
    Bake {
        time: match how.now {
            true => 0,
            false => u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        },
        stages,
        is_asked_for: plan.bake.is_some(),
        bounds: StopBounds {
            errors: plan
                .stop_on
                .errors
                .map_or(usual.errors, |errors| errors.0.into()),
            p99: plan.stop_on.p99.unwrap_or(usual.p99),
        },
    }
}
