//! Questions to areas: one pair, or all.

use std::collections::HashMap;

use crate::areas::Areas;
use crate::demand::{Demand, Marks};
use crate::distances::Distances;
use crate::errand::{BITS, Errand, Origin, TooManyBits};
use crate::explain;
use crate::ids::{AreaId, AreaPair};
use crate::obstacle::Unplanned;
use crate::plan::{Plan, Step, Stop};
use crate::search::{Best, Found, FunctionAt, search};
use crate::usage::Usage;
use crate::work::{Exhausted, Work};

/// Answers questions about areas, and keeps the ways between places that it found.
#[derive(Debug)]
pub struct Planner<'a> {
    areas: &'a Areas,
    marks: Vec<Marks>,
    distances: Distances<'a>,
    usage: Usage,
}

/// An answer in brief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Data may move without a function, at this cost of links.
    Direct(u64),
    /// It may move through functions, at this cost.
    Bridged(u64),
    /// It cannot; [`Planner::plan`] says why.
    Unbridgeable,
    /// Too many attributes matter.
    TooManyAttributes,
}

impl<'a> Planner<'a> {
    /// A planner for these areas, as if no path existed.
    pub fn new(areas: &'a Areas) -> Self {
        Self {
            areas,
            marks: areas
                .areas
                .iter()
                .map(|area| Marks::new(areas, area))
                .collect(),
            distances: Distances::new(areas.links.as_deref()),
            usage: Usage::default(),
        }
    }

    /// The same, beside paths that exist.
    #[must_use]
    pub fn beside(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    /// The cheapest way for data of one area to another.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn plan(&mut self, pair: AreaPair, work: &mut Work) -> Result<Plan, Unplanned> {
        let demand = self.demand(pair);
        let from = &self.areas.areas[pair.from.0];
        let to = &self.areas.areas[pair.to.0];
        let prepared = self.distances.prepare(from.place, work);
        prepared.map_err(|Exhausted| Unplanned::TooMuchWork)?;
        if self.distances.between(from.place, to.place).is_none() {
            return Err(Unplanned::NoWay {
                from: self.areas.places[from.place].clone(),
                to: self.areas.places[to.place].clone(),
            });
        }

        let found = self.found(pair, &demand, work)?;
        match found.best(&self.distances, to.place) {
            Some(best) => Ok(self.written(pair, &found, best)),
            None => Err(self.explained(pair, &demand, work)),
        }
    }

    /// Plans the paths that the file wants in its order: each takes its share of capacities from those behind it.
    pub fn wanted(&mut self, work: &mut Work) -> Vec<Result<Plan, Unplanned>> {
        let paths = self.areas.paths().iter();
        let plans = paths.map(|pair| {
            let plan = self.plan(*pair, work)?;
            self.usage.add(&plan);
            Ok(plan)
        });
        plans.collect()
    }

    /// The verdict for each pair of two areas, each on its own, in the order of the file.
    ///
    /// # Errors
    /// It would take too many steps; pairs up to there have had their verdict.
    pub fn each_pair(
        &mut self,
        work: &mut Work,
        mut tell: impl FnMut(AreaPair, Verdict),
    ) -> Result<(), Unplanned> {
        for from in self.areas.all() {
            let mut group = Group::default();
            let place = self.areas.areas[from.0].place;
            let prepared = self.distances.prepare(place, work);
            prepared.map_err(|Exhausted| Unplanned::TooMuchWork)?;
            for to in self.areas.all().filter(|to| *to != from) {
                let pair = AreaPair { from, to };
                let verdict = self.verdict(pair, &mut group, work);
                tell(pair, verdict.map_err(|Exhausted| Unplanned::TooMuchWork)?);
            }
        }
        Ok(())
    }

