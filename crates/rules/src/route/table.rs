//! The routing table of one document.

use std::sync::Arc;

use hermes_config::model::{self, Document};

use super::compiled::{Hop, Route, Unfit};
use super::condition::Condition;
use super::facts::View;
use super::index::Index;
use super::names::expand_users;
use super::{Explanation, Facts, Names};

/// A document's routes, compiled. Their order is their meaning; an index finds those that are worth asking.
#[derive(Debug, Clone)]
pub struct Table<H> {
    routes: Vec<Conditional<H>>,
    index: Index,
    names: Arc<Names>,
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
        find: impl FnMut(&model::Route, Hop<'_>) -> Option<H>,
    ) -> Result<Self, Unfit> {
        Self::with_names(document, Arc::new(Names::new(document)), find)
    }

    /// As [`Self::compile`], with the document's names, which others may share.
    ///
    /// # Errors
    /// As there.
    pub fn with_names(
        document: &Document,
        names: Arc<Names>,
        mut find: impl FnMut(&model::Route, Hop<'_>) -> Option<H>,
    ) -> Result<Self, Unfit> {
        let routes = document.routes.iter().enumerate().map(|(index, config)| {
            let mut config = config.clone();
            if let Some(broadcast) = &mut config.broadcast {
                broadcast.users = expand_users(&broadcast.users, &document.groups);
            }

            let route = Route::compile(index, &config, |hop| find(&config, hop))?;
            Ok(Conditional {
                conditions: Condition::compile(&config.matches),
                route: Arc::new(route),
            })
        });
        Ok(Self {
            routes: routes.collect::<Result<_, _>>()?,
            index: Index::new(document.routes.iter().map(|route| &route.matches)),
            names,
        })
    }

    /// The route that an exchange takes; `None` if no route matches.
    ///
    /// Does not allocate, except for names of the document, a path with needless percent-encodings, or a host longer than a name can be.
    pub fn decide(&self, facts: &Facts<'_>) -> Option<&Arc<Route<H>>> {
        let view = self.names.view(facts);
        self.index
            .candidates(&view)
            .map(|index| &self.routes[index])
            .find(|route| route.first_failure(&view).is_none())
            .map(|route| &route.route)
    }

    /// What every route thinks of an exchange, in order.
    pub fn explain(&self, facts: &Facts<'_>) -> Vec<Explanation> {
        let view = self.names.view(facts);
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

    /// The same of an exchange of which fields, authority and protocol are not known: conditions on them are passed over.
    pub(crate) fn explain_partly(&self, facts: &Facts<'_>) -> Vec<Explanation> {
        let view = self.names.view(facts);
        let explain = |conditional: &Conditional<H>| {
            let mut known = conditional.conditions.iter().filter(|one| one.is_kept());
            let failed = known.find(|condition| !condition.holds(&view));
            let failed = failed.map(|condition| condition.failure(&view));
            Explanation {
                route: conditional.route.index,
                name: conditional.route.name.to_string(),
                matched: false,
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
