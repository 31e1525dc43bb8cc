//! Routes: exchanges that go another way than their name says.

use std::collections::BTreeMap;

use hermes_api::Name;
use hermes_config::Problem;

use crate::resources::{Finding, Graph, Key, NextHop, Resource, RouteSpec, Tree, WayFinder, Ways};

/// A route, and what each node on its way does.
pub(super) struct Detour<'t> {
    pub(super) key: &'t Key,
    pub(super) resource: &'t Resource,
    pub(super) spec: &'t RouteSpec,
    pub(super) steps: BTreeMap<&'t Name, Step<'t>>,
}

/// What a node does with exchanges of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step<'t> {
    /// It sends them to one of these.
    Forward(Vec<NextHop<'t>>),
    /// It dials the servers.
    Terminate,
}

/// Where ways are looked for.
#[derive(Clone, Copy)]
pub(super) struct Terrain<'a, 't> {
    pub(super) tree: &'t Tree,
    pub(super) graph: &'a Graph<'t>,
}

impl<'t> Detour<'t> {
    /// The way of a route from every ingress; `to_service` are the ways to its service.
    ///
    /// # Errors
    /// It leads nowhere, or comes to a node twice.
    pub(super) fn new(
        terrain: Terrain<'_, 't>,
        resource: &'t Resource,
        spec: &'t RouteSpec,
        to_service: &Ways<'t>,
    ) -> Result<Self, Box<Finding>> {
        let mut detour = Self {
            key: resource.key(),
            resource,
            spec,
            steps: BTreeMap::new(),
        };

        let ingresses = terrain.graph.nodes().filter(|(_, node)| node.ingress);
        let mut from: Vec<&'t Name> = ingresses.map(|(name, _)| name).collect();
        for (index, via) in spec.via.iter().enumerate() {
            let ways = WayFinder::new(terrain.graph).ways(BTreeMap::from([(via, 1)]));
            let leg = Leg {
                ways: &ways,
                from: &from,
                at_goal: None,
                field: format!("spec.via[{index}]"),
            };
            detour.add(terrain, &leg)?;
            from = vec![via];
        }

        let last = Leg {
            ways: to_service,
            from: &from,
            at_goal: Some(Step::Terminate),
            field: "spec.to".to_owned(),
        };
        detour.add(terrain, &last)?;
        Ok(detour)
    }

    fn add(&mut self, terrain: Terrain<'_, 't>, leg: &Leg<'_, 't>) -> Result<(), Box<Finding>> {
        let mistake = |reason: String, remedy: &str| {
            let problem = Problem::new(leg.field.as_str(), reason).remedy(remedy);
            Box::new(terrain.tree.finding(self.key, problem))
        };
        if let Some(lost) = leg.from.iter().find(|node| !leg.ways.leads_from(node)) {
            let reason = format!("no way leads there from `{lost}`");
            return Err(mistake(reason, "add a Link"));
        }

        for node in leg.ways.passed(terrain.graph, leg.from.iter().copied()) {
            let step = match leg.ways.is_goal(node) {
                true => leg.at_goal.clone(),
                false => Some(Step::Forward(leg.ways.hops(terrain.graph, node))),
            };
            let Some(step) = step else { continue };
            let first = self.steps.entry(node).or_insert_with(|| step.clone());
            // A node cannot tell an exchange that comes the second time from one that comes the first time.
            if *first != step {
                let reason =
                    format!("exchanges would come to `{node}` twice, and turn in a circle");
                return Err(mistake(reason, "choose another way"));
            }
        }
        Ok(())
    }
}

/// A part of the way of a route: from some nodes to the nearest goal.
struct Leg<'a, 't> {
    ways: &'a Ways<'t>,
    from: &'a [&'t Name],
    /// The step at the goal; `None` where the next part goes on from there.
    at_goal: Option<Step<'t>>,
    /// The field of the route that says the goal.
    field: String,
}
