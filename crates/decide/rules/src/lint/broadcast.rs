//! Checks of broadcasts.

use std::time::Duration;

use hermes_config::model::{Broadcast, ByteSize, Document, Hops, Reply, Route, Terminate};

use super::report::{Check, Report, instead};
use crate::broadcast::FIELD;
use crate::fields::OverlayFields;

pub(super) const CHECKS: &[Check] = &[field, senders, upstreams, quorums, bounds];

/// Most copies of one request.
const COPIES: usize = 256;

/// The default store of broadcasts.
const MEMORY: &str = "memory";

/// Bytes that it keeps of one user.
const OF_ONE: u64 = 16 * 1024 * 1024;

/// Most content that is kept in memory for one request, or for one reply.
const KEPT: u64 = 64 << 20;

/// Longest time that a broadcast may take.
const LONGEST: Duration = Duration::from_secs(3600);

fn each(document: &Document, mut check: impl FnMut(&str, &Route, &Broadcast)) {
    for (index, route) in document.routes.iter().enumerate() {
        if let Some(broadcast) = &route.broadcast {
            check(&format!("routes[{index}].broadcast"), route, broadcast);
        }
    }
}

/// Any client could ask for copies if the field meant nothing in the overlay.
fn field(document: &Document, report: &mut Report) {
    let overlay = OverlayFields::new(&document.fields);
    each(document, |path, _, _| {
        if !overlay.is_overlay(FIELD.as_str()) {
            let reason =
                format!("`{FIELD}` is not an overlay field, so every client could ask for copies");
            report.add(path, reason, "add x-hermes-* to `fields`");
        }
    });
}

fn senders(document: &Document, report: &mut Report) {
    each(document, |path, _, broadcast| {
        if broadcast.users.is_empty() && broadcast.peers.is_empty() {
            report.add(
                path,
                "no one may broadcast",
                "name `users` or `peers`, such as users: [\"*\"]",
            );
        }
        for (index, name) in broadcast.peers.iter().enumerate() {
            if !document.peers.contains_key(name) {
                let known = document.peers.keys().map(String::as_str);
                let reason = format!("there is no peer `{name}`");
                report.add(
                    format!("{path}.peers[{index}]"),
                    reason,
                    instead(name, known, "peers"),
                );
            }
        }
    });
}

fn upstreams(document: &Document, report: &mut Report) {
    each(document, |path, route, broadcast| {
        for (index, name) in broadcast
            .upstreams
            .iter()
            .flat_map(|names| names.iter().enumerate())
        {
            if !document.upstreams.contains_key(name) {
                let known = document.upstreams.keys().map(String::as_str);
                let reason = format!("there is no upstream `{name}`");
                report.add(
                    format!("{path}.upstreams[{index}]"),
                    reason,
                    instead(name, known, "upstreams"),
                );
            }
        }

        let sends = route.to.is_some() || route.terminate.is_some();
        let has_group = matches!(
            (&route.to, &route.terminate),
            (Some(Hops::One(_) | Hops::Chain(_) | Hops::Split(_)), _)
                | (_, Some(Terminate::Upstream(_)))
        );

        if !sends {
            report.add(
                path,
                "the route sends nothing on",
                "remove it, or give the route `to` or `terminate`",
            );
        } else if !has_group && broadcast.upstreams.is_none() {
            report.add(
                path,
                "the route names no endpoints",
                "name the `upstreams` that get the copies",
            );
        }
    });
}

/// More successes than there can be copies.
fn quorums(document: &Document, report: &mut Report) {
    each(document, |path, _, broadcast| {
        let copies = broadcast.copies.map_or(16, usize::from);
        if let Reply::Quorum(wanted) = broadcast.reply
            && wanted.get() > copies
        {
            let reason = format!("{wanted} of at most {copies} copies can never succeed");
            report.add(
                format!("{path}.reply"),
                reason,
                "write a smaller quorum, or more `copies`",
            );
        }
    });
}

fn bounds(document: &Document, report: &mut Report) {
    each(document, |path, _, broadcast| {
        if broadcast.copies.is_some_and(|copies| copies.get() > COPIES) {
            report.add(
                format!("{path}.copies"),
                "too many copies",
                format!("write at most {COPIES}"),
            );
        }

        let in_memory = broadcast
            .store
            .as_ref()
            .is_none_or(|store| store.name == MEMORY);
        if in_memory && is_above(broadcast.request_bytes, OF_ONE) {
            report.add(
                format!("{path}.request_bytes"),
                "the store `memory` keeps no more of one user",
                "write at most 16MiB, or name another `store`",
            );
        }
        if is_above(broadcast.reply_bytes, KEPT) {
            report.add(
                format!("{path}.reply_bytes"),
                "all of it is kept in memory",
                "write at most 64MiB",
            );
        }

        if broadcast
            .time
            .is_some_and(|time| time.0.is_zero() || time.0 > LONGEST)
        {
            report.add(
                format!("{path}.time"),
                "the time cannot be kept",
                "write a time up to 1h",
            );
        }
    });
}

fn is_above(size: Option<ByteSize>, most: u64) -> bool {
    size.is_some_and(|ByteSize(size)| size > most)
}