    fn verdict(
        &mut self,
        pair: AreaPair,
        group: &mut Group,
        work: &mut Work,
    ) -> Result<Verdict, Exhausted> {
        let from = &self.areas.areas[pair.from.0];
        let to = &self.areas.areas[pair.to.0];
        work.take(1)?;
        group.demand.fill(from, to, &self.marks[pair.to.0]);
        if group.demand.is_met_by(from) {
            let way = self.distances.between(from.place, to.place);
            return Ok(way.map_or(Verdict::Unbridgeable, Verdict::Direct));
        }

        // Most areas lack the same few attributes of one: an answer serves them all.
        if !group.found.contains_key(&group.demand) {
            let origin = Origin {
                place: from.place,
                has: &from.has,
            };
            let errand = Errand::new(self.areas, &self.usage, origin, &group.demand);
            let found = match errand {
                Ok(errand) => Some(search(&errand, &mut self.distances, work)?),
                Err(TooManyBits(_)) => None,
            };
            group.found.insert(group.demand.clone(), found);
        }
        let Some(Some(found)) = group.found.get(&group.demand) else {
            return Ok(Verdict::TooManyAttributes);
        };
        let best = found.best(&self.distances, to.place);
        Ok(best.map_or(Verdict::Unbridgeable, |best| Verdict::Bridged(best.cost)))
    }

    fn demand(&self, pair: AreaPair) -> Demand {
        let mut demand = Demand::default();
        let from = &self.areas.areas[pair.from.0];
        demand.fill(from, &self.areas.areas[pair.to.0], &self.marks[pair.to.0]);
        demand
    }

    fn found(
        &mut self,
        pair: AreaPair,
        demand: &Demand,
        work: &mut Work,
    ) -> Result<Found, Unplanned> {
        let from = &self.areas.areas[pair.from.0];
        let origin = Origin {
            place: from.place,
            has: &from.has,
        };
        let errand = Errand::new(self.areas, &self.usage, origin, demand).map_err(
            |TooManyBits(attributes)| Unplanned::TooManyAttributes {
                attributes,
                most: BITS,
            },
        )?;
        let found = search(&errand, &mut self.distances, work);
        found.map_err(|Exhausted| Unplanned::TooMuchWork)
    }

    /// Whether data of an area could get one attribute at all, wherever it goes then.
    pub(crate) fn can_give(
        &mut self,
        from: AreaId,
        demand: &Demand,
        to: usize,
        work: &mut Work,
    ) -> Result<bool, Unplanned> {
        let pair = AreaPair { from, to: from };
        let found = self.found(pair, demand, work)?;
        Ok(found.best(&self.distances, to).is_some())
    }

    fn explained(&mut self, pair: AreaPair, demand: &Demand, work: &mut Work) -> Unplanned {
        let usage = self.usage.clone();
        explain::explained(self, &usage, pair, demand, work)
    }

    pub(crate) fn areas(&self) -> &'a Areas {
        self.areas
    }

    /// Whether links lead from the first place to the second.
    pub(crate) fn is_joined(&self, from: usize, to: usize) -> bool {
        self.distances.between(from, to).is_some()
    }

    fn written(&self, pair: AreaPair, found: &Found, best: Best) -> Plan {
        let areas = self.areas;
        let from = areas.areas[pair.from.0].place;
        let to = areas.areas[pair.to.0].place;
        let mut stops = vec![self.stop(from)];
        let mut here = from;
        for FunctionAt { function, place } in found.functions(best) {
            stops.extend(
                self.distances
                    .way(here, place)
                    .into_iter()
                    .map(|place| self.stop(place)),
            );
            here = place;
            let function = &areas.functions[function];
            let step = Step {
                function: function.name.clone(),
                adds: areas.attribute_names(&function.adds),
                cost: function.cost,
            };
            if let Some(stop) = stops.last_mut() {
                stop.functions.push(step);
            }
        }

        stops.extend(
            self.distances
                .way(here, to)
                .into_iter()
                .map(|place| self.stop(place)),
        );
        Plan {
            from: areas.name(pair.from).to_owned(),
            to: areas.name(pair.to).to_owned(),
            cost: best.cost,
            stops,
        }
    }

    fn stop(&self, place: usize) -> Stop {
        Stop {
            place: self.areas.places[place].clone(),
            functions: Vec::new(),
        }
    }
}

/// Answers for the pairs of one first area, by their demands.
#[derive(Default)]
struct Group {
    demand: Demand,
    found: HashMap<Demand, Option<Found>>,
}
