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
        let kinds = [
            capture.exec.is_some(),
            capture.network.is_some(),
            capture.host.is_some(),
        ];
        match kinds.iter().filter(|is| **is).count() {
            0 => report.add(
                path,
                "it does not say whose traffic is captured",
                "add `exec: PATH` for programs of `hermes exec --capture`, `network: PATH` for a network namespace, or `host` for users, control groups and interfaces of this machine",
            ),
            1 if of_programs && capture.exec.is_none() => report.add(
                path,
                "`users` and `login` are about programs of `exec`, and the traffic is not known to be of one user",
                "remove them, and name the user of the traffic with `user` of the listener",
            ),
            1 => {}
            _ => report.add(
                path,
                "it captures programs, a network or the machine at once",
                "make a listener of each",
            ),
        }
        if capture.host.is_some() && (capture.dns.is_some() || capture.mtu.is_some()) {
            report.add(
                path,
                "`dns` and `mtu` are about a device, and traffic of the machine needs none",
                "remove them: questions for names are captured as other datagrams are",
            );
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
