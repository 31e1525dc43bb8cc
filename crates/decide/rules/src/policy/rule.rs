//! One rule, compiled.

use std::sync::Arc;

use hermes_config::element;
use hermes_config::model::{Hours, PolicyAnswer, PolicyRule, Template};
use http::StatusCode;
use indexmap::IndexMap;

use super::Denial;
use crate::route::{Condition, View};

/// One rule of the policy.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Position in the document's rules.
    pub index: usize,
    /// Name in reasons, metrics and logs: its own, or its position, as `policy.rules[3]`.
    pub name: Arc<str>,
    /// Its effect.
    pub effect: Effect,
    conditions: Vec<Condition>,
    hours: Vec<Hours>,
    set: IndexMap<String, Template>,
}

/// The effect of a rule, besides the fields that it may set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The exchange may go on.
    Allow,
    /// The exchange is refused.
    Deny(PolicyAnswer),
    /// No decision.
    Set,
}

/// The unmet condition of a rule.
pub(super) enum Failure<'a> {
    Condition(&'a Condition),
    Hours(&'a [Hours]),
}

/// The unmet condition of a rule, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmet {
    /// The key of the rule that says so.
    pub key: &'static str,
    /// In words.
    pub said: String,
}

impl Failure<'_> {
    /// In words.
    pub(super) fn say(&self, view: &View<'_>) -> Unmet {
        match self {
            Self::Condition(condition) => Unmet {
                key: "match",
                said: condition.failure(view),
            },
            Self::Hours(hours) => {
                let hours: Vec<String> = hours.iter().map(Hours::to_string).collect();
                Unmet {
                    key: "hours",
                    said: format!("now is not within {}", hours.join(" or ")),
                }
            }
        }
    }
}

impl Rule {
    pub(super) fn compile(index: usize, config: &PolicyRule) -> Self {
        let effect = match (config.denial(), config.allow) {
            (Some(answer), _) => Effect::Deny(answer),
            (None, Some(true)) => Effect::Allow,
            (None, _) => Effect::Set,
        };

        let name = match &config.name {
            Some(name) => name.as_str().into(),
            None => element("policy.rules", index).into(),
        };

        Self {
            index,
            name,
            effect,
            conditions: Condition::compile(&config.matches),
            hours: config.hours.iter().flatten().cloned().collect(),
            set: config.set.clone(),
        }
    }

    /// The unmet condition; `None` if it matches.
    pub(super) fn failure(&self, view: &View<'_>, now: u64) -> Option<Failure<'_>> {
        let failed = self
            .conditions
            .iter()
            .find(|condition| !condition.holds(view));
        if let Some(condition) = failed {
            return Some(Failure::Condition(condition));
        }

        let is_now = self.hours.is_empty() || self.hours.iter().any(|hours| hours.contains(now));
        (!is_now).then_some(Failure::Hours(&self.hours))
    }

    /// The fields that it sets.
    pub fn set(&self) -> &IndexMap<String, Template> {
        &self.set
    }

    /// When it holds; empty: always.
    pub(super) fn hours(&self) -> &[Hours] {
        &self.hours
    }

    /// The answer to an exchange that it denies.
    pub(super) fn denial(&self) -> Option<Denial> {
        let Effect::Deny(answer) = &self.effect else {
            return None;
        };
        let status = answer
            .status
            .and_then(|status| StatusCode::from_u16(status).ok());

        let name = &self.name;
        Some(Denial {
            status: status.unwrap_or(StatusCode::FORBIDDEN),
            reason: match &answer.reason {
                Some(reason) => format!("policy rule {name}: {reason}"),
                None => format!("policy rule {name} denies it"),
            },
        })
    }
}
