//! The nodes that attend, their states and their targets. Without input or output.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_api::{Hash, Health, Name, Progress, Revision};
use tokio::sync::Notify;

use super::outcome::Spreading;
use super::published::Published;
use crate::authority::Member;
use crate::rollout::{Bake, Event, Rollout, Stage, Wave};

/// The nodes that attend, and the change under way.
pub(super) struct Fleet {
    /// The state before the change, its stages, and at the end the state that it leads to. Without a change there is one.
    stages: Vec<Arc<Published>>,
    /// How many changes there were.
    change: u64,
    /// The state of before under a later revision, for the end of a change that is stopped: nodes go back to no earlier one.
    back: Option<Arc<Published>>,
    rollout: Option<Rollout>,
    /// The nodes of a change of an earlier leader come.
    gathers: Option<Gathers>,
    overlay: Option<Name>,
    /// The last change is over, and the store and the operator do not know yet.
    is_unsettled: bool,
    nodes: BTreeMap<Name, NodeRecord>,
    /// The user of each device among them. A change that spreads shares it.
    owners: Arc<BTreeMap<Name, Name>>,
    sessions: u64,
    /// Streams up to this one are of an earlier time as the leader.
    dismissed: u64,
}

/// A change that is to spread.
pub(super) struct Change {
    /// The states after the one in force.
    pub(super) stages: Vec<Arc<Published>>,
    /// The waves of each.
    pub(super) waves: Vec<Vec<Wave>>,
    /// The state in force under a revision after those of the stages.
    pub(super) back: Arc<Published>,
    /// How its first nodes are looked at.
    pub(super) bake: Bake,
}

/// A change that an earlier leader has begun.
pub(super) struct Gathering {
    pub(super) overlay: Name,
    /// The state before it, and its stages.
    pub(super) stages: Vec<Arc<Published>>,
    /// The state before it under a later revision.
    pub(super) back: Arc<Published>,
    /// Members that may come.
    pub(super) members: BTreeSet<Name>,
    /// How long they have, in milliseconds.
    pub(super) until: u64,
}

/// The time in which the nodes of such a change come.
struct Gathers {
    until: u64,
    /// Members that have not come.
    missing: BTreeSet<Name>,
    /// The stage that each node came with, where it is another one than the state before.
    came_with: BTreeMap<Name, Stage>,
}

/// A node that attends, or has done since the controller started.
#[derive(Debug)]
pub(super) struct NodeRecord {
    pub(super) node: Name,
    pub(super) user: Option<Name>,
    /// Of its program.
    pub(super) version: String,
    /// Of its program.
    pub(super) binary: Option<Hash>,
    /// Unix seconds at which it came or left.
    pub(super) since: u64,
    pub(super) session: Option<Session>,
    /// Its last word.
    pub(super) word: Option<Word>,
    /// How often an operator has asked to bring it up to date.
    pub(super) updates: u64,
}

/// The last acknowledgement of a node.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) revision: Revision,
    pub(super) progress: Progress,
    /// Each with its resource, field, file and line.
    pub(super) mistakes: Vec<String>,
    pub(super) report: String,
    /// How its exchanges went then.
    pub(super) health: Option<Health>,
}

/// A stream of a node.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) id: u64,
    /// Wakes it to look at its target again.
    pub(super) wake: Arc<Notify>,
}

/// The target of a node.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) published: Arc<Published>,
    pub(super) mark: Mark,
    /// How often it was asked how its exchanges go; `None` while no one wants to know.
    pub(super) asked: Option<u64>,
    /// How often an operator has asked for it: then it is offered also if it was refused.
    pub(super) updates: u64,
}

/// A stage of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    change: u64,
    stage: Stage,
}

/// The first words of a node that comes.
pub(super) struct Arrival {
    pub(super) member: Member,
    pub(super) version: String,
    pub(super) binary: Option<Hash>,
    /// The parts that it has in force.
    pub(super) content: Option<Hash>,
}

impl Fleet {
    /// No node attends yet, and this is what they should have.
    pub(super) fn new(published: Arc<Published>) -> Self {
        Self {
            stages: vec![published],
            change: 0,
            back: None,
            rollout: None,
            gathers: None,
            overlay: None,
            is_unsettled: false,
            nodes: BTreeMap::new(),
            owners: Arc::default(),
            sessions: 0,
            dismissed: 0,
        }
    }

