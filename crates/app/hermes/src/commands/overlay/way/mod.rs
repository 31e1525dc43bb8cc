//! The way to a name through the overlay, as exchanges of this user take it.
//!
//! - [`ping`]: asks each node of the way in turn, and measures it
//! - [`trace`]: sends one real exchange, and shows the decision of each node
//!
//! Both send exchanges by the listener for programs of the node beside the user: they are judged by the same rules as all that the user
//! sends, and the nodes tell them what they tell him of a failure. No other party is asked.

pub mod ping;
mod probe;
pub mod trace;

use std::time::Duration;

use clap::Args;
use hermes_proto::hop_report::ReportedHop;
use hermes_proto::proxy_status::{ProxyError, ReportedFailure};
use serde_json::{Value, json};

/// Nodes that a way may have: one more than an exchange may pass.
#[doc(alias = "bound")]
const MOST_HOPS: usize = 17;

/// How long an answer is waited for.
#[derive(Debug, Args)]
struct Patience {
    /// How long an answer is waited for.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = crate::commands::reload::confirmed_within)]
    timeout: Duration,
}

/// The reason why a way leads no further.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stop {
    /// The node that says so, or the last one that answered.
    node: Option<String>,
    /// The reason.
    reason: String,
    /// The node's name for its refusal.
    refusal: Option<String>,
}

impl Stop {
    /// A reason that no node gave.
    fn here(reason: impl Into<String>) -> Self {
        Self {
            node: None,
            reason: reason.into(),
            refusal: None,
        }
    }

    fn at(node: &str, reason: impl Into<String>) -> Self {
        Self {
            node: Some(node.to_owned()),
            ..Self::here(reason)
        }
    }

    fn of(failure: &ReportedFailure) -> Self {
        let error = failure.error.token();
        let reason = match failure.details.as_str() {
            "" => error.to_owned(),
            details => format!("{error}: {details}"),
        };
        Self {
            node: Some(failure.node.clone()),
            reason,
            refusal: failure.refusal.as_ref().map(ToString::to_string),
        }
    }

    /// Whether a rule says so, which may be another for another method.
    fn is_denied(&self) -> bool {
        self.reason
            .starts_with(ProxyError::HttpRequestDenied.token())
    }

    /// In a line for people.
    fn line(&self) -> String {
        let at = self.node.as_deref();
        let at = at.map_or_else(String::new, |node| format!(" at {node}"));
        let why = self.refusal.as_deref();
        let why = why.map_or_else(String::new, |id| format!(" (hermes why {id})"));
        format!("stopped{at}: {}{why}", self.reason)
    }

    fn json(&self) -> Value {
        json!({ "node": self.node, "reason": self.reason, "refusal": self.refusal })
    }
}

/// Why an exchange with these reports ends before a server; `None` if it does not.
fn stop_in(hops: &[ReportedHop]) -> Option<Stop> {
    if let Some(failure) = hops.iter().rev().find_map(|hop| hop.failure.as_ref()) {
        return Some(Stop::of(failure));
    }
    let Some(last) = hops.last() else {
        return Some(Stop::here(
            "the answer says nothing of its way: this listener tells its clients nothing, or they asked too often",
        ));
    };
    let report = &last.report;
    if report.is_end && report.next_hop.is_none() {
        let route = report.route.as_deref().unwrap_or("?");
        let reason = format!("route {route} answers there, and leads to no server");
        return Some(Stop::at(&last.node, reason));
    }
    None
}

/// Milliseconds, for scripts.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use hermes_proto::hop_report::HopReport;

    use super::*;

    fn hop(node: &str, next: Option<&str>, is_end: bool) -> ReportedHop {
        ReportedHop {
            node: node.to_owned(),
            report: HopReport {
                route: Some("video".to_owned()),
                next_hop: next.map(str::to_owned),
                is_end,
                ..HopReport::default()
            },
            failure: None,
        }
    }

    #[test]
    fn a_way_ends_at_a_server_or_says_why_not() {
        assert_eq!(stop_in(&[hop("hub", Some("service-video"), true)]), None);
        let here = stop_in(&[hop("laptop", None, true)]).unwrap();
        assert_eq!(
            here.line(),
            "stopped at laptop: route video answers there, and leads to no server"
        );
        assert!(stop_in(&[]).is_some_and(|stop| stop.node.is_none()));

        let mut refused = hop("hub", None, false);
        refused.failure = Some(ReportedFailure {
            node: "hub".to_owned(),
            error: ProxyError::HttpRequestDenied,
            details: String::new(),
            refusal: "bcdfghjklmnp".parse().ok(),
        });
        let stop = stop_in(&[hop("laptop", Some("hub"), false), refused]).unwrap();
        assert_eq!(
            stop.line(),
            "stopped at hub: http_request_denied (hermes why bcdfghjklmnp)"
        );
    }
}
