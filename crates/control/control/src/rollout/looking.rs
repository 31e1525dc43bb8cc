//! The first nodes with a stage are looked at before others follow.

use std::collections::{BTreeMap, BTreeSet};

use hermes_api::{Health, Name};

use super::judgement::{StopBounds, is_busy};
use super::waves::Stage;

/// The time between two looks, in milliseconds.
const LOOK: u64 = 1000;

/// How long a node may take to say how its exchanges go, in milliseconds. One that cannot say is not worse off for that.
#[doc(alias = "bound")]
const ANSWER: u64 = 2000;

/// How long nodes are looked at, and how much worse they may be.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bake {
    /// In milliseconds; 0 for not at all.
    pub time: u64,
    /// The stages that decide anew. Others only add or remove.
    pub stages: Vec<Stage>,
    /// Also nodes that had few exchanges before the change, which show little.
    pub is_asked_for: bool,
    /// How much worse they may be.
    pub bounds: StopBounds,
}

/// The consequence of a look.
pub(super) enum Looked {
    /// The next wave may begin.
    Passed,
    /// It is too early to say.
    Waits,
    /// The nodes have to be asked.
    Asks,
}

/// The look at one wave.
#[derive(Debug)]
pub(super) struct Looking {
    bake: Bake,
    /// When the last node of the wave had its stage in force.
    in_force: Option<u64>,
    /// When the nodes were asked last.
    asked: Option<u64>,
    /// How often nodes were asked in this change.
    rounds: u64,
    /// The last answers.
    answers: BTreeMap<Name, Health>,
    /// Nodes that have answered since they were asked last.
    answered: BTreeSet<Name>,
}

impl Looking {
    pub(super) fn new(bake: Bake) -> Self {
        Self {
            bake,
            in_force: None,
            asked: None,
            rounds: 0,
            answers: BTreeMap::new(),
            answered: BTreeSet::new(),
        }
    }

    /// Whether nodes with this stage are looked at.
    pub(super) fn is_of(&self, stage: Stage) -> bool {
        self.bake.time > 0 && self.bake.stages.contains(&stage)
    }

    /// Another wave begins.
    pub(super) fn forget(&mut self) {
        self.in_force = None;
        self.asked = None;
        self.answers.clear();
        self.answered.clear();
    }

    /// How often the nodes were asked, while they are.
    pub(super) fn round(&self) -> Option<u64> {
        self.asked.map(|_| self.rounds)
    }

    /// A node has said how its exchanges go; returns the reason why the change has to end.
    pub(super) fn heard(&mut self, node: &Name, health: &Health) -> Option<String> {
        self.answers.insert(node.clone(), health.clone());
        self.answered.insert(node.clone());
        self.bake.bounds.failing(health)
            // The slowest of the first few exchanges would be compared again and again: chance finds one in the end.
            .or_else(|| self.bake.bounds.slow(health).filter(|_| self.is_last_round()))
    }

    /// The wave is in force at these nodes, which attend.
    pub(super) fn tick(&mut self, nodes: &[Name], now: u64) -> Looked {
        let since = *self.in_force.get_or_insert(now);
        if !self.is_worthwhile(nodes) {
            return Looked::Passed;
        }
        let is_due = now.saturating_sub(since) >= self.bake.time;
        let Some(asked) = self.asked else {
            return self.ask(now);
        };
        if is_due && self.is_last_round() {
            let is_over = nodes.iter().all(|node| self.answered.contains(node))
                || now.saturating_sub(asked) >= ANSWER;
            return match is_over {
                true => Looked::Passed,
                false => Looked::Waits,
            };
        }
        match is_due || now.saturating_sub(asked) >= LOOK {
            true => self.ask(now),
            false => Looked::Waits,
        }
    }

    /// Whether the nodes carry enough to be compared with themselves.
    fn is_worthwhile(&self, nodes: &[Name]) -> bool {
        let is_busy = |node: &Name| self.answers.get(node).is_some_and(is_busy);
        self.bake.is_asked_for || nodes.iter().any(is_busy)
    }

    fn ask(&mut self, now: u64) -> Looked {
        self.asked = Some(now);
        self.rounds += 1;
        self.answered.clear();
        Looked::Asks
    }

    /// Whether the nodes were asked at the end of the time.
    fn is_last_round(&self) -> bool {
        let both = self.in_force.zip(self.asked);
        both.is_some_and(|(since, asked)| asked.saturating_sub(since) >= self.bake.time)
    }
}