    /// The state that all nodes should have in the end.
    pub(super) fn published(&self) -> &Arc<Published> {
        // There is always one, from `new` on.
        &self.stages[self.stages.len() - 1]
    }

    /// Whether a change is under way. It is until its end was settled: another one would begin from a state that is left.
    pub(super) fn is_changing(&self) -> bool {
        self.rollout.is_some() || self.is_unsettled
    }

    /// Whether nodes are still being brought to another state.
    #[cfg(test)]
    pub(super) fn is_spreading(&self) -> bool {
        self.rollout.is_some()
    }

    /// How far the change under way has spread.
    pub(super) fn spreading(&self) -> Option<Spreading> {
        let rollout = self.rollout.as_ref()?;
        let (stage, wave) = rollout.position();
        let waves = rollout.waves(stage);
        let nodes = waves.get(wave);
        Some(Spreading {
            stage,
            stages: self.stages.len() - 1,
            wave: wave + 1,
            waves: waves.len(),
            nodes: nodes.map_or_else(Vec::new, |wave| wave.nodes.clone()),
            waiting: rollout.waiting().cloned().collect(),
        })
    }

    /// The end of a change is known to all.
    pub(super) fn settled(&mut self) {
        self.is_unsettled = false;
    }

    /// The nodes that have attended.
    pub(super) fn nodes(&self) -> &BTreeMap<Name, NodeRecord> {
        &self.nodes
    }

    /// A node has come. An earlier stream of the same node ends: it is woken, and finds that it is not the last.
    pub(super) fn came(&mut self, arrival: Arrival, now: u64) -> Session {
        self.sessions += 1;
        let session = Session {
            id: self.sessions,
            wake: Arc::new(Notify::new()),
        };
        if let Some(gathers) = &mut self.gathers {
            gathers.missing.remove(&arrival.member.node);
        }
        self.keep_stage(&arrival);
        let record = NodeRecord {
            node: arrival.member.node.clone(),
            user: arrival.member.user,
            version: arrival.version,
            binary: arrival.binary,
            since: now,
            session: Some(session.clone()),
            word: None,
            updates: 0,
        };
        self.own(&record);
        // A cloned key shows itself here: two streams of one node end each other.
        let before = self.nodes.insert(arrival.member.node.clone(), record);
        if let Some(earlier) = before.and_then(|record| record.session) {
            tracing::warn!(member = %arrival.member.node, "the node attends anew; its earlier stream ends");
            earlier.wake.notify_one();
        }
        session
    }

    /// Remembers the stage of the change under way that a node comes with: it goes back to none before.
    fn keep_stage(&mut self, arrival: &Arrival) {
        let node = &arrival.member.node;
        let has_content = |stage: &Arc<Published>| {
            let recipient = stage.recipient(node, arrival.member.user.as_ref());
            let overlay = self.overlay.as_ref()?;
            let statement = stage.statement(overlay, node, &recipient)?;
            Some(Some(statement.content()) == arrival.content)
        };
        let found = self
            .stages
            .iter()
            .rposition(|stage| has_content(stage) == Some(true));
        let Some(stage) = found.filter(|stage| *stage > 0) else {
            return;
        };
        if let Some(rollout) = &mut self.rollout {
            rollout.came(node, stage);
        } else if let Some(gathers) = &mut self.gathers {
            gathers.came_with.insert(node.clone(), stage);
        }
    }

    /// Nodes of a change come that an earlier leader has begun: it goes on later.
    pub(super) fn gather(&mut self, change: Gathering) {
        self.change += 1;
        self.stages = change.stages;
        self.back = Some(change.back);
        self.overlay = Some(change.overlay);
        self.gathers = Some(Gathers {
            until: change.until,
            missing: change.members,
            came_with: BTreeMap::new(),
        });
        self.is_unsettled = true;
        self.wake_all();
    }

    /// The states before and after a change whose nodes have come, or have had their time to.
    pub(super) fn gathered(&self, now: u64) -> Option<[Arc<Published>; 2]> {
        let gathers = self.gathers.as_ref()?;
        let is_over = gathers.missing.is_empty() || now >= gathers.until;
        is_over.then(|| self.ends()).flatten()
    }

    /// The states before and after the change under way.
    pub(super) fn ends(&self) -> Option<[Arc<Published>; 2]> {
        Some([self.stages.first()?.clone(), self.published().clone()])
    }

    /// Whether nodes of such a change still come.
    #[cfg(test)]
    pub(super) fn is_gathering(&self) -> bool {
        self.gathers.is_some()
    }

