//! The conditions of one `match`, for what is no route.

use hermes_config::model::Match;

use super::Facts;
use super::condition::Condition;
use super::facts::View;

/// A `match`, compiled: whether an exchange looks like this.
#[derive(Debug, Clone)]
pub struct Matcher {
    conditions: Vec<Condition>,
}

impl Matcher {
    /// Compiles the conditions.
    pub fn compile(matches: &Match) -> Self {
        Self {
            conditions: Condition::compile(matches),
        }
    }

    /// Whether all conditions hold.
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        let view = View::new(facts);
        self.conditions
            .iter()
            .all(|condition| condition.holds(&view))
    }
}
