//! Checks of groups and services, and of the names of targets.

use hermes_config::child;
use hermes_config::model::{Document, HostMatch, TargetMatch};

use super::matches::each_match;
use super::report::{Check, Report, instead, is_token};

pub(super) const CHECKS: &[Check] = &[names, members, targets];

/// Longest name of a group or service, in bytes.
const NAME: usize = 255;

fn names(document: &Document, report: &mut Report) {
    let groups = document.groups.keys().map(|name| ("groups", name));
    let services = document.services.keys().map(|name| ("services", name));

    for (section, name) in groups.chain(services) {
        let is_port = name.bytes().all(|byte| byte.is_ascii_digit());
        if !is_token(name) || name.len() > NAME || is_port {
            let reason = format!("`{}` cannot be a name here", name.escape_debug());
            let remedy = "write letters, digits and `-`, not digits alone";
            report.add(child(section, name), reason, remedy);
        }
    }
}

/// Members of a group are found in one step: groups are not nested.
fn members(document: &Document, report: &mut Report) {
    for (name, users) in &document.groups {
        for (index, user) in users.iter().enumerate() {
            if user.group().is_some() || user.claim_group().is_some() {
                let path = format!("{}[{index}]", child("groups", name));
                report.add(path, "a group cannot be in a group", "list its users");
            }
        }
    }

    for (name, targets) in &document.services {
        for (index, target) in targets.iter().enumerate() {
            if service(target).is_some() {
                let path = format!("{}[{index}]", child("services", name));
                let reason = "a service cannot be in a service";
                report.add(path, reason, "list its targets");
            }
        }
    }
}

fn targets(document: &Document, report: &mut Report) {
    each_match(document, |path, matches| {
        for (index, target) in matches.target.iter().flatten().enumerate() {
            let Some(name) = service(target) else {
                continue;
            };
            if !document.services.contains_key(name) {
                let known = document.services.keys().map(String::as_str);
                let reason = format!("there is no service `{name}`");
                let remedy = instead(name, known, "services");
                report.add(format!("{path}.target[{index}]"), reason, remedy);
            }
        }

        for (index, authority) in matches.authority.iter().flatten().enumerate() {
            if service(authority).is_some() {
                let reason = "a service is what exchanges are for, and this names the proxy itself";
                let remedy = "match it in `target`";
                report.add(format!("{path}.authority[{index}]"), reason, remedy);
            }
        }
    });
}

fn service(target: &TargetMatch) -> Option<&str> {
    match &target.host {
        HostMatch::Service(name) => Some(name),
        _ => None,
    }
}
