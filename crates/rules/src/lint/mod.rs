//! Everything about a document that its schema cannot say; all findings at once.
//!
//! Each check is one small function; the lists are in the modules, by what they look at. A finding makes the document
//! unusable: what is merely unusual is for `warn`.

mod attach;
mod authorize;
mod bind;
mod broadcast;
mod chains;
mod changes;
mod edges;
mod fitness;
mod holds;
mod http3;
mod links;
mod listeners;
mod matches;
mod node;
mod peers;
mod ports;
mod report;
mod retries;
mod routes;
mod templates;
mod trace;
mod upstreams;

use hermes_config::model::Document;

pub use holds::holds;
pub use listeners::is_open;
pub use report::Finding;
use report::{Check, Report};

/// Everything that is wrong with a document, by subject.
pub fn lint(document: &Document) -> Vec<Finding> {
    let lists: [&[Check]; 20] = [
        node::CHECKS,
        listeners::CHECKS,
        attach::CHECKS,
        ports::CHECKS,
        peers::CHECKS,
        routes::CHECKS,
        matches::CHECKS,
        changes::CHECKS,
        upstreams::CHECKS,
        fitness::CHECKS,
        links::CHECKS,
        chains::CHECKS,
        http3::CHECKS,
        retries::CHECKS,
        authorize::CHECKS,
        bind::CHECKS,
        broadcast::CHECKS,
        edges::CHECKS,
        templates::CHECKS,
        trace::CHECKS,
    ];

    let mut report = Report::default();
    for check in lists.into_iter().flatten() {
        check(document, &mut report);
    }

    report.findings()
}