    /// Goes on with such a change.
    pub(super) fn go_on(&mut self, waves: Vec<Vec<Wave>>, bake: Bake, now: u64) -> Vec<Event> {
        let gathers = self.gathers.take();
        let came_with = gathers.map(|gathers| gathers.came_with).unwrap_or_default();
        let rollout = Rollout::new(waves, bake).of_users(self.owners.clone());
        self.rollout = Some(rollout.resumed(came_with));
        self.step(|rollout, attends| rollout.begin(now, attends))
    }

    /// The controller does not lead (any more): all streams end, and a change goes on elsewhere, if at all.
    pub(super) fn dismiss(&mut self, published: Arc<Published>) {
        self.wake_all();
        *self = Self {
            change: self.change + 1,
            sessions: self.sessions,
            dismissed: self.sessions,
            ..Self::new(published)
        };
    }

    /// Whether a stream has ended by that.
    pub(super) fn is_dismissed(&self, session: u64) -> bool {
        session <= self.dismissed
    }

    /// Whether this is the node's stream.
    pub(super) fn is_current(&self, node: &Name, session: u64) -> bool {
        let found = self
            .nodes
            .get(node)
            .and_then(|record| record.session.as_ref());
        found.is_some_and(|current| current.id == session)
    }

    /// A stream has ended.
    pub(super) fn left(&mut self, node: &Name, session: u64, now: u64) -> Vec<Event> {
        // A stream that was replaced says nothing about the node any more.
        if !self.is_current(node, session) {
            return Vec::new();
        }
        if let Some(record) = self.nodes.get_mut(node) {
            record.session = None;
            record.since = now / 1000;
        }
        if let Some(gathers) = &mut self.gathers {
            // It may come back with less than it had.
            gathers.came_with.remove(node);
            gathers.missing.insert(node.clone());
        }
        self.step(|rollout, attends| rollout.left(node, now, attends))
    }

    /// Remembers whose device a node is.
    fn own(&mut self, record: &NodeRecord) {
        if self.owners.get(&record.node) == record.user.as_ref() {
            return;
        }
        let owners = Arc::make_mut(&mut self.owners);
        match &record.user {
            Some(user) => drop(owners.insert(record.node.clone(), user.clone())),
            None => drop(owners.remove(&record.node)),
        }
    }

    /// A node is no member any more: its stream ends.
    pub(super) fn remove(&mut self, node: &Name) {
        if self.owners.contains_key(node) {
            Arc::make_mut(&mut self.owners).remove(node);
        }
        let removed = self.nodes.remove(node).and_then(|record| record.session);
        if let Some(session) = removed {
            session.wake.notify_one();
        }
    }

    /// The target of a node.
    pub(super) fn target(&self, node: &Name) -> Target {
        let stage = match &self.rollout {
            Some(rollout) => rollout.target(node),
            None => match &self.gathers {
                Some(gathers) => gathers.came_with.get(node).copied().unwrap_or(0),
                None => self.stages.len() - 1,
            },
        };
        Target {
            published: self.stages[stage].clone(),
            mark: Mark {
                change: self.change,
                stage,
            },
            updates: self.nodes.get(node).map_or(0, |record| record.updates),
            asked: self
                .rollout
                .as_ref()
                .and_then(|rollout| rollout.asked(node)),
        }
    }

    /// Whether the turn of a node in the change under way has not come.
    pub(super) fn waits(&self, node: &Name) -> bool {
        self.target(node).mark.stage + 1 < self.stages.len()
    }

    /// Begins a change. `now` is in milliseconds.
    pub(super) fn begin(&mut self, change: Change, now: u64) -> Vec<Event> {
        let before = self.published().clone();
        self.change += 1;
        self.stages = vec![before];
        self.stages.extend(change.stages);
        self.back = Some(change.back);
        let rollout = Rollout::new(change.waves, change.bake);
        self.rollout = Some(rollout.of_users(self.owners.clone()));
        self.is_unsettled = true;
        self.step(|rollout, attends| rollout.begin(now, attends))
    }

    /// Brings a node up to date at once, ahead of its turn; returns whether it attends.
    pub(super) fn update(&mut self, node: &Name) -> bool {
        let record = self.nodes.get_mut(node);
        let Some(record) = record.filter(|record| record.session.is_some()) else {
            return false;
        };
        record.updates += 1;
        let _ = self.step(|rollout, _| rollout.advance(node));
        self.wake(std::slice::from_ref(node));
        true
    }

