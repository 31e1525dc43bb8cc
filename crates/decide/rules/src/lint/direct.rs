//! Checks of connections from here, beside a next proxy or in its place.

use std::time::Duration;

use hermes_config::model::{Document, Route, Tunnel, TunnelAnswer};

use super::report::{Check, Report};

/// The longest head start of a next proxy.
#[doc(alias = "bound")]
const LONGEST_HEAD_START: Duration = Duration::from_secs(10);

pub(super) const CHECKS: &[Check] = &[direct];

fn direct(document: &Document, report: &mut Report) {
    for (index, route) in document.routes.iter().enumerate() {
        let Some(direct) = route.tunnel.as_ref().and_then(Tunnel::direct) else {
            continue;
        };
        let path = format!("routes[{index}].tunnel.direct");
        if let Some((reason, remedy)) = conflict(route) {
            report.add(path.clone(), reason, remedy);
        }
        if direct
            .after()
            .is_some_and(|after| after.is_zero() || after > LONGEST_HEAD_START)
        {
            let most = LONGEST_HEAD_START.as_secs();
            report.add(
                format!("{path}.after"),
                format!("a head start is between 1ms and {most} s"),
                "write a time such as `250ms`",
            );
        }
    }
}

/// The part of a route that only holds with a next proxy, and a remedy.
fn conflict(route: &Route) -> Option<(&'static str, &'static str)> {
    if route.to.is_none() {
        return Some((
            "`tunnel.direct` stands beside a next proxy, and this route has none",
            "add `to`, or remove it",
        ));
    }
    if !route.through.is_empty() {
        return Some((
            "functions on the way would be passed by",
            "remove `tunnel.direct`, or `through`",
        ));
    }
    let tunnel = route.tunnel.as_ref().and_then(Tunnel::details);
    if tunnel.is_some_and(|tunnel| tunnel.answer == Some(TunnelAnswer::Early)) {
        return Some((
            "clients that are answered early have sent bytes before it is known which way is open",
            "remove `tunnel.direct`, or `tunnel.answer`",
        ));
    }
    None
}
