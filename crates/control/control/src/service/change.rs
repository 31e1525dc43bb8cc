//! From one state of the overlay to the next: compiled and compared first, then kept, then spread.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_api::{Name, Revision};
use hermes_net::clock::unix_seconds;

use super::controller::Controller;
use super::fleet::{self, Change};
use super::in_force::{Awaiting, InForce, authorities, compiled, revoked};
use super::outcome::{Changed, How, NotChanged, Outcome, Refusal};
use super::published::{Document, Published};
use crate::compile::{Compiled, Recipient, between};
use crate::resources::{Findings, Key, Resource, Tree};
use crate::rollout::{Event, Order, RankedNode, Wave, waves};
use crate::store::StoreError;
use crate::store::history::{Commit, NotCommitted};

/// A change that takes away more than one resource in so many has to be forced: it is more often a mistake than meant.
const SHRINKS: usize = 10;

/// The longest time to confirm a change, in seconds.
#[doc(alias = "bound")]
const LONGEST: u32 = 7 * 24 * 60 * 60;

/// States among which the one before another is looked for.
const STATES: usize = 1000;

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
        let mut in_force = self.in_force.lock();
        self.may_change(&in_force, how)?;
        // The tree is edited under the lock, so that two changes never begin from the same one.
        let tree = edit(&in_force.published.tree).map_err(NotChanged::Invalid)?;
        let difference = Difference::between(&in_force.published.tree, &tree);
        difference.guard(in_force.published.tree.len(), how)?;
        let next = self.next(&in_force, &tree, &difference, how)?;
        let changed = self.described(&difference, &in_force.published, &next);
        if how.dry_run || difference.is_empty() {
            return Ok(Changed {
                revision: if how.dry_run {
                    changed.revision
                } else {
                    in_force.published.revision
                },
                ..changed
            });
        }

        self.commit(&tree, in_force.published.revision, how)?;
        let events = self.begin(&mut in_force, next, how);
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
        // Two changes at once could not be told apart when a node refuses.
        if self.fleet.lock().is_changing() {
            return Err(NotChanged::Conflict(format!(
                "revision {revision} still spreads"
            )));
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
        in_force: &InForce,
        tree: &Tree,
        difference: &Difference,
        how: &How,
    ) -> Result<Published, NotChanged> {
        let before = &in_force.published;
        let documents = compiled(
            tree,
            &self.about.trust_domain,
            Some(before),
            &difference.keys(),
        )
        .map_err(NotChanged::Invalid)?;
        Ok(Published {
            revision: before.revision.next(),
            tree: Arc::new(tree.clone()),
            documents,
            authorities: before.authorities.clone(),
            revoked: before.revoked.clone(),
            confirm: how.confirm_seconds.map(|seconds| seconds.min(LONGEST)),
        })
    }

    fn commit(&self, tree: &Tree, expected: Revision, how: &How) -> Result<Revision, NotChanged> {
        let commit = Commit {
            expected,
            tree,
            author: &how.author,
            message: &how.message,
            time: unix_seconds(),
        };
        self.history.commit(&commit).map_err(|error| match error {
            NotCommitted::Moved(head) => {
                NotChanged::Conflict(format!("another controller has made revision {head}"))
            }
            NotCommitted::Store(error) => NotChanged::Store(error.to_string()),
        })
    }

    /// Lets a change spread that is in the store.
    fn begin(&self, in_force: &mut InForce, next: Published, how: &How) -> Vec<Event> {
        let next = Arc::new(next);
        let before = in_force.published.clone();
        let stages = stages(&before, &next);

        let mut fleet = self.fleet.lock();
        let waves = waves_of(&fleet, &before, &stages);
        let change = Change {
            stages,
            waves,
            back: Arc::new(Published {
                revision: next.revision.next(),
                confirm: None,
                ..(*before).clone()
            }),
            bake: 0,
        };
        in_force.awaiting = how.confirm_seconds.map(|seconds| Awaiting {
            until: None,
            time: Duration::from_secs(u64::from(seconds.min(LONGEST))),
        });
        in_force.before = before.tree.clone();
        in_force.published = next;
        fleet.begin(change, self.now())
    }

    fn described(&self, difference: &Difference, before: &Published, next: &Published) -> Changed {
        let recipients: BTreeSet<&Recipient> = before
            .documents
            .keys()
            .chain(next.documents.keys())
            .collect();
        let differs = |recipient: &&Recipient| next.differs_for(before, recipient);
        let documents: Vec<&Recipient> = recipients.into_iter().filter(differs).collect();
        let fleet = self.fleet.lock();
        let gets = |record: &&fleet::NodeRecord| {
            record.session.is_some()
                && documents.contains(&&next.recipient(&record.node, record.user.as_ref()))
        };
        let text = |keys: &[Key]| keys.iter().map(Key::to_string).collect();
        Changed {
            revision: next.revision,
            added: text(&difference.added),
            changed: text(&difference.changed),
            removed: text(&difference.removed),
            documents: documents
                .iter()
                .map(|recipient| called(recipient))
                .collect(),
            nodes: fleet.nodes().values().filter(gets).count(),
        }
    }
}

