//! The cheapest ways between places.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::areas::Link;
use crate::work::{Exhausted, Work};

/// A place that cannot be reached.
const FAR: u64 = u64::MAX;

/// The cheapest ways from places to all others; those from a place are found when they are asked for first.
#[derive(Debug)]
pub(crate) struct Distances<'a> {
    /// `None`: all places are joined at no cost.
    links: Option<&'a [Vec<Link>]>,
    rows: Vec<Option<Row>>,
}

#[derive(Debug, Default)]
struct Row {
    costs: Vec<u64>,
    /// The place before, on the way from the row's.
    before: Vec<usize>,
}

impl<'a> Distances<'a> {
    pub(crate) fn new(links: Option<&'a [Vec<Link>]>) -> Self {
        let rows = links.map_or(0, <[_]>::len);
        Self {
            links,
            rows: (0..rows).map(|_| None).collect(),
        }
    }

    /// Finds the ways from a place, after which [`Self::between`] knows them.
    pub(crate) fn prepare(&mut self, from: usize, work: &mut Work) -> Result<(), Exhausted> {
        if let (Some(links), Some(row @ None)) = (self.links, self.rows.get_mut(from)) {
            *row = Some(search(links, from, work)?);
        }
        Ok(())
    }

    /// The cost of the cheapest way from a prepared place; `None` if there is none.
    pub(crate) fn between(&self, from: usize, to: usize) -> Option<u64> {
        if self.links.is_none() || from == to {
            return Some(0);
        }
        let row = self.rows.get(from)?.as_ref()?;
        row.costs.get(to).copied().filter(|cost| *cost != FAR)
    }

    /// The places of this way behind the first one.
    pub(crate) fn way(&self, from: usize, to: usize) -> Vec<usize> {
        let row = self.rows.get(from).and_then(Option::as_ref);
        let Some(row) = row else {
            // Joined places have no others between them.
            return if from == to { Vec::new() } else { vec![to] };
        };
        let mut way = Vec::new();
        let mut place = to;
        // A way visits no place twice.
        while place != from && way.len() < row.before.len() {
            way.push(place);
            place = row.before[place];
        }
        way.reverse();
        way
    }
}

/// Dijkstra's algorithm. Of ways with the same cost, the one with the lower numbers is taken, so that plans do not change by chance.
fn search(links: &[Vec<Link>], from: usize, work: &mut Work) -> Result<Row, Exhausted> {
    let mut row = Row {
        costs: vec![FAR; links.len()],
        before: vec![from; links.len()],
    };
    row.costs[from] = 0;
    let mut open = BinaryHeap::from([Reverse((0, from))]);
    while let Some(Reverse((cost, place))) = open.pop() {
        work.take(1 + links[place].len() as u64)?;
        if cost > row.costs[place] {
            continue;
        }
        for link in &links[place] {
            let next = cost + link.cost;
            if next < row.costs[link.to] {
                row.costs[link.to] = next;
                row.before[link.to] = place;
                open.push(Reverse((next, link.to)));
            }
        }
    }
    Ok(row)
}
