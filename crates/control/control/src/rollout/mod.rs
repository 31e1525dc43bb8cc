//! How a change spreads over the nodes: in waves, each of which has to be in force before the next one begins.
//!
//! A change has *stages*, states of the overlay one after the other: stage 0 is the state before it. Where something is added and
//! something else goes away, the stage between has both, so that no node sends to another one that does not know what is meant.
//! Each stage spreads in ranks, and within a rank first to one node, then to a quarter, then to the others. A node that refuses a
//! stage ends the change: the nodes that have it go back. So does one whose exchanges fail, or take longer, since it has the stage
//! that decides anew: the first nodes of each rank are looked at before others follow.
//!
//! A device is its user's machine, and may be anybody's: the devices of one user alone stop a change only while no other user's attends.
//!
//! There is no input, output or clock in here: messages come in by methods, and each returns the [`Event`]s that follow.

mod judgement;
mod looking;
mod waves;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_api::{Health, Name};

pub use judgement::StopBounds;
pub use looking::Bake;
use looking::{Looked, Looking};
pub use waves::{Order, RankedNode, Stage, Wave, waves};

/// How long a wave waits for nodes that attend and say nothing, in milliseconds. Then the change ends as if they had refused.
#[doc(alias = "bound")]
const SILENCE: u64 = 30_000;

/// Users whose devices have to refuse a change to stop it, where so many attend.
#[doc(alias = "bound")]
const DOUBTERS: usize = 2;

/// The consequence of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// These nodes should have this stage now.
    Reach {
        /// The nodes.
        nodes: Vec<Name>,
        /// The stage.
        stage: Stage,
    },
    /// These nodes are to say how their exchanges go.
    Look(Vec<Name>),
    /// The change is over: all nodes should have stage 0 again.
    Stopped {
        /// The node that refused, or said nothing.
        node: Name,
        /// Its reason.
        reason: String,
    },
    /// Every node that attends has the last stage.
    Done,
}

/// A change that spreads.
#[derive(Debug)]
pub struct Rollout {
    /// The waves of each stage, beginning with stage 1.
    stages: Vec<Vec<Wave>>,
    stage: Stage,
    wave: usize,
    /// The stage that each node was told to have; others have stage 0.
    told: BTreeMap<Name, Stage>,
    /// The stage that each node has in force.
    has: BTreeMap<Name, Stage>,
    /// Nodes of the wave that have not said yet that it is in force.
    waiting: BTreeSet<Name>,
    /// When the wave began, in milliseconds.
    began: u64,
    looking: Looking,
    /// The user of each device.
    owners: Arc<BTreeMap<Name, Name>>,
    /// Users whose devices have refused it.
    doubters: BTreeSet<Name>,
    is_over: bool,
}

impl Rollout {
    /// A change that has not begun: the waves of stages 1, 2 and so on.
    pub fn new(stages: Vec<Vec<Wave>>, bake: Bake) -> Self {
        Self {
            stages,
            stage: 1,
            wave: 0,
            told: BTreeMap::new(),
            has: BTreeMap::new(),
            waiting: BTreeSet::new(),
            began: 0,
            looking: Looking::new(bake),
            owners: Arc::default(),
            doubters: BTreeSet::new(),
            is_over: false,
        }
    }

    /// With the user of each device.
    #[must_use]
    pub fn of_users(mut self, owners: Arc<BTreeMap<Name, Name>>) -> Self {
        self.owners = owners;
        self
    }

    /// With the stages that nodes have already, of an earlier leader that had begun the same change.
    #[must_use]
    pub fn resumed(mut self, has: BTreeMap<Name, Stage>) -> Self {
        self.told.clone_from(&has);
        self.has = has;
        self
    }

    /// A node comes that has a stage already: it is not taken back to an earlier one.
    pub fn came(&mut self, node: &Name, stage: Stage) {
        if !self.is_over {
            let told = self.told.entry(node.clone()).or_default();
            *told = stage.max(*told);
        }
    }

    /// The stage that a node should have now.
    pub fn target(&self, node: &Name) -> Stage {
        self.told.get(node).copied().unwrap_or(0)
    }

    /// How often the nodes of the wave were asked how their exchanges go; `None` of a node that is not.
    pub fn asked(&self, node: &Name) -> Option<u64> {
        let wave = self.stages.get(self.stage - 1)?.get(self.wave)?;
        self.looking
            .round()
            .filter(|_| wave.nodes.contains(node) && !self.is_over)
    }

    /// The stage and the number of its wave, from 0, that spread now.
    pub fn position(&self) -> (Stage, usize) {
        (self.stage, self.wave)
    }

    /// The waves of a stage, from 1.
    pub fn waves(&self, stage: Stage) -> &[Wave] {
        let waves = stage
            .checked_sub(1)
            .and_then(|index| self.stages.get(index));
        waves.map_or(&[], Vec::as_slice)
    }

    /// Nodes of the wave that have not said yet that it is in force.
    pub fn waiting(&self) -> impl Iterator<Item = &Name> {
        self.waiting.iter()
    }

    /// Whether nothing more will happen.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Begins with the first wave. `attends` says which nodes are there: others are not waited for.
    pub fn begin(&mut self, now: u64, attends: &dyn Fn(&Name) -> bool) -> Vec<Event> {
        self.begin_wave(now, attends)
    }