    /// A state that is in force everywhere at once, such as the one before a change that was stopped.
    pub(super) fn replace(&mut self, published: Arc<Published>) {
        self.change += 1;
        self.stages = vec![published];
        self.rollout = None;
        self.gathers = None;
        self.wake_all();
    }

    /// Every state that nodes have or may get is another one from this revision on, with the same documents; a change goes on.
    pub(super) fn amend(
        &mut self,
        revision: Revision,
        amend: &dyn Fn(&Published, Revision) -> Published,
    ) {
        for stage in &mut self.stages {
            *stage = Arc::new(amend(stage, revision));
        }
        if let Some(back) = &mut self.back {
            *back = Arc::new(amend(back, revision.next()));
        }
        self.wake_all();
    }

    /// The change in force is kept: those who have it for a time only are told.
    pub(super) fn confirm(&mut self, published: Arc<Published>) {
        let last = self.stages.len() - 1;
        self.stages[last] = published;
        self.wake_all();
    }

    /// A node has said how far it has come with a target. `now` is in milliseconds.
    pub(super) fn heard(&mut self, node: &Name, mark: Mark, word: Word, now: u64) -> Vec<Event> {
        let progress = word.progress;
        let reason = word.mistakes.join("; ");
        let health = word.health.clone();
        if let Some(record) = self.nodes.get_mut(node) {
            record.word = Some(word);
        }
        // An answer to an earlier change says nothing about this one.
        if mark.change != self.change {
            return Vec::new();
        }
        match progress {
            Progress::InForce | Progress::Confirmed => {
                // First, since it says whether there is enough to look at.
                let stopped = health.map(|health| self.health(node, mark, &health, now));
                if let Some(stopped) = stopped.filter(|events| !events.is_empty()) {
                    return stopped;
                }
                self.step(|rollout, attends| rollout.in_force(node, mark.stage, now, attends))
            }
            Progress::Refused => self
                .step(|rollout, attends| rollout.refused(node, mark.stage, &reason, now, attends)),
            Progress::Stored | Progress::Returned => Vec::new(),
        }
    }

    /// A node has said how its exchanges go. `now` is in milliseconds.
    pub(super) fn health(
        &mut self,
        node: &Name,
        mark: Mark,
        health: &Health,
        now: u64,
    ) -> Vec<Event> {
        // Figures of an earlier change, or of a stage before, are compared with nothing.
        if mark.change != self.change || self.target(node).mark != mark {
            return Vec::new();
        }
        let word = self
            .nodes
            .get_mut(node)
            .and_then(|record| record.word.as_mut());
        if let Some(word) = word {
            word.health = Some(health.clone());
        }
        self.step(|rollout, attends| rollout.health(node, health, now, attends))
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: u64) -> Vec<Event> {
        self.step(|rollout, attends| rollout.tick(now, attends))
    }

    /// Lets the change take a step, and wakes the nodes that it concerns.
    fn step(
        &mut self,
        take: impl FnOnce(&mut Rollout, &dyn Fn(&Name) -> bool) -> Vec<Event>,
    ) -> Vec<Event> {
        let Some(rollout) = &mut self.rollout else {
            return Vec::new();
        };
        // The rollout asks who attends while it takes the step.
        let nodes = &self.nodes;
        let attends = |node: &Name| {
            nodes
                .get(node)
                .is_some_and(|record| record.session.is_some())
        };
        let events = take(rollout, &attends);
        for event in &events {
            match event {
                Event::Reach { nodes, .. } | Event::Look(nodes) => self.wake(nodes),
                Event::Stopped { .. } => {
                    let before = self.stages[0].clone();
                    let back = self.back.take().unwrap_or(before);
                    self.replace(back);
                }
                Event::Done => {
                    // The last stage is what everybody should have from now on, also who comes later.
                    let last = self.published().clone();
                    self.stages = vec![last];
                    self.rollout = None;
                }
            }
        }
        events
    }

    fn wake(&self, nodes: &[Name]) {
        let sessions = nodes
            .iter()
            .filter_map(|node| self.nodes.get(node)?.session.as_ref());
        sessions.for_each(|session| session.wake.notify_one());
    }

    /// Wakes everybody to look at the target again.
    pub(super) fn wake_all(&self) {
        let sessions = self
            .nodes
            .values()
            .filter_map(|record| record.session.as_ref());
        sessions.for_each(|session| session.wake.notify_one());
    }
}
