//! Plans beside those of a search that tries everything: each step along one link, each function where it may run, with the whole sets
//! of attributes.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use proptest::prelude::*;

use hermes_config::Places;

use super::pair;
use crate::{
    AreaSpec, Areas, AreasFile, FunctionSpec, LinkSpec, PlaceSpec, Planner, Verdict, Work,
};

const PLACES: usize = 4;
const ATTRIBUTES: usize = 4;

fn place(number: usize) -> String {
    format!("p{number}")
}

fn attributes() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set(0..ATTRIBUTES, 0..=3).prop_map(|numbers| {
        numbers
            .into_iter()
            .map(|number| format!("x{number}"))
            .collect()
    })
}

prop_compose! {
    fn area()(at in 0..PLACES, has in attributes(), needs in proptest::option::weighted(0.3, attributes())) -> AreaSpec {
        AreaSpec { at: Some(place(at)), has, needs: needs.unwrap_or_default(), ..AreaSpec::default() }
    }
}

prop_compose! {
    fn function()(
        adds in attributes(),
        removes in proptest::option::weighted(0.4, attributes()),
        needs in proptest::option::weighted(0.4, attributes()),
        cost in 0u32..6,
        at in proptest::option::weighted(0.7, proptest::collection::btree_set(0..PLACES, 0..3)),
    ) -> FunctionSpec {
        let removes = removes.unwrap_or_default().into_iter().filter(|removed| !adds.contains(removed));
        FunctionSpec {
            removes: removes.collect(),
            needs: needs.unwrap_or_default(),
            cost,
            at: at.map(|at| at.into_iter().map(place).collect()),
            adds,
            ..FunctionSpec::default()
        }
    }
}

prop_compose! {
    fn link()(one in 0..PLACES, other in 0..PLACES, cost in 0u32..5) -> LinkSpec {
        LinkSpec { between: vec![place(one), place(other)], cost }
    }
}

prop_compose! {
    fn file()(
        areas in proptest::collection::vec(area(), 2..=8),
        functions in proptest::collection::vec(function(), 0..=5),
        links in proptest::option::weighted(0.8, proptest::collection::vec(link(), 0..=6)),
    ) -> AreasFile {
        let areas = areas.into_iter().enumerate();
        let functions = functions.into_iter().enumerate();
        AreasFile {
            version: 1,
            attributes: Vec::new(),
            places: (0..PLACES).map(|number| (place(number), PlaceSpec::default())).collect(),
            areas: areas.map(|(number, area)| (format!("a{number}"), area)).collect(),
            functions: functions.map(|(number, function)| (format!("f{number}"), function)).collect(),
            links,
            paths: Vec::new(),
        }
    }
}

/// Where data is, what it has, and what functions have given it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Data {
    place: String,
    has: BTreeSet<String>,
    given: BTreeSet<String>,
}

/// The least cost from one area to another, by trying everything.
fn least(file: &AreasFile, from: &AreaSpec, to: &AreaSpec) -> Option<u64> {
    let at = |area: &AreaSpec| area.at.clone().unwrap();
    let begin = Data {
        place: at(from),
        has: from.has.iter().cloned().collect(),
        given: BTreeSet::new(),
    };
    let mut costs = BTreeMap::from([(begin.clone(), 0u64)]);
    let mut open = BTreeSet::from([(0u64, begin)]);
    while let Some((cost, data)) = open.pop_first() {
        if data.place == at(to) && is_taken(&data, from, to) {
            return Some(cost);
        }
        for (further, next) in steps(file, &data) {
            let cost = cost + further;
            if costs.get(&next).is_none_or(|known| cost < *known) {
                costs.insert(next.clone(), cost);
                open.insert((cost, next));
            }
        }
    }
    None
}

