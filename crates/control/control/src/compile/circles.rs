//! The order in which names take their next ways, where nodes send to each other.
//!
//! Within the way of one name there is an order from receivers to senders. Where one name moves from a node to its neighbour and another one
//! the other way round, no order of these nodes serves both: then a change is made in turns, each with names that have an order in common.

use std::collections::{BTreeMap, BTreeSet};

use hermes_api::Name;
use hermes_config::model::{HostMatch, TargetMatch};
use serde_json::Value as Json;

use super::between::{elements, is_slice, subjects_of};
use super::rank::ranks;
use super::{Compiled, Recipient};

/// Turns of one change. Names for which there is no further one move together, and may fail for a moment.
#[doc(alias = "bound")]
const TURNS: usize = 8;

/// A part of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// Targets that are decided as after the change from this turn on, in lower case.
    pub decided: BTreeSet<String>,
    /// Nodes to which a node sends for these targets have a smaller rank. Others have none.
    pub ranks: BTreeMap<Name, u32>,
    /// Whether that holds for all: not where even the exchanges for one target go both ways, as different users mean different services.
    pub has_order: bool,
}

/// The documents of a state.
pub type Documents<'c> = BTreeMap<Recipient, &'c Compiled>;

/// Who sends to whom for some targets: senders by receiver.
type Senders = BTreeMap<Name, BTreeSet<Name>>;

/// The turns of a change, the last of which leads to the state after it; empty where the ranks of the documents are an order for all names.
pub fn turns(before: &Documents<'_>, after: &Documents<'_>) -> Vec<Turn> {
    if !has_circle(before, after) || has_any_target(before) || has_any_target(after) {
        return Vec::new();
    }
    let mut parts: Vec<MovingNames> = Vec::new();
    for class in classes(before, after) {
        let part = MovingNames::new(class, before, after);
        if !part.senders.is_empty() && part.differs(before, after) {
            take(&mut parts, part);
        }
    }

    // Names that do not move are decided as after the change at any time.
    let mut decided: BTreeSet<String> = all_targets(before, after);
    for part in &parts {
        decided.retain(|target| !part.targets.contains(target));
    }
    let mut turns = Vec::new();
    for part in parts {
        decided.extend(part.targets.iter().cloned());
        turns.push(Turn {
            decided: decided.clone(),
            ranks: part.ranks(),
            has_order: part.has_order(),
        });
    }
    turns
}

/// Whether each name of a change has an order from receivers to senders, in turns or at once.
pub fn has_order(before: &Documents<'_>, after: &Documents<'_>) -> bool {
    match turns(before, after) {
        turns if turns.is_empty() => !has_circle(before, after),
        turns => turns.iter().all(|turn| turn.has_order),
    }
}

/// Whether nodes with other documents than before send to each other.
fn has_circle(before: &Documents<'_>, after: &Documents<'_>) -> bool {
    let rank = |node: &str| {
        let name = Recipient::Node(node.parse().ok()?);
        after.get(&name).map(|compiled| compiled.rank)
    };
    let differs = |(recipient, compiled): &(&Recipient, &&Compiled)| {
        before.get(*recipient).is_some_and(|known| {
            // The same one in memory is not compared.
            !std::ptr::eq(*known, **compiled) && known.document != compiled.document
        })
    };
    after.iter().filter(differs).any(|(_, compiled)| {
        let peers = compiled.document.get("peers").and_then(Json::as_object);
        let peers = peers.into_iter().flat_map(|peers| peers.keys());
        let mut senders = peers.filter_map(|peer| peer.strip_prefix("node-"));
        senders.any(|sender| rank(sender).is_some_and(|rank| rank <= compiled.rank))
    })
}

/// The keys of routes that lead to what a name means.
const LEADING: [&str; 3] = ["to", "terminate", "handle"];

/// Whether routes are for any target, and so cannot be parted.
fn has_any_target(documents: &Documents<'_>) -> bool {
    let routes =
        proxies(documents).flat_map(|(_, compiled)| elements(&compiled.document, "routes"));
    let mut routes = routes.filter(|route| LEADING.iter().any(|key| route.get(key).is_some()));
    routes.any(|route| subjects_of([route].into_iter()).is_empty())
}

fn proxies<'d, 'c>(
    documents: &'d Documents<'c>,
) -> impl Iterator<Item = (&'d Name, &'c Compiled)> + use<'d, 'c> {
    documents
        .iter()
        .filter_map(|(recipient, compiled)| match recipient {
            Recipient::Node(name) if compiled.rank < u32::MAX => Some((name, *compiled)),
            _ => None,
        })
}

fn all_targets(before: &Documents<'_>, after: &Documents<'_>) -> BTreeSet<String> {
    let all = proxies(before).chain(proxies(after));
    all.flat_map(|(_, compiled)| subjects_of(elements(&compiled.document, "routes")))
        .collect()
}

/// Targets in groups such that an exchange is for those of one group alone.
fn classes(before: &Documents<'_>, after: &Documents<'_>) -> Vec<BTreeSet<String>> {
    let mut hosts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut patterns: BTreeSet<String> = BTreeSet::new();
    let mut matches: Vec<HostMatch> = Vec::new();
    let mut classes = Vec::new();
    for target in all_targets(before, after) {
        if is_slice(&target) {
            classes.push(BTreeSet::from([target]));
            continue;
        }
        match target.parse::<TargetMatch>().map(|target| target.host) {
            Ok(HostMatch::Exact(host)) => drop(hosts.entry(host).or_default().insert(target)),
            Ok(pattern) => {
                matches.push(pattern);
                patterns.insert(target);
            }
            Err(_) => drop(patterns.insert(target)),
        }
    }
    // Patterns may overlap with each other: they move together, with all hosts that they match.
    for (host, targets) in hosts {
        match matches.iter().any(|pattern| pattern.matches(&host)) {
            true => patterns.extend(targets),
            false => classes.push(targets),
        }
    }
    if !patterns.is_empty() {
        classes.push(patterns);
    }
    classes
}

