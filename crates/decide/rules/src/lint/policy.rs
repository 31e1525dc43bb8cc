//! Checks of the policy: the effects of its rules, and whether each can apply.

use std::collections::HashMap;

use hermes_config::model::{Document, PolicyDeny, PolicyRule};
use hermes_config::{child, element};

use super::report::{Check, Report};
use crate::fields::{OverlayFields, USER, is_reserved};
use crate::shadow::shadowed_rules;

pub(super) const CHECKS: &[Check] = &[effects, names, fields, shadowed];

/// The label of decisions that no rule made.
const DEFAULT: &str = "default";

fn each_rule(document: &Document, mut check: impl FnMut(String, &PolicyRule)) {
    let rules = document.policy.iter().flat_map(|policy| &policy.rules);
    for (index, rule) in rules.enumerate() {
        check(element("policy.rules", index), rule);
    }
}

fn effects(document: &Document, report: &mut Report) {
    each_rule(document, |path, rule| {
        if rule.allow == Some(false) {
            let remedy = "write `deny: true`";
            report.add(child(&path, "allow"), "`allow: false` does nothing", remedy);
        } else if rule.deny == Some(PolicyDeny::Plain(false)) {
            let remedy = "write `allow: true`";
            report.add(child(&path, "deny"), "`deny: false` does nothing", remedy);
        } else if rule.allow.is_some() && rule.deny.is_some() {
            let reason = "the rule allows and denies";
            report.add(child(&path, "deny"), reason, "keep one of them");
        } else if rule.deny.is_some() && !rule.set.is_empty() {
            let reason = "what is denied goes nowhere, so no one sees these fields";
            report.add(child(&path, "set"), reason, "remove them");
        } else if !rule.decides() && rule.set.is_empty() {
            let remedy = "give one of `allow`, `deny` and `set`";
            report.add(path, "the rule does nothing", remedy);
        }
    });
}

fn names(document: &Document, report: &mut Report) {
    let mut first: HashMap<String, String> = HashMap::new();
    each_rule(document, |path, rule| {
        let Some(name) = &rule.name else { return };
        let owner = first.entry(name.clone()).or_insert_with(|| path.clone());

        if name == DEFAULT || name.is_empty() {
            let reason = format!("`{name}` cannot be the name of a rule");
            report.add(child(&path, "name"), reason, "write another one");
        } else if *owner != path {
            let reason = format!("{owner} has the name `{name}` already");
            let remedy = "give each rule a name of its own";
            report.add(child(&path, "name"), reason, remedy);
        }
    });
}

/// A field that clients are believed in decides nothing: only overlay fields are taken from them.
fn fields(document: &Document, report: &mut Report) {
    let overlay = OverlayFields::new(&document.fields);
    each_rule(document, |path, rule| {
        for name in rule.set.keys() {
            let path = child(&child(&path, "set"), name);
            let written = name.to_ascii_lowercase();
            if written == USER.as_str() {
                let reason = "whose an exchange is, authentication says";
                report.add(path, reason, "set another field");
            } else if !overlay.is_overlay(&written) && !is_reserved(&written) {
                let reason =
                    format!("`{name}` is not an overlay field: clients could write it themselves");
                report.add(path, reason, "declare it in `fields`");
            }
        }
    });
}

fn shadowed(document: &Document, report: &mut Report) {
    let Some(policy) = &document.policy else {
        return;
    };
    for shadow in shadowed_rules(&policy.rules) {
        let by = element("policy.rules", shadow.by);
        let named = match &policy.rules[shadow.by].name {
            Some(name) => format!("{by} ({name})"),
            None => by.clone(),
        };

        let reason = format!("the rule can never match: {named} decides everything that it would");
        report.add(
            element("policy.rules", shadow.dead),
            reason,
            format!("move it before {by}, or remove it"),
        );
    }
}
