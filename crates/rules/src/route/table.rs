//! The routing table of one document.

use std::sync::Arc;

use hermes_config::model::{self, Document};

use super::compiled::{Hop, Route, Unfit};
use super::condition::Condition;
use super::facts::View;
use super::index::Index;
use super::{Explanation, Facts};

/// A document's routes, compiled. Their order is their meaning; an index finds those that are worth asking.
#[derive(Debug, Clone)]
pub struct Table<H> {
    routes: Vec<Conditional<H>>,
    index: Index,
}

/// A route, and what must hold for it.
#[derive(Debug, Clone)]
struct Conditional<H> {
    conditions: Vec<Condition>,
    route: Arc<Route<H>>,
}

impl<H> Conditional<H> {
    fn first_failure(&self, view: &View<'_>) -> Option<&Condition> {
        self.conditions
            .iter()
            .find(|condition| !condition.holds(view))
    }
}

impl<H> Table<H> {
    /// Compiles a document's routes. `find` is asked once for each next hop that a route names, with that route.
    ///
    /// # Errors
    /// A route has no action, or `find` finds nothing. [`lint`](fn@crate::lint) reports both before.
    pub fn compile(
        document: &Document,
        mut find: impl FnMut(&model::Route, Hop<'_>) -> Option<H>,
    ) -> Result<Self, Unfit> {
        let routes = document.routes.iter().enumerate().map(|(index, config)| {
            let route = Route::compile(index, config, |hop| find(config, hop))?;
            Ok(Conditional {
                conditions: Condition::compile(&config.matches),
                route: Arc::new(route),
            })
        });
        Ok(Self {
            routes: routes.collect::<Result<_, _>>()?,
            index: Index::new(document.routes.iter().map(|route| &route.matches)),
        })
    }

    /// The route that an exchange takes; `None` if no route matches.
    ///
    /// Does not allocate, except for a path with needless percent-encodings, or a host longer than a name can be.
    pub fn decide(&self, facts: &Facts<'_>) -> Option<&Arc<Route<H>>> {
        let view = View::new(facts);
        self.index
            .candidates(&view)
            .map(|index| &self.routes[index])
            .find(|route| route.first_failure(&view).is_none())
            .map(|route| &route.route)
    }

    /// What every route thinks of an exchange, in order.
    pub fn explain(&self, facts: &Facts<'_>) -> Vec<Explanation> {
        let view = View::new(facts);
        let explain = |conditional: &Conditional<H>| {
            let failed = conditional
                .first_failure(&view)
                .map(|condition| condition.failure(&view));
            Explanation {
                route: conditional.route.index,
                name: conditional.route.name.to_string(),
                matched: failed.is_none(),
                failed,
            }
        };

        self.routes.iter().map(explain).collect()
    }

    /// The routes, in their order.
    pub fn routes(&self) -> impl ExactSizeIterator<Item = &Arc<Route<H>>> {
        self.routes.iter().map(|route| &route.route)
    }
}