    /// The nodes of the current wave are told; waves without a node that attends pass at once.
    fn begin_wave(&mut self, now: u64, attends: &dyn Fn(&Name) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let Some(waves) = self.stages.get(self.stage - 1) else {
                self.is_over = true;
                events.push(Event::Done);
                return events;
            };
            let Some(Wave { nodes, is_canary }) = waves.get(self.wave).cloned() else {
                self.stage += 1;
                self.wave = 0;
                continue;
            };

            let stage = self.stage;
            for node in &nodes {
                // One that was brought up to date alone has a later stage.
                let told = self.told.entry(node.clone()).or_default();
                *told = stage.max(*told);
            }
            let lacks = |node: &&Name| self.has.get(*node).is_none_or(|has| *has < stage);
            let waiting = nodes.iter().filter(|node| attends(node)).filter(lacks);
            self.waiting = waiting.cloned().collect();
            // A leader before may have been lost while it looked at them.
            let is_looked_at = is_canary && self.looking.is_of(stage) && nodes.iter().any(attends);
            events.push(Event::Reach { nodes, stage });
            self.began = now;
            self.looking.forget();
            if !self.waiting.is_empty() || is_looked_at {
                return events;
            }
            self.wave += 1;
        }
    }

    /// A node has put a stage in force.
    pub fn in_force(
        &mut self,
        node: &Name,
        stage: Stage,
        now: u64,
        attends: &dyn Fn(&Name) -> bool,
    ) -> Vec<Event> {
        if self.is_over {
            return Vec::new();
        }
        self.has.insert(node.clone(), stage);
        if stage < self.stage {
            return Vec::new();
        }
        self.waiting.remove(node);
        self.tick(now, attends)
    }

    /// A node says how its exchanges go since it has its stage.
    pub fn health(
        &mut self,
        node: &Name,
        health: &Health,
        now: u64,
        attends: &dyn Fn(&Name) -> bool,
    ) -> Vec<Event> {
        let wave = self
            .stages
            .get(self.stage - 1)
            .and_then(|waves| waves.get(self.wave));
        let is_tried = wave.is_some_and(|wave| wave.is_canary && wave.nodes.contains(node));
        if self.is_over || !is_tried || !self.looking.is_of(self.stage) {
            return Vec::new();
        }
        match self.looking.heard(node, health) {
            Some(reason) if self.is_stopped_by(node, attends) => self.stop(node.clone(), reason),
            _ => self.tick(now, attends),
        }
    }

    /// Whether a node that does not want the change ends it.
    fn is_stopped_by(&mut self, node: &Name, attends: &dyn Fn(&Name) -> bool) -> bool {
        let Some(user) = self.owners.get(node) else {
            return true;
        };
        self.doubters.insert(user.clone());
        let there = self.owners.iter().filter(|(device, _)| attends(device));
        let there: BTreeSet<_> = there.map(|(_, user)| user).collect();
        self.doubters.len() >= there.len().min(DOUBTERS)
    }

    /// Brings one node up to the last stage at once, ahead of its wave. An operator has asked for that.
    pub fn advance(&mut self, node: &Name) -> Vec<Event> {
        let last = self.stages.len();
        if self.is_over || self.target(node) == last {
            return Vec::new();
        }
        self.told.insert(node.clone(), last);
        vec![Event::Reach {
            nodes: vec![node.clone()],
            stage: last,
        }]
    }

    /// A node has refused a stage.
    pub fn refused(
        &mut self,
        node: &Name,
        stage: Stage,
        reason: &str,
        now: u64,
        attends: &dyn Fn(&Name) -> bool,
    ) -> Vec<Event> {
        // A node that had been told another stage in the meantime refuses what no one asks of it any more.
        if self.is_over || stage == 0 || self.target(node) != stage {
            return Vec::new();
        }
        if self.is_stopped_by(node, attends) {
            return self.stop(node.clone(), reason.to_owned());
        }
        self.waiting.remove(node);
        self.tick(now, attends)
    }

    /// A node is gone: it is not waited for, and gets the stage that it should have when it comes back.
    pub fn left(&mut self, node: &Name, now: u64, attends: &dyn Fn(&Name) -> bool) -> Vec<Event> {
        self.waiting.remove(node);
        // It may come back with less than it had.
        self.has.remove(node);
        self.tick(now, attends)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: u64, attends: &dyn Fn(&Name) -> bool) -> Vec<Event> {
        if self.is_over {
            return Vec::new();
        }
        if !self.waiting.is_empty() && now.saturating_sub(self.began) < SILENCE {
            return Vec::new();
        }
        for node in std::mem::take(&mut self.waiting) {
            if self.is_stopped_by(&node, attends) {
                let reason = format!("it has said nothing for {} s", SILENCE / 1000);
                return self.stop(node, reason);
            }
        }

        let wave = self
            .stages
            .get(self.stage - 1)
            .and_then(|waves| waves.get(self.wave));
        if let Some(wave) = wave.filter(|wave| wave.is_canary)
            && self.looking.is_of(self.stage)
        {
            let nodes: Vec<Name> = wave
                .nodes
                .iter()
                .filter(|node| attends(node))
                .cloned()
                .collect();
            match self.looking.tick(&nodes, now) {
                Looked::Passed => {}
                Looked::Waits => return Vec::new(),
                Looked::Asks => return vec![Event::Look(nodes)],
            }
        }
        self.wave += 1;
        self.begin_wave(now, attends)
    }

    /// Ends the change, such as for a sign that a node is worse off with it.
    pub fn stop(&mut self, node: Name, reason: String) -> Vec<Event> {
        if self.is_over {
            return Vec::new();
        }
        self.is_over = true;
        self.told.clear();
        self.waiting.clear();
        vec![Event::Stopped { node, reason }]
    }
}

#[cfg(test)]
mod tests;
