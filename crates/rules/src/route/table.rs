//! The routing table of one document.

use hermes_config::model::{Document, Route};

use super::condition::Condition;
use super::facts::View;
use super::index::Index;
use super::{Explanation, Facts};

/// A document's routes, compiled. Their order is their meaning; an index finds those that are worth asking.
#[derive(Debug, Clone, Default)]
pub struct Table {
    routes: Vec<CompiledRoute>,
    index: Index,
}

#[derive(Debug, Clone)]
struct CompiledRoute {
    name: String,
    conditions: Vec<Condition>,
}

impl CompiledRoute {
    fn new(index: usize, route: &Route) -> Self {
        let name = route
            .name
            .clone()
            .unwrap_or_else(|| format!("routes[{index}]"));
        Self {
            name,
            conditions: Condition::compile(&route.matches),
        }
    }

    fn first_failure(&self, view: &View<'_>) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| !condition.holds(view))
    }
}

impl Table {
    /// Compiles a document's routes.
    pub fn compile(document: &Document) -> Self {
        let routes = document
            .routes
            .iter()
            .enumerate()
            .map(|(index, route)| CompiledRoute::new(index, route));
        Self {
            routes: routes.collect(),
            index: Index::new(document.routes.iter().map(|route| &route.matches)),
        }
    }

    /// The route that an exchange takes, as an index into the document's routes; `None` if no route matches.
    ///
    /// Does not allocate, except for a path with needless percent-encodings, or a host longer than a name can be.
    pub fn decide(&self, facts: &Facts<'_>) -> Option<usize> {
        let view = View::new(facts);
        self.index
            .candidates(&view)
            .find(|route| self.routes[*route].first_failure(&view).is_none())
    }

    /// What every route thinks of an exchange, in order.
    pub fn explain(&self, facts: &Facts<'_>) -> Vec<Explanation> {
        let view = View::new(facts);
        let explain = |(index, route): (usize, &CompiledRoute)| {
            let failed = route
                .first_failure(&view)
                .map(|condition| condition.failure(&view));
            Explanation {
                route: index,
                name: route.name.clone(),
                matched: failed.is_none(),
                failed,
            }
        };
        self.routes.iter().enumerate().map(explain).collect()
    }

    /// A route's name in logs and reasons: its own, or its position, as `routes[3]`.
    pub fn name(&self, route: usize) -> Option<&str> {
        self.routes.get(route).map(|route| route.name.as_str())
    }
}