/// Targets that move together.
#[derive(Debug)]
struct MovingNames {
    targets: BTreeSet<String>,
    senders: Senders,
}

impl MovingNames {
    /// Who sends another way than before comes after those to whom it sends; others need no order.
    fn new(targets: BTreeSet<String>, before: &Documents<'_>, after: &Documents<'_>) -> Self {
        let old: BTreeMap<&Name, Vec<Json>> = proxies(before)
            .map(|(name, compiled)| (name, ways(&targets, compiled)))
            .collect();
        let mut senders = Senders::new();
        for (node, compiled) in proxies(after) {
            let new = ways(&targets, compiled);
            let stays = |index: usize, new: &[Json]| {
                let old = old.get(node);
                old.is_some_and(|old| has_same_conditions(old, new) && old[index] == new[index])
            };
            for (index, route) in of(&targets, compiled).enumerate() {
                if stays(index, &new) {
                    continue;
                }
                for next in next_nodes(&compiled.document, route) {
                    senders.entry(next).or_default().insert(node.clone());
                }
            }
        }
        Self { targets, senders }
    }

    /// Whether a node decides another way for them than before.
    fn differs(&self, before: &Documents<'_>, after: &Documents<'_>) -> bool {
        let old: BTreeMap<&Name, Vec<Json>> = proxies(before)
            .map(|(name, compiled)| (name, ways(&self.targets, compiled)))
            .collect();
        proxies(after).any(|(name, compiled)| old.get(name) != Some(&ways(&self.targets, compiled)))
    }

    fn with(&self, other: &Self) -> Self {
        let mut senders = self.senders.clone();
        for (receiver, more) in &other.senders {
            let known = senders.entry(receiver.clone()).or_default();
            known.extend(more.iter().cloned());
        }
        Self {
            targets: self.targets.union(&other.targets).cloned().collect(),
            senders,
        }
    }

    fn ranks(&self) -> BTreeMap<Name, u32> {
        let nodes: BTreeSet<&Name> = self
            .senders
            .iter()
            .flat_map(|(receiver, senders)| senders.iter().chain([receiver]))
            .collect();
        let senders: BTreeMap<&Name, BTreeSet<&Name>> = self
            .senders
            .iter()
            .map(|(receiver, senders)| (receiver, senders.iter().collect()))
            .collect();
        let ranks = ranks(nodes.into_iter(), &senders);
        ranks
            .into_iter()
            .map(|(name, rank)| (name.clone(), rank))
            .collect()
    }

    /// Whether there is an order from receivers to senders.
    fn has_order(&self) -> bool {
        let ranks = self.ranks();
        self.senders.iter().all(|(receiver, senders)| {
            senders
                .iter()
                .all(|sender| ranks.get(sender) > ranks.get(receiver))
        })
    }
}

/// The routes of a document for some targets, each with its upstream.
fn ways(targets: &BTreeSet<String>, compiled: &Compiled) -> Vec<Json> {
    let ways = of(targets, compiled).map(|route| {
        let named = ["to", "terminate"].iter();
        let upstream = named
            .filter_map(|key| route[*key].as_str())
            .next()
            .map(|name| &compiled.document["upstreams"][name]);
        serde_json::json!([route, upstream])
    });
    ways.collect()
}

/// Whether the exchanges of each route of one list are those of the same route of another.
fn has_same_conditions(old: &[Json], new: &[Json]) -> bool {
    let conditions = |ways: &[Json]| -> Vec<Json> {
        let ways = ways.iter();
        ways.map(|way| way[0]["match"].clone()).collect()
    };
    conditions(old) == conditions(new)
}

/// Adds a part to the first one with which it has an order in common.
fn take(parts: &mut Vec<MovingNames>, part: MovingNames) {
    let is_full = parts.len() >= TURNS;
    let last = parts.len().saturating_sub(1);
    for (index, known) in parts.iter_mut().enumerate() {
        let both = known.with(&part);
        // Most names of a service go one way, which needs no new look.
        let is_known = both.senders == known.senders;
        if is_known || both.has_order() || is_full && index == last {
            *known = both;
            return;
        }
    }
    parts.push(part);
}

/// The routes of a document for some targets.
fn of<'c>(targets: &BTreeSet<String>, compiled: &'c Compiled) -> impl Iterator<Item = &'c Json> {
    elements(&compiled.document, "routes")
        .filter(move |route| !subjects_of([*route].into_iter()).is_disjoint(targets))
}

/// The nodes to which a route sends.
fn next_nodes(document: &Json, route: &Json) -> Vec<Name> {
    let Some(upstream) = route["to"].as_str() else {
        return Vec::new();
    };
    let upstream = &document["upstreams"][upstream];
    let labels = elements(upstream, "endpoints").filter_map(|endpoint| {
        let server_name = endpoint["server_name"].as_str()?;
        server_name.split('.').next()
    });
    let attached = match &upstream["attached"] {
        Json::String(name) => vec![name.as_str()],
        list => list
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str)
            .collect(),
    };
    let names = labels.chain(attached);
    names.filter_map(|name| name.parse().ok()).collect()
}
