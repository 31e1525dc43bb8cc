//! The effect of a change of configuration on the listeners, as reported to the operator.

use super::bind::Serves;

/// The effect of a change of configuration on the listeners.
#[derive(Debug, Default, Clone, serde::Serialize)]
pub struct ListenerChanges {
    /// Listeners that were opened.
    pub opened: Vec<String>,
    /// Listeners that accept nothing more; exchanges that they accepted go on.
    pub closed: Vec<String>,
    /// Listeners whose sockets were not touched.
    pub kept: Vec<String>,
    /// Listeners that have another name now and the same sockets, as `old -> new`. They are among `kept` too.
    pub renamed: Vec<String>,
}

impl ListenerChanges {
    /// Listener `name` keeps its sockets, which `before` had.
    pub(super) fn keep(&mut self, name: &str, before: &str, serves: Serves) {
        add(&mut self.kept, name, serves);
        if before != name {
            add(&mut self.renamed, &format!("{before} -> {name}"), serves);
        }
    }

    /// Sockets of this listener are opened.
    pub(super) fn open(&mut self, name: &str, serves: Serves) {
        add(&mut self.opened, name, serves);
    }

    /// Sockets of this listener are closed.
    pub(super) fn close(&mut self, name: &str, serves: Serves) {
        add(&mut self.closed, name, serves);
    }
}

/// Notes a change of one part. A change of HTTP/3 together with the rest of its listener is not reported twice.
fn add(changes: &mut Vec<String>, what: &str, serves: Serves) {
    if serves != Serves::Quic {
        changes.push(what.to_owned());
    } else if !changes.iter().any(|known| known == what) {
        changes.push(format!("{what} (HTTP/3)"));
    }
}