impl Controller {
    /// The end of a change: it is in force everywhere, or it was stopped. It may block.
    pub(super) fn settle(&self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Reach { .. } => {}
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
            "revision {revision} was refused by {}: {}",
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

    /// The last tree before that of a revision. Some states differ in their certificates only.
    fn tree_before(&self, revision: Revision) -> Result<Tree, StoreError> {
        let states = self.history.list(STATES)?;
        let mut states = states.iter().skip_while(|state| state.revision != revision);
        let current = states.next().map(|state| state.tree);
        let before = states.find(|state| Some(state.tree) != current);
        let before = before.ok_or_else(|| {
            StoreError::new(format!("no state before revision {revision} is kept"))
        })?;
        self.history.tree(before)
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
        if let Err(error) = self.commit(&tree, revision, &how) {
            tracing::error!(
                "the store keeps revision {revision}, which the nodes have left: {error:?}"
            );
        }
        match compiled(&tree, &self.about.trust_domain, None, &BTreeSet::new()) {
            Ok(documents) => {
                let published = Published {
                    revision: revision.next(),
                    tree,
                    documents,
                    confirm: None,
                    ..(*in_force.published).clone()
                };
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
        if in_force.awaiting.take().is_none() {
            return Err(NotChanged::Conflict(
                "no change waits to be confirmed".to_owned(),
            ));
        }
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
            None => self.tree_before(in_force),
        };
        let tree = tree.map_err(|error| NotChanged::Store(error.to_string()))?;
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
            ..How::default()
        };
        let tree = in_force.published.tree.clone();
        self.commit(&tree, before.revision, &how)
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

/// Keys that differ between two trees.
#[derive(Debug, Default)]
struct Difference {
    added: Vec<Key>,
    changed: Vec<Key>,
    removed: Vec<Key>,
}

impl Difference {
    fn between(before: &Tree, after: &Tree) -> Self {
        let mut difference = Self::default();
        for resource in after.resources() {
            let key = resource.key();
            match before.resource(key) {
                None => difference.added.push(key.clone()),
                Some(known) if known != resource => difference.changed.push(key.clone()),
                Some(_) => {}
            }
        }
        let keys = before.resources().map(Resource::key);
        let gone = keys.filter(|key| after.resource(key).is_none());
        difference.removed = gone.cloned().collect();
        difference
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }

    fn keys(&self) -> BTreeSet<Key> {
        let lists = [&self.added, &self.changed, &self.removed];
        lists.into_iter().flatten().cloned().collect()
    }

    /// # Errors
    /// The change takes away much, and was not forced.
    fn guard(&self, had: usize, how: &How) -> Result<(), NotChanged> {
        let removed = self.removed.len();
        if how.force || how.dry_run || removed <= 2 || removed * SHRINKS <= had {
            return Ok(());
        }
        Err(NotChanged::Guarded(format!(
            "it removes {removed} of {had} resources; if that is meant, repeat it with --force"
        )))
    }
}

/// The states that a change goes through, so that no exchange fails meanwhile: nodes take what others will send, decide anew, and forget
/// what others have sent.
fn stages(before: &Arc<Published>, next: &Arc<Published>) -> Vec<Arc<Published>> {
    let taking = merged(before, next, &|before, next| between(next, before));
    let deciding = merged(before, next, &between);
    let mut stages: Vec<Arc<Published>> = Vec::new();
    for stage in [taking, deciding] {
        let last = stages.last().unwrap_or(before);
        if !has_same_documents(last, &stage) && !has_same_documents(&stage, next) {
            stages.push(Arc::new(stage));
        }
    }
    stages.push(next.clone());
    stages
}

/// A state between two others. A node that only one of them has gets its document of that one.
fn merged(
    before: &Published,
    next: &Published,
    merge: &dyn Fn(&Compiled, &Compiled) -> Compiled,
) -> Published {
    let mut documents = next.documents.clone();
    for (recipient, old) in &before.documents {
        let document = match next.documents.get(recipient) {
            None => old.clone(),
            Some(new) if new.part.hash == old.part.hash => continue,
            Some(new) => Document::new(merge(&old.compiled, &new.compiled)),
        };
        documents.insert(recipient.clone(), document);
    }
    Published {
        documents,
        ..next.clone()
    }
}

fn has_same_documents(one: &Published, other: &Published) -> bool {
    let hashes = |state: &Published| -> Vec<_> {
        let documents = state.documents.iter();
        documents
            .map(|(recipient, document)| (recipient.clone(), document.part.hash))
            .collect()
    };
    hashes(one) == hashes(other)
}

/// The waves of each stage. The last one removes, if there are several.
fn waves_of(
    fleet: &fleet::Fleet,
    before: &Arc<Published>,
    stages: &[Arc<Published>],
) -> Vec<Vec<Wave>> {
    let mut earlier = before;
    let mut all = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        let is_last_of_several = index > 0 && index + 1 == stages.len();
        let order = match is_last_of_several {
            true => Order::SendersFirst,
            false => Order::ReceiversFirst,
        };
        let concerned = fleet.nodes().iter();
        let concerned = concerned.filter(|(_, record)| differs(stage, earlier, record));
        let ranked: Vec<_> = concerned
            .map(|(name, record)| ranked(stage, name, record))
            .collect();
        all.push(waves(&ranked, order));
        earlier = stage;
    }
    all
}

/// Whether a node gets other parts by a stage.
fn differs(stage: &Published, earlier: &Published, record: &fleet::NodeRecord) -> bool {
    let recipient = |state: &Published| state.recipient(&record.node, record.user.as_ref());
    stage.parts(&recipient(stage)) != earlier.parts(&recipient(earlier))
}

fn ranked(stage: &Published, name: &Name, record: &fleet::NodeRecord) -> RankedNode {
    let document = stage.document(&stage.recipient(name, record.user.as_ref()));
    RankedNode {
        name: name.clone(),
        rank: document.map_or(0, |document| document.compiled.rank),
        class: match &record.user {
            Some(_) => "devices".to_owned(),
            None => document.map_or_else(String::new, |document| {
                format!("rank {}", document.compiled.rank)
            }),
        },
    }
}

fn called(recipient: &Recipient) -> String {
    match recipient {
        Recipient::Node(name) => name.to_string(),
        Recipient::Devices => "devices".to_owned(),
    }
}
