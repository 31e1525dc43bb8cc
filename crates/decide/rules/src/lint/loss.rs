//! Checks of the recovery of datagrams that a path loses.

use std::ops::RangeInclusive;

use hermes_config::model::{Document, LossDetails, LossRecovery, LossWord, Tunnel};
use hermes_recovery::agreement::LONGEST;

use super::report::{Check, Report};

/// How often one datagram may be sent again.
const TRIES: RangeInclusive<u8> = 1..=20;

/// Datagrams of parity for each hundred others.
const PERCENT: RangeInclusive<u8> = 1..=100;

pub(super) const CHECKS: &[Check] = &[loss];

fn loss(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let details = route.tunnel.as_ref().and_then(Tunnel::loss);
        if let Some(details) = details.and_then(LossRecovery::details) {
            bounds(details, &format!("routes[{index}].tunnel.loss"), report);
        }
    }
}

fn bounds(details: &LossDetails, path: &str, report: &mut Report) {
    if let Some(within) = &details.within
        && (within.0.is_zero() || within.0 > LONGEST)
    {
        report.add(
            format!("{path}.within"),
            format!("datagrams wait between 1ms and {} s", LONGEST.as_secs()),
            "write a time such as `200ms`",
        );
    }
    let keys = [
        ("tries", details.tries, TRIES, LossWord::Parity),
        ("percent", details.percent, PERCENT, LossWord::Retransmit),
    ];
    for (key, number, range, without) in keys {
        let Some(number) = number else {
            continue;
        };
        if !range.contains(&number) {
            report.add(
                format!("{path}.{key}"),
                format!("it is between {} and {}", range.start(), range.end()),
                "write a number in between",
            );
        }
        if [LossWord::Plain, LossWord::Groups, without].contains(&details.by) {
            report.add(
                format!("{path}.{key}"),
                "it has no effect with this `by`",
                "remove it",
            );
        }
    }
}
