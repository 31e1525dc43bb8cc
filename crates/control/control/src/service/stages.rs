//! The states between two states of the overlay, and the order in which nodes get them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_api::Name;

use super::fleet::{Fleet, NodeRecord};
use super::in_force::compiled;
use super::published::{Document, Published};
use crate::compile::{
    Compiled, Documents, Recipient, between, has_order, is_partible, mixed, turns, way_points,
};
use crate::resources::{Kind, Tree};
use crate::rollout::{Order, RankedNode, Stage, Wave, waves};

/// The stages of a change depend on these, besides its two states.
#[derive(Clone, Copy)]
pub(super) struct Making<'a> {
    /// The trust domain of the overlay.
    pub(super) domain: &'a str,
    /// Nodes that have a stage first.
    pub(super) canaries: usize,
}

/// How a change spreads.
pub(super) struct Spread {
    /// States one after the other, the last of which is the next one of the overlay.
    pub(super) states: Vec<Arc<Published>>,
    /// The waves of each.
    pub(super) waves: Vec<Vec<Wave>>,
    /// Those in which nodes decide anew.
    pub(super) decides: Vec<Stage>,
}

impl Spread {
    /// To all nodes at once.
    pub(super) fn at_once(fleet: &Fleet, before: &Published, next: &Arc<Published>) -> Self {
        let concerned = concerned(fleet, before, next).into_iter();
        let wave = Wave::of(concerned.map(|record| record.node.clone()));
        Self {
            states: vec![next.clone()],
            waves: vec![vec![wave]],
            decides: vec![1],
        }
    }

    /// Through states such that no exchange fails meanwhile: nodes take what others will send, decide anew, and forget what others have
    /// sent.
    pub(super) fn in_stages(
        fleet: &Fleet,
        before: &Arc<Published>,
        next: &Arc<Published>,
        making: Making<'_>,
    ) -> Self {
        let mut spread = Self {
            states: Vec::new(),
            waves: Vec::new(),
            decides: Vec::new(),
        };
        let mut earlier = before.clone();
        for turn in turns_of(before, next, making.domain) {
            spread.turn(fleet, &earlier, &turn, making.canaries);
            earlier = turn.leads_to;
        }
        spread
    }

    /// Adds the stages of one turn.
    fn turn(
        &mut self,
        fleet: &Fleet,
        before: &Arc<Published>,
        turn: &PlannedTurn,
        canaries: usize,
    ) {
        let first = self.states.len();
        let stages = TurnStages::new(before, &turn.leads_to);
        self.states.extend(stages.states);
        self.decides.push(first + stages.decides);

        let mut earlier = before;
        for (index, stage) in self.states[first..].iter().enumerate() {
            let is_last_of_several = index > 0 && first + index + 1 == self.states.len();
            let order = match is_last_of_several {
                true => Order::SendersFirst,
                false => Order::ReceiversFirst,
            };
            let concerned = concerned(fleet, earlier, stage).into_iter();
            let ranked: Vec<_> = concerned
                .map(|record| ranked(stage, record, turn.ranks.as_ref()))
                .collect();
            self.waves.push(waves(&ranked, order, canaries));
            earlier = stage;
        }
    }
}

/// The stages of one turn.
struct TurnStages {
    states: Vec<Arc<Published>>,
    /// The one in which nodes decide anew, from 1 on.
    decides: Stage,
}

impl TurnStages {
    fn new(before: &Arc<Published>, next: &Arc<Published>) -> Self {
        let taking = merged(before, next, &|before, next| between(next, before));
        let deciding = merged(before, next, &between);
        let mut states: Vec<Arc<Published>> = Vec::new();
        let mut decides = None;
        for (stage, is_deciding) in [(taking, false), (deciding, true)] {
            let last = states.last().unwrap_or(before);
            if !stage.differing(last).is_empty() && !next.differing(&stage).is_empty() {
                states.push(Arc::new(stage));
                decides = is_deciding.then_some(states.len());
            }
        }
        states.push(next.clone());
        Self {
            // Without a stage between, it is the last one in which nodes decide anew.
            decides: decides.unwrap_or(states.len()),
            states,
        }
    }
}

/// All states of a change, the last of which is the next one.
pub(super) fn states(
    before: &Arc<Published>,
    next: &Arc<Published>,
    domain: &str,
) -> Vec<Arc<Published>> {
    let mut all = Vec::new();
    let mut earlier = before.clone();
    for turn in turns_of(before, next, domain) {
        all.extend(TurnStages::new(&earlier, &turn.leads_to).states);
        earlier = turn.leads_to;
    }
    all
}

