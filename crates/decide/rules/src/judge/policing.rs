//! The policy's decision about an exchange, in steps.

use hermes_config::model::PolicyDefault;
use hermes_config::{child, element};
use hermes_proto::fields::Fields;
use http::{HeaderName, StatusCode};

use super::steps::{Phase, Step, Steps};
use crate::policy::{CompiledPolicy, Decision, Effect, Rule};
use crate::route::{Facts, Names};

/// A step for each rule up to the one that decides.
pub(super) fn compared(
    policy: &CompiledPolicy,
    names: &Names,
    facts: &Facts<'_>,
    now: u64,
    steps: &mut impl Steps,
) {
    if !steps.is_wanted() {
        return;
    }
    let mut take = |path: String, said: String| {
        steps.take(Step {
            phase: Phase::Policy,
            path,
            said,
        });
    };

    for (rule, unmet) in policy.explain(names, facts, now) {
        let place = element("policy.rules", rule.index);
        let name = &rule.name;
        match unmet {
            Some(unmet) => take(
                child(&place, unmet.key),
                format!("{name}: no, {}", unmet.said),
            ),
            None => {
                take(place, format!("{name}: yes; {}", describe_effect(rule)));
                if rule.effect != Effect::Set {
                    return;
                }
            }
        }
    }

    let said = match policy.default() {
        PolicyDefault::Allow => "no rule decides: allowed",
        PolicyDefault::Deny => "no rule decides: denied",
    };
    take(child("policy", "default"), said.to_owned());
}

/// The effect of a rule, in words.
fn describe_effect(rule: &Rule) -> String {
    match &rule.effect {
        Effect::Allow => "allowed".to_owned(),
        Effect::Deny(answer) => {
            let status = answer.status.unwrap_or(StatusCode::FORBIDDEN.as_u16());
            match &answer.reason {
                Some(reason) => format!("denied with {status}: {reason}"),
                None => format!("denied with {status}"),
            }
        }
        Effect::Set => {
            let names: Vec<&str> = rule.set().keys().map(String::as_str).collect();
            format!("sets {}, and the next rules are asked", names.join(", "))
        }
    }
}

/// Which fields were set.
pub(super) fn applied(decision: &Decision<'_>, fields: &Fields, steps: &mut impl Steps) {
    if !steps.is_wanted() {
        return;
    }
    for rule in decision.sets() {
        let place = child(&element("policy.rules", rule.index), "set");
        for name in rule.set().keys() {
            let value = HeaderName::from_bytes(name.as_bytes())
                .ok()
                .and_then(|name| fields.get(name));
            let said = match value {
                Some(value) => {
                    format!(
                        "field {name}: {}",
                        String::from_utf8_lossy(value.as_bytes())
                    )
                }
                None => format!("field {name}: nothing to write"),
            };

            steps.take(Step {
                phase: Phase::Policy,
                path: child(&place, name),
                said,
            });
        }
    }
}
