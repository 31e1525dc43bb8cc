//! Everything about a document that its schema cannot say; all findings at once.
//!
//! Each check is one small function; the lists are in the modules, by what they look at. A finding
//! makes the document unusable; merely unusual values are for `warn`.

mod acme;
mod attach;
mod authorize;
mod bind;
mod broadcast;
mod capture;
mod chains;
mod changes;
mod custody;
mod decision_log;
mod direct;
mod edges;
mod fitness;
mod flow_log;
mod host_capture;
mod http3;
mod links;
mod listeners;
mod loss;
mod matches;
mod names;
mod node;
mod packet_policy;
mod peers;
mod policy;
mod ports;
mod report;
mod retries;
mod routes;
mod signed;
mod split_dns;
mod split_tunnels;
mod templates;
mod trace;
mod tun;
mod upstreams;
mod users;
mod wireguard;

use hermes_config::Problem;
use hermes_config::model::Document;

pub use custody::is_in_custody;
pub use listeners::is_open;
pub(crate) use matches::each_match;
use report::{Check, Report};
pub(crate) use users::each_user;

/// Everything that is wrong with a document, by subject.
pub fn lint(document: &Document) -> Vec<Problem> {
    let lists: [&[Check]; 37] = [
        node::CHECKS,
        listeners::CHECKS,
        acme::CHECKS,
        attach::CHECKS,
        ports::CHECKS,
        peers::CHECKS,
        routes::CHECKS,
        matches::CHECKS,
        names::CHECKS,
        users::CHECKS,
        packet_policy::CHECKS,
        policy::CHECKS,
        changes::CHECKS,
        upstreams::CHECKS,
        fitness::CHECKS,
        links::CHECKS,
        chains::CHECKS,
        http3::CHECKS,
        retries::CHECKS,
        custody::CHECKS,
        authorize::CHECKS,
        decision_log::CHECKS,
        flow_log::CHECKS,
        bind::CHECKS,
        signed::CHECKS,
        direct::CHECKS,
        loss::CHECKS,
        host_capture::CHECKS,
        broadcast::CHECKS,
        edges::CHECKS,
        templates::CHECKS,
        trace::CHECKS,
        split_tunnels::CHECKS,
        tun::CHECKS,
        capture::CHECKS,
        split_dns::CHECKS,
        wireguard::CHECKS,
    ];

    let mut report = Report::default();
    for check in lists.into_iter().flatten() {
        check(document, &mut report);
    }

    report.problems()
}