/// A part of a change.
struct PlannedTurn {
    leads_to: Arc<Published>,
    /// `None`: those of the documents.
    ranks: Option<BTreeMap<Name, u32>>,
}

/// The turns of a change, the last of which leads to its end. Mostly there is one.
fn turns_of(before: &Arc<Published>, next: &Arc<Published>, domain: &str) -> Vec<PlannedTurn> {
    let mut planned = Vec::new();
    let mut earlier = before.clone();
    for point in points(before, next, domain) {
        planned.extend(turns_between(&earlier, &point));
        earlier = point;
    }
    planned.extend(turns_between(&earlier, next));
    planned
}

/// The states by which a change goes that has no order as a whole.
fn points(before: &Arc<Published>, next: &Published, domain: &str) -> Vec<Arc<Published>> {
    let is_partible = is_partible(&before.tree, &next.tree);
    if !is_partible || has_order(&documents(before), &documents(next)) {
        return Vec::new();
    }
    let made = |tree: &Tree| {
        let documents = compiled(tree, domain, Some(before)).ok()?;
        Some(Published {
            tree: Arc::new(tree.clone()),
            documents,
            ..next.clone()
        })
    };
    let has_order = |one: &Tree, other: &Tree| match (made(one), made(other)) {
        (Some(one), Some(other)) => has_order(&documents(&one), &documents(&other)),
        _ => false,
    };
    let trees = way_points(&before.tree, &next.tree, &has_order);
    let points = trees.iter().filter_map(made);
    points.map(Arc::new).collect()
}

fn turns_between(before: &Published, next: &Arc<Published>) -> Vec<PlannedTurn> {
    let mut planned = Vec::new();
    for turn in turns(&documents(before), &documents(next)) {
        let state = merged(before, next, &|before, next| {
            mixed(before, next, &turn.decided)
        });
        planned.push(PlannedTurn {
            leads_to: Arc::new(state),
            ranks: Some(turn.ranks),
        });
    }
    match planned.last_mut() {
        Some(last) => last.leads_to = next.clone(),
        None => planned.push(PlannedTurn {
            leads_to: next.clone(),
            ranks: None,
        }),
    }
    planned
}

fn documents(state: &Published) -> Documents<'_> {
    let documents = state.documents.iter();
    documents
        .map(|(recipient, document)| (recipient.clone(), &document.compiled))
        .collect()
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

/// The nodes that get other parts by a stage, in the order of their names. Only those are looked at whose document may be another one:
/// the node of its name, or all devices.
pub(super) fn concerned<'f>(
    fleet: &'f Fleet,
    earlier: &Published,
    stage: &Published,
) -> Vec<&'f NodeRecord> {
    let differing = stage.differing(earlier);
    let gets = |record: &&NodeRecord| differs(stage, earlier, record);
    if !stage.has_same_shared(earlier) || differing.contains(&&Recipient::Devices) {
        return fleet.nodes().values().filter(gets).collect();
    }
    let named = differing
        .into_iter()
        .filter_map(|recipient| match recipient {
            Recipient::Node(name) => Some(name.clone()),
            Recipient::Devices => None,
        });
    let mut names: BTreeSet<Name> = named.collect();
    // A device without a resource from now on, or with one, gets another document although neither has changed.
    if !Arc::ptr_eq(&stage.tree, &earlier.tree) {
        let keys = earlier.tree.differing(&stage.tree).into_iter();
        let nodes = keys.filter(|key| key.kind == Kind::Node);
        names.extend(nodes.map(|key| key.name));
    }
    let records = names.iter().filter_map(|name| fleet.nodes().get(name));
    records.filter(gets).collect()
}

/// Whether a node gets other parts by a stage.
fn differs(stage: &Published, earlier: &Published, record: &NodeRecord) -> bool {
    let recipient = |state: &Published| state.recipient(&record.node, record.user.as_ref());
    stage.hashes(&recipient(stage)) != earlier.hashes(&recipient(earlier))
}

fn ranked(
    stage: &Published,
    record: &NodeRecord,
    ranks: Option<&BTreeMap<Name, u32>>,
) -> RankedNode {
    let name = &record.node;
    let document = stage.document(&stage.recipient(name, record.user.as_ref()));
    let of_document = document.map_or(0, |document| document.compiled.rank);
    RankedNode {
        name: name.clone(),
        rank: match ranks {
            // The others of a turn wait for no one, but devices send to all.
            Some(ranks) if record.user.is_none() => ranks.get(name).copied().unwrap_or(0),
            _ => of_document,
        },
        class: match &record.user {
            Some(_) => "devices".to_owned(),
            None => document.map_or_else(String::new, |document| {
                format!("rank {}", document.compiled.rank)
            }),
        },
    }
}
