//! Routes: exchanges that go another way than their name says.

use std::collections::BTreeMap;

use hermes_api::Name;
use hermes_config::Problem;

use super::plan::{Plan, goals};
use crate::resources::{Finding, Key, NextHop, Resource, RouteSpec, Spec, Ways};

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

impl<'t> Detour<'t> {
    /// The way of a route from every ingress; `None` where its service is unknown.
    ///
    /// # Errors
    /// It leads nowhere, or comes to a node twice.
    pub(super) fn new(
        plan: &Plan<'t>,
        resource: &'t Resource,
    ) -> Result<Option<Self>, Box<Finding>> {
        let Spec::Route(spec) = resource.spec() else {
            return Ok(None);
        };
        let Some(service) = plan.service(&spec.to) else {
            return Ok(None);
        };
        let mut detour = Self {
            key: resource.key(),
            resource,
            spec,
            steps: BTreeMap::new(),
        };

        let ingresses = plan.graph.nodes().filter(|(_, node)| node.ingress);
        let mut from: Vec<&'t Name> = ingresses.map(|(name, _)| name).collect();
        for (index, via) in spec.via.iter().enumerate() {
            let ways = plan.graph.ways(&BTreeMap::from([(via, 1)]));
            let field = format!("spec.via[{index}]");
            detour.add(plan, &ways, &from, &field, |_| None)?;
            from = vec![via];
        }
        detour.add(plan, &service.ways, &from, "spec.to", |node| {
            goals(service.spec)
                .contains_key(node)
                .then_some(Step::Terminate)
        })?;
        Ok(Some(detour))
    }

    /// Adds the steps between `from` and the goals of these ways, whose own step is `at_goal`.
    fn add(
        &mut self,
        plan: &Plan<'t>,
        ways: &Ways<'t>,
        from: &[&'t Name],
        field: &str,
        at_goal: impl Fn(&Name) -> Option<Step<'t>>,
    ) -> Result<(), Box<Finding>> {
        if let Some(lost) = from.iter().find(|node| !ways.leads_from(node)) {
            let reason = format!("no way leads there from `{lost}`");
            return Err(self.mistake(plan, field, reason, "add a Link"));
        }

        for node in ways.passed(from.iter().copied()) {
            let step = match ways.is_goal(node) {
                true => at_goal(node),
                false => Some(Step::Forward(ways.hops(node).to_vec())),
            };
            let Some(step) = step else { continue };
            let first = self.steps.entry(node).or_insert_with(|| step.clone());
            // A node cannot tell an exchange that comes the second time from one that comes the first time.
            if *first != step {
                let reason =
                    format!("exchanges would come to `{node}` twice, and turn in a circle");
                return Err(self.mistake(plan, field, reason, "choose another way"));
            }
        }
        Ok(())
    }

    fn mistake(&self, plan: &Plan<'t>, field: &str, reason: String, remedy: &str) -> Box<Finding> {
        let problem = Problem::new(field, reason).remedy(remedy);
        Box::new(plan.tree.finding(self.key, problem))
    }
}
