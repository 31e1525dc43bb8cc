//! Open tunnels and what becomes of them when the snapshot changes, or when their credential expires.
//!
//! A tunnel [stands](stand) in one table while it is carried. A change of configuration decides on all of them again, with
//! [`hermes_rules::redecide`], and leaves an [`Order`] with those that cannot go on as they are; whoever carries the tunnel
//! follows it.

mod standing;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hermes_http::RequestHead;
use hermes_rules::redecide::{Reason, Verdict};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use crate::identify::LEEWAY;
use crate::routed::Routed;
use crate::snapshot::Snapshot;
pub(crate) use standing::{Opened, Standing};

/// The open tunnels of this process. Bounded by the listeners' limits of connections and streams.
#[derive(Default)]
pub(crate) struct Tunnels {
    standing: Mutex<HashMap<u64, Arc<Standing>>>,
    next: AtomicU64,
}

/// How many tunnels were decided on again, and what came of it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Redecided {
    /// Go on as they are.
    pub kept: usize,
    /// Would go elsewhere now, but are allowed and cannot be moved: they go on to their own end.
    pub outlive: usize,
    /// Are opened anew elsewhere, and lose nothing.
    pub moved: usize,
    /// End, with `policy_changed`.
    pub ended: usize,
}

/// What the carrier of a tunnel is to do.
#[derive(Clone)]
pub(crate) enum Order {
    /// Open it anew on this route of this snapshot, then leave the old way.
    Move(Arc<Snapshot>, usize),
    /// End it.
    End(Reason),
}

impl Tunnels {
    /// Decides on every open tunnel again.
    pub(crate) fn redecide(&self, snapshot: &Arc<Snapshot>) -> Redecided {
        let mut counts = Redecided::default();
        let all: Vec<Arc<Standing>> = self.standing.lock().values().cloned().collect();
        for standing in all {
            match standing.redecide(snapshot) {
                Verdict::Kept { .. } => counts.kept += 1,
                Verdict::Outlives { .. } => counts.outlive += 1,
                Verdict::Moved { .. } => counts.moved += 1,
                Verdict::Ended(_) => counts.ended += 1,
            }
        }
        counts
    }
}

/// A tunnel's place in the table; it leaves when this is dropped.
pub(crate) struct Place {
    routed: Routed,
    standing: Arc<Standing>,
    number: u64,
    orders: watch::Receiver<Option<Order>>,
}

/// Enters a tunnel that leads along `opened`. `movable` says whether its carrier can follow [`Order::Move`].
pub(crate) fn stand(routed: &Routed, head: RequestHead, opened: Opened, movable: bool) -> Place {
    let standing = Arc::new(Standing::new(routed, head, opened, movable));
    let orders = standing.orders();
    let tunnels = &routed.worker.shared.tunnels;
    let number = tunnels.next.fetch_add(1, Ordering::Relaxed);
    tunnels.standing.lock().insert(number, standing.clone());
    // The snapshot may have changed since this exchange took it, and the change did not find it in the table.
    let now = routed.worker.snapshot();
    if now.revision != routed.snapshot.revision {
        standing.redecide(&now);
    }
    Place { routed: routed.clone(), standing, number, orders }
}

impl Place {
    /// The tunnel.
    pub(crate) fn standing(&self) -> &Arc<Standing> {
        &self.standing
    }

    /// The tunnel leads elsewhere now. What has changed meanwhile is decided on at once.
    pub(crate) fn moved(&self, opened: Opened) {
        self.standing.moved(opened);
        self.standing.redecide(&self.routed.worker.snapshot());
    }

    /// Waits for the next order. The expiry of the credential is one.
    pub(crate) async fn order(&mut self) -> Order {
        let expiry = expiry(self.routed.belief.expires);
        tokio::select! {
            () = expiry => Order::End(Reason::Expired),
            order = next(&mut self.orders) => order,
        }
    }

    /// Waits until the tunnel may not go on; for tunnels that cannot be moved.
    pub(crate) async fn ended(&mut self) -> Reason {
        loop {
            if let Order::End(reason) = self.order().await {
                return reason;
            }
        }
    }
}

async fn next(orders: &mut watch::Receiver<Option<Order>>) -> Order {
    loop {
        if orders.changed().await.is_err() {
            // The sender lives as long as the tunnel.
            std::future::pending::<()>().await;
        }
        if let Some(order) = orders.borrow_and_update().clone() {
            return order;
        }
    }
}

/// Resolves when a credential that ends at Unix time `expires` is not accepted any more; never without one.
async fn expiry(expires: Option<u64>) {
    let Some(expires) = expires else { return std::future::pending().await };
    let until = UNIX_EPOCH + Duration::from_secs(expires.saturating_add(LEEWAY));
    let left = until.duration_since(SystemTime::now()).unwrap_or_default();
    tokio::time::sleep(left).await;
}

impl Drop for Place {
    fn drop(&mut self) {
        self.routed.worker.shared.tunnels.standing.lock().remove(&self.number);
    }
}
