//! Policy: whether an exchange may go on, and which fields it gets with that, by the rules of the document.
//!
//! The first rule that matches and allows or denies decides. Rules that match before it may set
//! fields; these are there once it is allowed, so that no rule sees fields that another one set,
//! and the order of rules matters only for the decision. An index finds the rules that are worth
//! asking, as it does for routes.
//!
//! It asks no one, keeps nothing, and knows no clock; the time is an argument.

mod rule;
mod timetable;

use hermes_config::model::{Document, PolicyDefault};
use hermes_proto::fields::Fields;
use http::StatusCode;
use indexmap::IndexMap;

use crate::fields::{BadField, apply};
use crate::route::index::Index;
use crate::route::{AmbiguousPath, Facts, Names, has_readings, readings};
use crate::template::Values;
pub use rule::{Effect, Rule, Unmet};
use timetable::Timetable;

/// The policy of a document, compiled.
#[derive(Debug, Clone)]
pub struct CompiledPolicy {
    rules: Vec<Rule>,
    index: Index,
    default: PolicyDefault,
    timetable: Timetable,
    /// Whether a path that servers read differently can be decided on differently.
    reads_paths: bool,
}

/// The decision about an exchange.
#[derive(Debug, Clone)]
pub struct Decision<'a> {
    /// The rule that decided; `None`: no rule did, and the default holds.
    pub rule: Option<&'a Rule>,
    /// Why it may not go on, if it may not.
    pub denied: Option<Denial>,
    /// The rules that set fields, in their order.
    sets: Vec<&'a Rule>,
    /// Unix time at which the rules may decide otherwise; `None`: never, while the document is in force.
    pub until: Option<u64>,
}

/// Why an exchange may not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Denial {
    /// Status of the answer.
    pub status: StatusCode,
    /// In words.
    pub reason: String,
}

impl CompiledPolicy {
    /// The policy of a document; `None` if it has none.
    pub fn compile(document: &Document) -> Option<Self> {
        let policy = document.policy.as_ref()?;
        let rules: Vec<Rule> = policy
            .rules
            .iter()
            .enumerate()
            .map(|(index, config)| Rule::compile(index, config))
            .collect();

        Some(Self {
            index: Index::new(policy.rules.iter().map(|rule| &rule.matches)),
            timetable: Timetable::new(rules.iter().flat_map(Rule::hours)),
            default: policy.default,
            reads_paths: !document.defaults.insecure_paths
                && policy.rules.iter().any(|rule| rule.matches.path.is_some()),
            rules,
        })
    }

    /// Decides about an exchange at `now`, in Unix time. An exchange with a path that servers read
    /// differently is denied if the readings are decided differently. Allocates only for fields to
    /// set, a denial, or such a path.
    pub fn decide<'a>(&'a self, names: &Names, facts: &Facts<'_>, now: u64) -> Decision<'a> {
        let decision = self.decide_as_written(names, facts, now);
        if !self.reads_paths || decision.denied.is_some() || !has_readings(facts.kind, facts.path) {
            return decision;
        }

        self.agreed(names, facts, now, decision)
    }

    /// The decision, denied where some reading of the path is decided on otherwise.
    #[cold]
    fn agreed<'a>(
        &'a self,
        names: &Names,
        facts: &Facts<'_>,
        now: u64,
        decision: Decision<'a>,
    ) -> Decision<'a> {
        let mut readings = readings(facts.kind, facts.path).into_iter();
        let other = readings.find(|path| {
            let read = self.decide_as_written(names, &Facts { path, ..*facts }, now);
            !decision.is_same(&read)
        });
        let denied = other.map(|reading| Denial {
            status: StatusCode::BAD_REQUEST,
            reason: AmbiguousPath::new(facts.path, &reading, "the policy says otherwise")
                .to_string(),
        });
        Decision { denied, ..decision }
    }

    #[inline]
    fn decide_as_written<'a>(&'a self, names: &Names, facts: &Facts<'_>, now: u64) -> Decision<'a> {
        let view = names.view(facts);
        let matching = self
            .index
            .candidates(&view)
            .map(|index| &self.rules[index])
            .filter(|rule| rule.failure(&view, now).is_none());

        let mut sets = Vec::new();
        let mut decisive = None;
        for rule in matching {
            if !rule.set().is_empty() {
                sets.push(rule);
            }
            if rule.effect != Effect::Set {
                decisive = Some(rule);
                break;
            }
        }

        Decision {
            rule: decisive,
            denied: self.denial(decisive),
            sets,
            until: self.timetable.next(now),
        }
    }

    fn denial(&self, decisive: Option<&Rule>) -> Option<Denial> {
        match (decisive, self.default) {
            (Some(rule), _) => rule.denial(),
            (None, PolicyDefault::Allow) => None,
            (None, PolicyDefault::Deny) => Some(Denial {
                status: StatusCode::FORBIDDEN,
                reason: "no rule of the policy allows it".to_owned(),
            }),
        }
    }

    /// The comparisons of rules with an exchange, in order, up to the one that decides.
    pub fn explain<'a>(
        &'a self,
        names: &Names,
        facts: &Facts<'_>,
        now: u64,
    ) -> Vec<(&'a Rule, Option<Unmet>)> {
        let view = names.view(facts);
        let mut explained = Vec::new();
        for rule in &self.rules {
            let unmet = rule.failure(&view, now).map(|failure| failure.say(&view));
            let decides = unmet.is_none() && rule.effect != Effect::Set;
            explained.push((rule, unmet));
            if decides {
                break;
            }
        }

        explained
    }

    /// The rules, in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The decision where no rule matches.
    pub fn default(&self) -> PolicyDefault {
        self.default
    }
}

impl<'a> Decision<'a> {
    /// Whether the same rules decided and set fields.
    fn is_same(&self, other: &Self) -> bool {
        let decisive = |decision: &Self| decision.rule.map(|rule| rule.index);
        let setting = |decision: &Self| {
            let sets = decision.sets.iter();
            sets.map(|rule| rule.index).collect::<Vec<_>>()
        };
        decisive(self) == decisive(other) && setting(self) == setting(other)
    }

    /// The rules that set fields, in their order; those of an exchange that is denied set nothing.
    pub fn sets(&self) -> &[&'a Rule] {
        match self.denied {
            Some(_) => &[],
            None => &self.sets,
        }
    }

    /// Sets the fields of an exchange that is allowed. Of rules that set the same field, the last one counts.
    ///
    /// # Errors
    /// A field cannot be written; the exchange is to be refused.
    pub fn apply(&self, fields: &mut Fields, values: &Values<'_>) -> Result<(), BadField> {
        // Rules only set.
        let nothing = IndexMap::new();
        for rule in self.sets() {
            apply(rule.set(), &nothing, &[], fields, values)?;
        }
        Ok(())
    }

    /// The name of the rule that decided, or `default`.
    pub fn by(&self) -> &'a str {
        self.rule.map_or("default", |rule| &rule.name)
    }
}
