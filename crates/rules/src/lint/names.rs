//! Checks of groups and services, and of what names them.

use hermes_config::model::{
    Auth, Document, HostMatch, Listener, TargetMatch, UserMatch, UserPattern,
};
use hermes_config::{child, element};

use super::matches::each_match;
use super::packet_policy::packet_rules;
use super::report::{Check, Report, instead, is_token};

pub(super) const CHECKS: &[Check] = &[names, members, users, targets];

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

/// What is in a group is found at once: no group is in another one.
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

fn users(document: &Document, report: &mut Report) {
    for (name, peer) in &document.peers {
        let path = child(&child("peers", name), "speaks_for");
        patterns(document, &path, &peer.speaks_for, report);
    }

    for (index, route) in document.routes.iter().enumerate() {
        let users = route.broadcast.iter().map(|broadcast| &broadcast.users);
        users.for_each(|users| {
            patterns(
                document,
                &format!("routes[{index}].broadcast.users"),
                users,
                report,
            );
        });
    }

    each_match(document, |path, matches| {
        tests(document, path, matches.user.iter().flatten(), report);
    });
    for (name, listener) in &document.listeners {
        let limits = child(&child("listeners", name), "limits");
        for (index, limits_of) in listener.limits.users.iter().enumerate() {
            let path = element(&child(&limits, "users"), index);
            tests(document, &path, limits_of.user.iter(), report);
        }
    }
    for (index, rule) in packet_rules(document).iter().enumerate() {
        let path = format!("policy.packets.rules[{index}]");
        tests(document, &path, rule.user.iter().flatten(), report);
    }
}

/// Those of what stands at this path.
fn tests<'a>(
    document: &Document,
    path: &str,
    users: impl Iterator<Item = &'a UserMatch>,
    report: &mut Report,
) {
    for (index, user) in users.enumerate() {
        if let UserMatch::Pattern(pattern) = user {
            let path = format!("{path}.user[{index}]");
            claim_group(document, &path, pattern, report);
            group(document, path, pattern, report);
        }
    }
}

fn patterns(document: &Document, path: &str, users: &[UserPattern], report: &mut Report) {
    for (index, pattern) in users.iter().enumerate() {
        group(document, format!("{path}[{index}]"), pattern, report);
        if pattern.claim_group().is_some() {
            let reason = "what a token claims is not known here";
            let remedy = "name users or a group of the file";
            report.add(format!("{path}[{index}]"), reason, remedy);
        }
    }
}

/// A token has to be checked by this node for its groups to be known.
fn claim_group(document: &Document, path: &str, pattern: &UserPattern, report: &mut Report) {
    let checks = |listener: &Listener| match &listener.auth {
        Some(Auth::Methods(methods)) => methods.bearer.is_some(),
        _ => false,
    };
    if pattern.claim_group().is_some() && !document.listeners.values().any(checks) {
        let reason = "no listener checks tokens, so no one is in this group";
        report.add(
            path.to_owned(),
            reason,
            "add `auth: { bearer: ... }` to one",
        );
    }
}

fn group(document: &Document, path: String, pattern: &UserPattern, report: &mut Report) {
    let Some(name) = pattern.group() else { return };
    if !document.groups.contains_key(name) {
        let known = document.groups.keys().map(String::as_str);
        let reason = format!("there is no group `{name}`");
        report.add(path, reason, instead(name, known, "groups"));
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
