//! The routing table of one document.

use std::sync::Arc;

use hermes_config::model::{self, Document};

use super::compiled::{Hop, Route, Unfit};
use super::condition::Condition;
use super::facts::View;
use super::index::Index;
use super::names::expand_users;
use super::path::is_rewritten;
use super::readings::{AmbiguousPath, has_readings, readings};
use super::{Explanation, Facts, Names};

/// A document's routes, compiled. Their order is their meaning; an index finds those that are worth asking.
#[derive(Debug, Clone)]
pub struct Table<H> {
    routes: Vec<Conditional<H>>,
    index: Index,
    names: Arc<Names>,
    /// Whether any decision depends on the path, so that its readings have to agree.
    reads_paths: bool,
}

/// Why an exchange takes no route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmatched {
    /// No route matches.
    #[error("no route matches")]
    NoRoute,
    /// Servers that read the path differently would take different routes.
    #[error(transparent)]
    Ambiguous(#[from] AmbiguousPath),
}

/// A route, and its conditions.
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
            reads_paths: !document.defaults.insecure_paths
                && document.routes.iter().any(reads_path),
        })
    }

    /// The route that an exchange takes, however its path is read.
    ///
    /// # Errors
    /// No route matches, or servers that read the path differently would be reached by different ones.
    pub fn find(&self, facts: &Facts<'_>) -> Result<&Arc<Route<H>>, Unmatched> {
        let route = self.decide(facts).ok_or(Unmatched::NoRoute)?;
        // Where no route has a condition on paths or rewrites them, no reading can change the decision.
        if self.reads_paths && has_readings(facts.kind, facts.path) {
            self.agree(facts, route)?;
        }
        Ok(route)
    }

    /// Checks that all readings of a path lead to the same decision.
    ///
    /// # Errors
    /// A reading of the path takes another route, or is rewritten differently.
    #[cold]
    fn agree(&self, facts: &Facts<'_>, route: &Arc<Route<H>>) -> Result<(), AmbiguousPath> {
        let rewrite = route.config.rewrite.as_ref();
        let change = rewrite.and_then(|rewrite| rewrite.path.as_ref());
        let is_rewritten = |path: &str| change.is_some_and(|change| is_rewritten(path, change));

        for reading in readings(facts.kind, facts.path) {
            let path = reading.as_str();
            let other = self.decide(&Facts { path, ..*facts });
            let differs = if !other.is_some_and(|other| Arc::ptr_eq(other, route)) {
                "the routes say otherwise"
            } else if is_rewritten(path) != is_rewritten(facts.path) {
                "the route's rewrite does otherwise"
            } else {
                continue;
            };
            return Err(AmbiguousPath::new(facts.path, path, differs));
        }
        Ok(())
    }

    /// The first route that matches the path as it is written; `None` if no route does.
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

    /// The comparison of every route with an exchange, in order.
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

    /// As [`Self::explain`], for an exchange whose fields, authority and protocol are no longer known: skips conditions on them.
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

/// Whether a route's effect depends on the path.
fn reads_path(route: &model::Route) -> bool {
    let rewrite = route.rewrite.as_ref();
    route.matches.path.is_some() || rewrite.is_some_and(|rewrite| rewrite.path.is_some())
}
