//! The table of open tunnels, which a new snapshot decides on again.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hermes_rules::reevaluate::Verdict;
use parking_lot::Mutex;
use serde::Serialize;

use crate::next::Next;
use crate::snapshot::Snapshot;

/// A tunnel that is open.
pub(crate) trait OpenTunnel: Send + Sync {
    /// Re-evaluates the tunnel, and gives its carrier an order if there is something to do. `None`: filters are asked first.
    fn reevaluate(&self, snapshot: &Arc<Snapshot>) -> Option<Verdict<Arc<Next>>>;
}

/// The open tunnels of this process. Bounded by the listeners' limits of connections and streams.
#[derive(Default)]
pub struct Tunnels {
    open: Mutex<HashSet<TunnelEntry>>,
}

/// A tunnel in the table, known by its address in memory.
struct TunnelEntry(Arc<dyn OpenTunnel>);

impl TunnelEntry {
    fn address(&self) -> *const () {
        Arc::as_ptr(&self.0).cast()
    }
}

impl PartialEq for TunnelEntry {
    fn eq(&self, other: &Self) -> bool {
        self.address() == other.address()
    }
}

impl Eq for TunnelEntry {}

impl Hash for TunnelEntry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.address().hash(state);
    }
}

/// Counts of re-evaluated tunnels, by verdict.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Reevaluated {
    /// Go on as they are.
    pub kept: usize,
    /// Would go elsewhere now, but are allowed and cannot be moved: they go on to their own end.
    pub outlive: usize,
    /// Are opened anew elsewhere, and lose nothing.
    pub moved: usize,
    /// End, with `policy_changed`.
    pub ended: usize,
    /// Filters are asked about them; until they answer, the tunnels go on.
    pub asked: usize,
}

impl Tunnels {
    pub(crate) fn enter(&self, tunnel: Arc<dyn OpenTunnel>) {
        self.open.lock().insert(TunnelEntry(tunnel));
    }

    pub(crate) fn leave(&self, tunnel: Arc<dyn OpenTunnel>) {
        self.open.lock().remove(&TunnelEntry(tunnel));
    }

    /// Re-evaluates every open tunnel.
    pub fn reevaluate(&self, snapshot: &Arc<Snapshot>) -> Reevaluated {
        let mut counts = Reevaluated::default();
        // Taken out of the lock: tunnels begin and end meanwhile.
        let open = self.open.lock();
        let all: Vec<Arc<dyn OpenTunnel>> = open.iter().map(|entry| entry.0.clone()).collect();
        drop(open);

        for tunnel in all {
            match tunnel.reevaluate(snapshot) {
                Some(Verdict::Kept(_)) => counts.kept += 1,
                Some(Verdict::Outlives(_)) => counts.outlive += 1,
                Some(Verdict::Moved(_)) => counts.moved += 1,
                Some(Verdict::Ended(_)) => counts.ended += 1,
                None => counts.asked += 1,
            }
        }

        counts
    }
}
