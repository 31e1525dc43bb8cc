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
mod retries;
mod routes;
mod templates;
mod trace;
mod upstreams;

use hermes_config::model::{Document, Listener};
use hermes_config::{child, nearest};

pub use holds::holds;
pub use listeners::is_open;
pub(crate) use ports::overlap;

/// One thing that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where, as `listeners.web.http` or `routes[2].match.target`; the place itself need not have been written.
    pub path: String,
    /// What is wrong.
    pub reason: String,
    /// What mends it.
    pub remedy: Option<String>,
}

/// A check: looks at the document and reports what it finds.
type Check = fn(&Document, &mut Report);

/// Where checks put their findings.
#[derive(Default)]
struct Report(Vec<Finding>);

impl Report {
    fn add(
        &mut self,
        path: impl Into<String>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.0.push(Finding {
            path: path.into(),
            reason: reason.into(),
            remedy: Some(remedy.into()),
        });
    }
}

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
    report.0
}

/// Runs a check on each listener, with the listener's path.
fn each_listener(document: &Document, mut check: impl FnMut(&str, &Listener)) {
    for (name, listener) in &document.listeners {
        check(&child("listeners", name), listener);
    }
}

/// What to write instead of a name that nothing has: the nearest one, or which there are.
fn instead<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone, section: &str) -> String {
    if let Some(near) = nearest(name, known.clone()) {
        return format!("did you mean `{near}`?");
    }
    let names: Vec<&str> = known.collect();
    if names.is_empty() {
        format!("define it under `{section}`")
    } else {
        format!("{section} are: {}", names.join(", "))
    }
}

/// Whether text is a token (RFC 9110, 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
