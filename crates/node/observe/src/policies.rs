//! Metrics of the policy: which rule decided how often.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Rules with series of their own, those of former configurations included; the others are counted together as `other`.
#[doc(alias = "bound")]
const RULES: usize = 1000;

/// The name of the rules that have no series of their own.
const OTHER: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RuleLabels {
    rule: Arc<str>,
    outcome: &'static str,
}

/// A series for each rule; its name comes from the configuration.
#[derive(Debug)]
pub(super) struct PolicyFamily {
    decisions: Family<RuleLabels, Counter>,
    named: Mutex<HashSet<Arc<str>>>,
}

impl PolicyFamily {
    pub fn register(registry: &mut Registry) -> Self {
        let decisions = Family::default();
        registry.register(
            "policy_decisions",
            "Decisions of the policy, by the rule that decided",
            decisions.clone(),
        );
        Self {
            decisions,
            named: Mutex::default(),
        }
    }

    /// The counter of one rule, which goes on where the rule of that name before it ended.
    fn counter(&self, rule: &Arc<str>, allows: bool) -> Counter {
        let mut named = self.named.lock();
        let has_series = named.contains(rule) || named.len() < RULES && named.insert(rule.clone());
        let labels = RuleLabels {
            rule: if has_series {
                rule.clone()
            } else {
                OTHER.into()
            },
            outcome: if allows { "allow" } else { "deny" },
        };
        self.decisions.get_or_create(&labels).clone()
    }
}

/// Counts the decisions of one policy's rules, without look-ups.
#[derive(Debug)]
pub struct PolicyTally {
    rules: Vec<Option<Counter>>,
    default: Counter,
}

impl PolicyTally {
    /// For rules by their positions, each with its name and whether it allows, if it decides at
    /// all; and for the default.
    pub(super) fn new<'a>(
        family: &PolicyFamily,
        rules: impl Iterator<Item = Option<(&'a Arc<str>, bool)>>,
        default_allows: bool,
    ) -> Self {
        // First, so that it has a series of its own.
        let default = family.counter(&"default".into(), default_allows);
        let counter = |(rule, allows)| family.counter(rule, allows);
        Self {
            rules: rules.map(|rule| rule.map(counter)).collect(),
            default,
        }
    }

    /// Counts a decision of the rule at this position, or of the default.
    pub fn decided(&self, rule: Option<usize>) {
        let counter = match rule {
            Some(rule) => self.rules.get(rule).and_then(Option::as_ref),
            None => Some(&self.default),
        };
        if let Some(counter) = counter {
            counter.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(family: &PolicyFamily, names: &[Arc<str>]) -> PolicyTally {
        PolicyTally::new(family, names.iter().map(|name| Some((name, true))), false)
    }

    #[test]
    fn however_many_rules_there_are_the_series_are_so_many() {
        let family = PolicyFamily::register(&mut Registry::default());
        let names: Vec<Arc<str>> = (0..RULES + 50)
            .map(|rule| format!("{rule}").into())
            .collect();
        let tally = tally(&family, &names);
        for rule in 0..names.len() {
            tally.decided(Some(rule));
        }
        let count = |rule: &str| {
            let labels = RuleLabels {
                rule: rule.into(),
                outcome: "allow",
            };
            family.decisions.get_or_create(&labels).get()
        };
        assert_eq!(family.named.lock().len(), RULES);
        assert_eq!(count("0"), 1);
        assert_eq!(count(OTHER), 51, "one has the place of the default");
    }

    #[test]
    fn a_rule_that_stays_is_counted_on() {
        let family = PolicyFamily::register(&mut Registry::default());
        let names: Vec<Arc<str>> = vec!["first".into(), "second".into()];
        tally(&family, &names).decided(Some(1));
        let later = tally(&family, &names[1..]);
        later.decided(Some(0));
        later.decided(None);
        assert_eq!(family.counter(&names[1], true).get(), 2);
        assert_eq!(family.counter(&"default".into(), false).get(), 1);
    }
}