fn is_taken(data: &Data, from: &AreaSpec, to: &AreaSpec) -> bool {
    let guarded = from.has.iter().chain(&from.needs);
    let is_guarded = guarded
        .into_iter()
        .all(|attribute| to.has.contains(attribute) || data.given.contains(attribute));
    let is_needed = to
        .needs
        .iter()
        .all(|attribute| to.has.contains(attribute) || data.has.contains(attribute));
    is_guarded && is_needed
}

fn steps(file: &AreasFile, data: &Data) -> Vec<(u64, Data)> {
    let moved = |place: &String| Data {
        place: place.clone(),
        ..data.clone()
    };
    let mut steps = Vec::new();
    match &file.links {
        None => steps.extend(file.places.keys().map(|place| (0, moved(place)))),
        Some(links) => {
            for link in links {
                for (one, other) in [(0, 1), (1, 0)] {
                    if link.between[one] == data.place {
                        steps.push((u64::from(link.cost), moved(&link.between[other])));
                    }
                }
            }
        }
    }
    for function in file.functions.values() {
        let may_run = function
            .at
            .as_ref()
            .is_none_or(|at| at.contains(&data.place));
        if may_run
            && function
                .needs
                .iter()
                .all(|needed| data.has.contains(needed))
        {
            let mut next = data.clone();
            for removed in &function.removes {
                next.has.remove(removed);
                next.given.remove(removed);
            }
            next.has.extend(function.adds.iter().cloned());
            next.given.extend(function.adds.iter().cloned());
            steps.push((u64::from(function.cost), next));
        }
    }
    steps
}

/// Follows a plan and checks that each step of it is allowed and that its costs add up.
fn follow(file: &AreasFile, plan: &crate::Plan) {
    let area = |name: &str| &file.areas[name];
    let (from, to) = (area(&plan.from), area(&plan.to));
    let mut data = Data {
        place: plan.stops[0].place.clone(),
        has: from.has.iter().cloned().collect(),
        given: BTreeSet::new(),
    };
    assert_eq!(Some(&data.place), from.at.as_ref());
    let mut cost = 0;
    for stop in &plan.stops {
        if stop.place != data.place {
            let ways = steps(file, &data);
            let moved = Data {
                place: stop.place.clone(),
                ..data.clone()
            };
            let link = ways
                .iter()
                .filter(|(_, next)| *next == moved)
                .map(|(cost, _)| cost)
                .min();
            cost += link.expect("a link");
            data = moved;
        }
        for step in &stop.functions {
            let function = &file.functions[&step.function];
            let single = AreasFile {
                functions: IndexMap::from([(step.function.clone(), function.clone())]),
                links: Some(Vec::new()),
                ..file.clone()
            };
            let mut next = steps(&single, &data);
            assert_eq!(
                next.len(),
                1,
                "{} cannot run at {}",
                step.function,
                stop.place
            );
            let (further, after) = next.remove(0);
            cost += further;
            data = after;
        }
    }
    assert!(Some(&data.place) == to.at.as_ref() && is_taken(&data, from, to));
    assert_eq!(cost, plan.cost);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn plans_are_the_cheapest_of_all(file in file()) {
        let areas = Areas::of(file.clone(), &Places::nowhere()).unwrap();
        let mut planner = Planner::new(&areas);
        let mut verdicts = BTreeMap::new();
        planner.each_pair(&mut Work::default(), |pair, verdict| { verdicts.insert(pair, verdict); }).unwrap();
        for (from_name, from) in &file.areas {
            for (to_name, to) in file.areas.iter().filter(|(name, _)| *name != from_name) {
                let pair = pair(&areas, from_name, to_name);
                let plan = planner.plan(pair, &mut Work::default());
                let least = least(&file, from, to);
                prop_assert_eq!(plan.as_ref().ok().map(|plan| plan.cost), least, "{} to {}", from_name, to_name);
                let verdict = match verdicts[&pair] {
                    Verdict::Direct(cost) | Verdict::Bridged(cost) => Some(cost),
                    _ => None,
                };
                prop_assert_eq!(verdict, least);
                if let Ok(plan) = plan {
                    follow(&file, &plan);
                }
            }
        }
    }
}
