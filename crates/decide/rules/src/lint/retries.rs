//! Checks of retries and hedges.

use std::time::Duration;

use hermes_config::model::{Document, Hedge, Retry};

use super::report::{Check, Report, each_upstream};

pub(super) const CHECKS: &[Check] = &[retries, hedges];

fn retries(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        if let Some(retry) = &route.retry {
            check_retry(&format!("routes[{index}].retry"), retry, report);
        }
    }
    each_upstream(document, |path, upstream| {
        if let Some(retry) = &upstream.retry {
            check_retry(&format!("{path}.retry"), retry, report);
        }
    });
}

fn check_retry(path: &str, retry: &Retry, report: &mut Report) {
    if let Some(attempts) = retry
        .attempts
        .filter(|attempts| !(1..=10).contains(attempts))
    {
        let reason = format!("{attempts} is not a number of attempts");
        report.add(format!("{path}.attempts"), reason, "write one from 1 to 10");
    }

    let longest = Duration::from_secs(3600);
    if let Some(time) = retry.keep_for.filter(|time| time.0 > longest) {
        report.add(
            format!("{path}.keep_for"),
            format!("{time} is longer than a client would wait"),
            "write 1h or less",
        );
    }

    let on = retry.on.as_deref().unwrap_or_default();
    if retry.on.is_some() && on.is_empty() {
        report.add(
            format!("{path}.on"),
            "nothing is tried again",
            "remove `on` for the default, or name a condition",
        );
    }

    for (index, condition) in on
        .iter()
        .enumerate()
        .filter(|(index, condition)| on[..*index].contains(condition))
    {
        report.add(
            format!("{path}.on[{index}]"),
            format!("{condition:?} is listed twice"),
            "remove one",
        );
    }

    if retry.per_try_timeout.is_some_and(|time| time.0.is_zero()) {
        let reason = "a time-out of zero lets nothing happen";
        report.add(
            format!("{path}.per_try_timeout"),
            reason,
            "give a longer one, or remove it",
        );
    }

    if let (Some(base), Some(max)) = (retry.backoff.base, retry.backoff.max)
        && base > max
    {
        let reason = format!("pauses would begin with {base}, above their maximum {max}");
        report.add(
            format!("{path}.backoff.base"),
            reason,
            format!("write {max} or less"),
        );
    }
}

fn hedges(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        if let Some(hedge) = &route.hedge {
            check_hedge(&format!("routes[{index}].hedge"), hedge, report);
        }
    }
    each_upstream(document, |path, upstream| {
        if let Some(hedge) = &upstream.hedge {
            check_hedge(&format!("{path}.hedge"), hedge, report);
        }
    });
}

fn check_hedge(path: &str, hedge: &Hedge, report: &mut Report) {
    if let Some(most) = hedge.most.filter(|most| !(2..=4).contains(most)) {
        report.add(
            format!("{path}.most"),
            format!("{most} is not a number of attempts at once"),
            "write 2, 3 or 4",
        );
    }
    if hedge.after.0.is_zero() {
        let reason = "every request would be sent twice";
        report.add(
            format!("{path}.after"),
            reason,
            "give the time after which a response is late, such as 50ms",
        );
    }
}
