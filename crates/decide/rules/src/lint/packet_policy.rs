//! Checks of the policy on packets.

use std::collections::HashSet;

use hermes_config::model::{Document, PacketRule};
use hermes_config::{child, element};

use super::report::{Check, Report};
use crate::packets::{MAX_PACKET_RULES, has_ports, shadowed_packet_rules};

pub(super) const CHECKS: &[Check] = &[effects, names, ports, many, shadowed];

const RULES: &str = "policy.packets.rules";

/// The rules on packets of a document.
pub(super) fn packet_rules(document: &Document) -> &[PacketRule] {
    let packets = document.policy.as_ref();
    let packets = packets.and_then(|policy| policy.packets.as_ref());
    packets.map_or(&[], |packets| &packets.rules)
}

fn each_rule(document: &Document, mut check: impl FnMut(String, &PacketRule)) {
    for (index, rule) in packet_rules(document).iter().enumerate() {
        check(element(RULES, index), rule);
    }
}

fn effects(document: &Document, report: &mut Report) {
    each_rule(document, |path, rule| match (rule.allow, rule.deny) {
        (Some(true), None) | (None, Some(true)) => {}
        (Some(_), Some(_)) => {
            let reason = "the rule says both `allow` and `deny`";
            report.add(child(&path, "deny"), reason, "keep one of them");
        }
        (Some(false), None) => {
            let reason = "`allow: false` does nothing";
            report.add(child(&path, "allow"), reason, "write `deny: true`");
        }
        (None, Some(false)) => {
            let reason = "`deny: false` does nothing";
            report.add(child(&path, "deny"), reason, "write `allow: true`");
        }
        (None, None) => report.add(path, "the rule does nothing", "give `allow` or `deny`"),
    });
}

fn names(document: &Document, report: &mut Report) {
    let mut seen = HashSet::new();
    each_rule(document, |path, rule| {
        let Some(name) = &rule.name else { return };
        if name.is_empty() || name == "default" {
            let reason = format!("`{name}` cannot be the name of a rule");
            report.add(child(&path, "name"), reason, "write another one");
        } else if !seen.insert(name.clone()) {
            let reason = format!("another rule on packets has the name `{name}` already");
            let remedy = "give each rule a name of its own";
            report.add(child(&path, "name"), reason, remedy);
        }
    });
}

/// A rule with ports for a protocol without never matches.
fn ports(document: &Document, report: &mut Report) {
    each_rule(document, |path, rule| {
        let (Some(protocols), Some(_)) = (&rule.protocol, &rule.port) else {
            return;
        };
        for protocol in protocols.iter().filter(|protocol| !has_ports(protocol.0)) {
            let reason = format!("{protocol} has no ports");
            report.add(
                child(&path, "port"),
                reason,
                "give such protocols a rule without `port`",
            );
        }
    });
}

fn many(document: &Document, report: &mut Report) {
    let count = packet_rules(document).len();
    if count > MAX_PACKET_RULES {
        let reason =
            format!("{count} rules are more than the {MAX_PACKET_RULES} that there may be");
        report.add(RULES.to_owned(), reason, "join prefixes and ports in lists");
    }
}

fn shadowed(document: &Document, report: &mut Report) {
    let rules = packet_rules(document);
    for shadow in shadowed_packet_rules(rules) {
        let by = element(RULES, shadow.by);
        let named = match &rules[shadow.by].name {
            Some(name) => format!("{by} ({name})"),
            None => by.clone(),
        };

        let reason = format!("the rule can never match: {named} decides everything that it would");
        report.add(
            element(RULES, shadow.dead),
            reason,
            format!("move it before {by}, or remove it"),
        );
    }
}
