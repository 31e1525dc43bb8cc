//! The search: the cheapest states of a place and bits, until the bits of the goal are set.
//!
//! Dijkstra's algorithm over pairs of a place and a set of attributes. Its steps are functions: the ways between places are known by
//! [`Distances`](crate::distances::Distances). Two things keep it small.
//!
//! - *Dominance.* A state is left out if a state of the same place was reached at no higher cost and has all of its bits. That loses
//!   nothing: whatever can follow the one can follow the other, since functions need bits to be set, never to be clear, and add and
//!   remove the same ones.
//! - *A function that may run where the data is, runs there.* To run it elsewhere costs a detour and gives nothing: a later step can
//!   begin at the other place just as well, at the same cost.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::areas::Runs;
use crate::distances::Distances;
use crate::errand::{Effect, Errand};
use crate::work::{Exhausted, Work};

/// States of one search: 64 MB.
#[doc(alias = "bound")]
const STATES: usize = 1 << 20;

/// States of a search in which the goal is reached, and those that lead there.
#[derive(Debug, Default)]
pub(crate) struct Found {
    states: Vec<State>,
    ends: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    place: usize,
    bits: u128,
    cost: u64,
    /// Functions up to here.
    length: u32,
    /// The state before and the function between, unless it is the first.
    step: Option<Taken>,
}

#[derive(Debug, Clone, Copy)]
struct Taken {
    before: usize,
    function: usize,
}

/// An end of a search, with the way from there to where the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Best {
    pub(crate) cost: u64,
    end: usize,
}

/// A function of a solution and its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionAt {
    pub(crate) function: usize,
    pub(crate) place: usize,
}

impl Found {
    /// The cheapest end for data that goes on to this place; of equals, the one with the fewest functions.
    pub(crate) fn best(&self, distances: &Distances<'_>, to: usize) -> Option<Best> {
        let ends = self.ends.iter().filter_map(|end| {
            let state = &self.states[*end];
            let cost = state.cost + distances.between(state.place, to)?;
            Some((cost, state.length, *end))
        });
        let (cost, _, end) = ends.min()?;
        Some(Best { cost, end })
    }

    /// The functions up to an end, in their order.
    pub(crate) fn functions(&self, best: Best) -> Vec<FunctionAt> {
        let mut functions = Vec::new();
        let mut state = &self.states[best.end];
        while let Some(taken) = state.step {
            functions.push(FunctionAt {
                function: taken.function,
                place: state.place,
            });
            state = &self.states[taken.before];
        }
        functions.reverse();
        functions
    }
}

struct Search<'a, 'l> {
    errand: &'a Errand,
    distances: &'a mut Distances<'l>,
    work: &'a mut Work,
    states: Vec<State>,
    /// By cost, then by number of functions, then in the order in which they were found.
    open: BinaryHeap<Reverse<(u64, u32, usize)>>,
    /// Bits of the states of a place that were taken up, none of which has all bits of another.
    fronts: HashMap<usize, Vec<u128>>,
    ends: Vec<usize>,
}

/// Searches all ends of an errand that are worth to be known.
pub(crate) fn search(
    errand: &Errand,
    distances: &mut Distances<'_>,
    work: &mut Work,
) -> Result<Found, Exhausted> {
    let first = State {
        place: errand.start,
        bits: errand.begin,
        cost: 0,
        length: 0,
        step: None,
    };
    let mut search = Search {
        errand,
        distances,
        work,
        states: vec![first],
        open: BinaryHeap::from([Reverse((0, 0, 0))]),
        fronts: HashMap::new(),
        ends: Vec::new(),
    };
    while let Some(Reverse((_, _, number))) = search.open.pop() {
        search.visit(number)?;
    }
    Ok(Found {
        states: search.states,
        ends: search.ends,
    })
}

impl Search<'_, '_> {
    fn visit(&mut self, number: usize) -> Result<(), Exhausted> {
        let state = self.states[number];
        if self.states.len() > STATES {
            return Err(Exhausted);
        }
        let front = self.fronts.entry(state.place).or_default();
        self.work.take(1 + front.len() as u64)?;
        // States come by rising cost, so those of the front cost no more.
        if front.iter().any(|bits| bits & state.bits == state.bits) {
            return Ok(());
        }
        front.retain(|bits| bits & state.bits != *bits);
        front.push(state.bits);
        self.distances.prepare(state.place, self.work)?;

        if state.bits & self.errand.goal == self.errand.goal {
            // Further functions only cost.
            self.end(number);
            return Ok(());
        }
        let errand = self.errand;
        for step in &errand.candidates {
            self.work.take(1)?;
            self.run(number, step)?;
        }
        Ok(())
    }

    /// Keeps an end, unless the way over another one is no dearer wherever the data goes.
    fn end(&mut self, number: usize) {
        let state = &self.states[number];
        let is_needless = self.ends.iter().any(|end| {
            let other = &self.states[*end];
            let detour = self.distances.between(other.place, state.place);
            detour.is_some_and(|detour| other.cost + detour <= state.cost)
        });
        if !is_needless {
            self.ends.push(number);
        }
    }

    fn run(&mut self, number: usize, step: &Effect) -> Result<(), Exhausted> {
        let state = self.states[number];
        let bits = state.bits & !step.removes | step.adds;
        let is_able = step.needs & state.bits == step.needs;
        if !is_able || bits & state.bits == bits {
            return Ok(());
        }
        match &step.runs {
            Runs::Everywhere => self.reach(number, step, state.place, bits),
            Runs::At(places) if places.binary_search(&state.place).is_ok() => {
                self.reach(number, step, state.place, bits);
            }
            Runs::At(places) => {
                self.work.take(places.len() as u64)?;
                for place in places {
                    self.reach(number, step, *place, bits);
                }
            }
        }
        Ok(())
    }

    fn reach(&mut self, number: usize, step: &Effect, place: usize, bits: u128) {
        let state = self.states[number];
        let Some(way) = self.distances.between(state.place, place) else {
            return;
        };
        let front = self.fronts.get(&place);
        // What is dominated already would be found so later; now it takes no room.
        if front.is_some_and(|front| front.iter().any(|other| other & bits == bits)) {
            return;
        }

        let next = State {
            place,
            bits,
            cost: state.cost + way + step.cost,
            length: state.length + 1,
            step: Some(Taken {
                before: number,
                function: step.function,
            }),
        };
        self.open
            .push(Reverse((next.cost, next.length, self.states.len())));
        self.states.push(next);
    }
}
