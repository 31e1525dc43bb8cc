//! The reasons why attributes cannot be given.

use hermes_config::nearest;

use crate::areas::{Areas, Function, Runs};
use crate::demand::Demand;
use crate::errand::free_places;
use crate::ids::AreaPair;
use crate::obstacle::{Candidate, Gap, Unplanned};
use crate::planner::Planner;
use crate::usage::Usage;
use crate::work::Work;

/// Functions that are named beside an attribute.
#[doc(alias = "bound")]
const NEAREST: usize = 3;

/// Attributes whose reasons are sought: each takes a search.
#[doc(alias = "bound")]
const EXPLAINED: usize = 32;

/// Says of a demand that cannot be met which of its attributes stand in the way.
pub(crate) fn explained(
    planner: &mut Planner<'_>,
    usage: &Usage,
    pair: AreaPair,
    demand: &Demand,
    work: &mut Work,
) -> Unplanned {
    let mut explainer = Explainer {
        planner,
        usage,
        pair,
        work,
    };
    match explainer.gaps(demand) {
        Ok(gaps) => Unplanned::Unbridgeable { gaps },
        Err(unplanned) => unplanned,
    }
}

struct Explainer<'a, 'p> {
    planner: &'a mut Planner<'p>,
    usage: &'a Usage,
    pair: AreaPair,
    work: &'a mut Work,
}

impl Explainer<'_, '_> {
    fn gaps(&mut self, demand: &Demand) -> Result<Vec<Gap>, Unplanned> {
        let given = demand.given.iter().map(|number| Demand {
            given: vec![*number],
            present: Vec::new(),
        });
        let present = demand.present.iter().map(|number| Demand {
            given: Vec::new(),
            present: vec![*number],
        });
        let mut gaps = Vec::new();
        for single in given.chain(present) {
            let to = self.planner.areas().areas[self.pair.to.0].place;
            if gaps.len() < EXPLAINED
                && !self
                    .planner
                    .can_give(self.pair.from, &single, to, self.work)?
            {
                gaps.push(self.gap(&single));
            }
        }

        if gaps.is_empty() {
            gaps.extend(self.together(demand));
        }
        Ok(gaps)
    }

    /// The gap of a demand of one attribute.
    fn gap(&self, single: &Demand) -> Gap {
        let areas = self.planner.areas();
        let numbers = single.given.iter().chain(&single.present);
        let attribute = numbers.copied().next().unwrap_or_default();
        let name = areas.attributes[attribute].clone();
        let givers = &areas.givers[attribute];
        if givers.is_empty() {
            return Gap {
                nearest: like_named(areas, &name),
                because: "no function gives it".to_owned(),
                attribute: name,
            };
        }
        let nearest = givers.iter().take(NEAREST).map(|giver| {
            let function = &areas.functions[*giver];
            Candidate {
                function: function.name.clone(),
                obstacle: self.obstacle(function),
            }
        });
        Gap {
            attribute: name,
            because: "no function that gives it can be used".to_owned(),
            nearest: nearest.collect(),
        }
    }

    fn obstacle(&self, function: &Function) -> String {
        let areas = self.planner.areas();
        let to = areas.areas[self.pair.to.0].place;
        let from = areas.areas[self.pair.from.0].place;
        let is_on_the_way = |place: &usize| {
            // Links lead both ways: a place that can be reached can be left.
            self.planner.is_joined(from, *place) && self.planner.is_joined(from, to)
        };
        match (&function.runs, free_places(areas, self.usage, function)) {
            (Runs::At(places), _) if places.is_empty() => "it may run nowhere".to_owned(),
            (Runs::At(places), _) if !places.iter().any(is_on_the_way) => {
                let names: Vec<&str> = places
                    .iter()
                    .take(NEAREST)
                    .map(|place| areas.places[*place].as_str())
                    .collect();
                format!("no links lead to where it may run: {}", names.join(", "))
            }
            (_, Runs::At(free)) if !free.iter().any(is_on_the_way) => {
                let capacity = function.capacity.unwrap_or_default();
                format!("each place has {capacity} paths through it, its capacity")
            }
            _ => self.unmet(function),
        }
    }

    /// The attributes that a function needs and data of the first area does not have.
    fn unmet(&self, function: &Function) -> String {
        let areas = self.planner.areas();
        let has = &areas.areas[self.pair.from.0].has;
        let lacks = |number: &&usize| has.binary_search(number).is_err();
        let unmet: Vec<usize> = function.needs.iter().filter(lacks).copied().collect();
        match unmet.is_empty() {
            true => "functions that have to come before it are in its way".to_owned(),
            false => {
                let names = areas.attribute_names(&unmet);
                format!("it needs `{}`, which it cannot get", names.join("`, `"))
            }
        }
    }

    /// Attributes that can each be given, but not together.
    fn together(&self, demand: &Demand) -> Vec<Gap> {
        let areas = self.planner.areas();
        let wanted: Vec<usize> = demand
            .given
            .iter()
            .chain(&demand.present)
            .copied()
            .collect();
        let gaps = wanted.iter().map(|attribute| {
            let removers = areas.functions.iter();
            let removers = removers.filter(|function| function.removes.contains(attribute));
            let nearest = removers.take(NEAREST).map(|function| Candidate {
                function: function.name.clone(),
                obstacle: format!("it removes `{}`", areas.attributes[*attribute]),
            });
            Gap {
                attribute: areas.attributes[*attribute].clone(),
                because: "it can be given, but not together with the others".to_owned(),
                nearest: nearest.collect(),
            }
        });
        gaps.take(EXPLAINED).collect()
    }
}

/// Functions that give an attribute with a similar name.
fn like_named(areas: &Areas, name: &str) -> Vec<Candidate> {
    let given = areas.givers.iter().enumerate();
    let given = given.filter(|(_, givers)| !givers.is_empty());
    let known = given.map(|(number, _)| areas.attributes[number].as_str());
    let Some(similar) = nearest(name, known) else {
        return Vec::new();
    };
    let number = areas.attributes.iter().position(|known| known == similar);
    let givers = number.map_or(&[][..], |number| &areas.givers[number]);
    let nearest = givers.iter().take(NEAREST).map(|giver| Candidate {
        function: areas.functions[*giver].name.clone(),
        obstacle: format!("it gives `{similar}`: is that meant?"),
    });
    nearest.collect()
}
