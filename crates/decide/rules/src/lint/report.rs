//! The form of a check, its report, and its walk through a document.

use hermes_config::model::{Document, Listener, TlsChoice, Upstream};
use hermes_config::{Problem, child, nearest};

/// A check: looks at the document and reports its problems.
pub(super) type Check = fn(&Document, &mut Report);

/// Where checks put the problems.
#[derive(Default)]
pub(super) struct Report(Vec<Problem>);

impl Report {
    /// All problems.
    pub(super) fn problems(self) -> Vec<Problem> {
        self.0
    }

    /// Adds the problem of this path, such as `listeners.web.http` or `routes[2].match.target`; it need not have been written.
    pub(super) fn add(
        &mut self,
        path: impl Into<String>,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.0.push(Problem::new(path, reason).remedy(remedy));
    }
}

/// Runs a check on each listener, with the listener's path.
pub(super) fn each_listener(document: &Document, mut check: impl FnMut(&str, &Listener)) {
    for (name, listener) in &document.listeners {
        check(&child("listeners", name), listener);
    }
}

/// Runs a check on each upstream, with the upstream's path.
pub(super) fn each_upstream(document: &Document, mut check: impl FnMut(&str, &Upstream)) {
    for (name, upstream) in &document.upstreams {
        check(&child("upstreams", name), upstream);
    }
}

pub(super) fn has_tls(upstream: &Upstream) -> bool {
    matches!(
        upstream.tls,
        Some(TlsChoice::Switch(true) | TlsChoice::Details(_))
    )
}

/// The remedy for an unknown name: the nearest one, or the list of names.
pub(super) fn instead<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str> + Clone,
    section: &str,
) -> String {
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
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
