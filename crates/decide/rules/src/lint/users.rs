//! Checks of names of users.

use std::collections::HashMap;

use hermes_config::model::{Auth, Document, Listener, UserMatch, UserPattern};
use hermes_config::{child, element};

use super::matches::each_match;
use super::packet_policy::packet_rules;
use super::report::{Check, Report, instead};
use super::split_tunnels::each_tunnel;
use crate::fields::field_value;

pub(super) const CHECKS: &[Check] = &[groups, claims, aliases, names_of_users];

/// Names that one user may have besides its own.
#[doc(alias = "bound")]
const ALIASES: usize = 64;

/// The facts of an exchange that are known where users are named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// The user.
    User,
    /// The claims of its token, too.
    Claims,
}

/// Everything in a document that names users, with its place.
pub(crate) fn each_user(document: &Document, mut look: impl FnMut(String, &UserPattern, Known)) {
    for (name, users) in &document.groups {
        all(&child("groups", name), users, &mut look);
    }
    for (name, peer) in &document.peers {
        let path = child(&child("peers", name), "speaks_for");
        all(&path, &peer.speaks_for, &mut look);
    }
    for (index, route) in document.routes.iter().enumerate() {
        if let Some(broadcast) = &route.broadcast {
            let path = format!("routes[{index}].broadcast.users");
            all(&path, &broadcast.users, &mut look);
        }
    }

    each_match(document, |path, matches| {
        tests(path, matches.user.iter().flatten(), &mut look);
    });
    for (name, listener) in &document.listeners {
        let limits = child(&child("listeners", name), "limits");
        for (index, bounds) in listener.limits.users.iter().enumerate() {
            let path = element(&child(&limits, "users"), index);
            tests(&path, bounds.user.iter(), &mut look);
        }
    }
    for (index, rule) in packet_rules(document).iter().enumerate() {
        let path = format!("policy.packets.rules[{index}]");
        tests(&path, rule.user.iter().flatten(), &mut look);
    }
}

fn all(path: &str, users: &[UserPattern], look: &mut impl FnMut(String, &UserPattern, Known)) {
    for (index, user) in users.iter().enumerate() {
        look(element(path, index), user, Known::User);
    }
}

/// The tests of a condition at this path.
fn tests<'a>(
    path: &str,
    users: impl Iterator<Item = &'a UserMatch>,
    look: &mut impl FnMut(String, &UserPattern, Known),
) {
    for (index, user) in users.enumerate() {
        if let UserMatch::Pattern(pattern) = user {
            look(format!("{path}.user[{index}]"), pattern, Known::Claims);
        }
    }
}

fn groups(document: &Document, report: &mut Report) {
    each_user(document, |path, pattern, _| {
        let Some(name) = pattern.group() else { return };
        // Members of a group are found in one step; nested groups are reported elsewhere.
        if !document.groups.contains_key(name) && !path.starts_with("groups.") {
            let known = document.groups.keys().map(String::as_str);
            let reason = format!("there is no group `{name}`");
            report.add(path, reason, instead(name, known, "groups"));
        }
    });
}

/// A token has to be checked by this node for its groups to be known.
fn claims(document: &Document, report: &mut Report) {
    let checks = |listener: &Listener| match listener.auth() {
        Some(Auth::Methods(methods)) => methods.bearer.is_some(),
        _ => false,
    };
    let any_checks = document.listeners.values().any(checks);

    each_user(document, |path, pattern, known| {
        if pattern.claim_group().is_none() || path.starts_with("groups.") {
            return;
        }
        if known == Known::User {
            let reason = "what a token claims is not known here";
            report.add(path, reason, "name users or a group of the file");
        } else if !any_checks {
            let reason = "no listener checks tokens, so no one is in this group";
            report.add(path, reason, "add `auth: { bearer: ... }` to one");
        }
    });
}

/// Each name is one user's, and no user's name is another one's alias.
fn aliases(document: &Document, report: &mut Report) {
    let own = document.users.keys().map(|user| (user.as_str(), user));
    let mut whose: HashMap<_, _> = own.collect();

    for (user, aliases) in &document.users {
        let path = child("users", user);
        usable(&path, user, report);
        if aliases.len() > ALIASES {
            let reason = format!("{} other names are more than {ALIASES}", aliases.len());
            report.add(path.clone(), reason, "remove some");
        }

        for (index, alias) in aliases.iter().enumerate() {
            let path = element(&path, index);
            usable(&path, alias, report);
            match whose.get(alias.as_str()) {
                None => drop(whose.insert(alias, user)),
                Some(other) => {
                    let alias = alias.escape_debug();
                    let other = other.escape_debug();
                    let reason = format!("`{alias}` is a name of {other} already");
                    let remedy = "each name is one user's: remove it here or there";
                    report.add(path, reason, remedy);
                }
            }
        }
    }
}

/// A user's name becomes a field.
pub(super) fn usable(path: &str, name: &str, report: &mut Report) {
    let is_written = |value: http::HeaderValue| value.as_bytes() == name.as_bytes();
    if name.is_empty() || !field_value(name).is_some_and(is_written) {
        let reason = format!("{name:?} cannot be a user: it becomes the field `user`");
        let remedy = "write a name without control characters and without space around it";
        report.add(path, reason, remedy);
    }
}

/// Rules name users by their own names: an alias is replaced before they are asked.
fn names_of_users(document: &Document, report: &mut Report) {
    let users = crate::UserAliases::new(&document.users);
    let mut check = |path: String, name: &str| {
        let user = users.user_of(name);
        if user != name {
            let reason = format!(
                "`{}` is another name of {}",
                name.escape_debug(),
                user.escape_debug()
            );
            report.add(path, reason, format!("write {}", user.escape_debug()));
        }
    };

    each_user(document, |path, pattern, _| {
        if let Some(name) = pattern.exact() {
            check(path, name);
        }
    });
    if let Some(identity) = &document.identity {
        check("identity.user".to_owned(), &identity.user);
    }
    for (name, listener) in &document.listeners {
        if let Some(user) = &listener.user {
            check(child(&child("listeners", name), "user"), user);
        }
    }
    for (path, tunnel) in each_tunnel(document) {
        if let Some(user) = &tunnel.user {
            check(child(&path, "user"), user);
        }
    }
}
