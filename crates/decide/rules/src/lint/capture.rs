//! Checks of captured traffic.

use hermes_config::child;
use hermes_config::model::{Capture, Document};
use ipnet::IpNet;

use super::report::{Check, Report, each_listener};
use super::tun::{is_v4, pool_prefix};

pub(super) const CHECKS: &[Check] = &[whose, pools];

/// Whose traffic is captured: one answer.
fn whose(document: &Document, report: &mut Report) {
    each(document, |path, capture| {
        let of_programs = !capture.users.is_empty() || capture.login;
        match (&capture.exec, &capture.network) {
            (None, None) => report.add(
                path,
                "it does not say whose traffic is captured",
                "add `exec: PATH` for programs of `hermes exec --capture`, or `network: PATH` for a network namespace",
            ),
            (Some(_), Some(_)) => report.add(
                path,
                "it captures programs and a network at once",
                "make a listener of each",
            ),
            (None, Some(_)) if of_programs => report.add(
                path,
                "`users` and `login` are about programs of `exec`, and a network namespace is no one user's",
                "remove them, and name the user of the traffic with `user` of the listener",
            ),
            _ => {}
        }
    });
}

/// Prefixes of names.
fn pools(document: &Document, report: &mut Report) {
    each(document, |path, capture| {
        let pool = &capture.dns().pool;
        if pool.is_empty() {
            let remedy = "name a prefix, such as 198.18.0.0/16, or leave `dns` out";
            report.add(
                format!("{path}.dns.pool"),
                "no name gets an address",
                remedy,
            );
        }
        for (index, prefix) in pool.iter().enumerate() {
            let path = format!("{path}.dns.pool[{index}]");
            pool_prefix(&path, prefix, "a name", report);
            let is_first = |other: &IpNet| is_v4(other) != is_v4(prefix);
            if !pool[..index].iter().all(is_first) {
                let reason = "a name has one address of each family";
                report.add(path, reason, "keep one prefix of each");
            }
        }
    });
}

fn each(document: &Document, mut check: impl FnMut(&str, &Capture)) {
    each_listener(document, |path, listener| {
        if let Some(capture) = listener.capture() {
            check(&child(path, "capture"), capture);
        }
    });
}
