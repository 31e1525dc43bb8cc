//! The conditions of one `match` outside of routes.

use std::sync::Arc;

use hermes_config::model::Match;

use super::condition::Condition;
use super::{Facts, Names};

/// A `match`, compiled: whether an exchange looks like this.
#[derive(Debug, Clone)]
pub struct Matcher {
    names: Arc<Names>,
    conditions: Vec<Condition>,
}

impl Matcher {
    /// Compiles the conditions, in which these names may stand.
    pub fn compile(matches: &Match, names: Arc<Names>) -> Self {
        Self {
            names,
            conditions: Condition::compile(matches),
        }
    }

    /// Whether all conditions hold.
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        let view = self.names.view(facts);
        self.conditions
            .iter()
            .all(|condition| condition.holds(&view))
    }
}
