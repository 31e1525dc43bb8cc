//! Open tunnels and what becomes of them when the snapshot changes, or when what they rest on ends.
//!
//! A tunnel [stands](stand) in one table while it is carried. A change of configuration decides on all of them again, from
//! *identify* to *route* and with [`hermes_rules::redecide`], and leaves an [`Order`] with those that cannot go on as they are;
//! the carrier of the tunnel follows it. Where filters are to be asked, the carrier asks them, on its own worker, while the
//! tunnel goes on. Their answer may say how long it counts; then they are asked again.

mod standing;

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hermes_http::RequestHead;
use hermes_identity::LEEWAY;
use hermes_rules::redecide::{Reason, Verdict};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::next::CompiledRoute;
use crate::routed::Routed;
use crate::snapshot::Snapshot;
use standing::Asked;
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
    /// Filters are asked about them; until they answer, the tunnels go on.
    pub asked: usize,
}

/// What the carrier of a tunnel is to do.
#[derive(Clone)]
pub(crate) enum Order {
    /// Open it anew, then leave the old way.
    Move(Arc<Move>),
    /// End it.
    End(Reason),
}

/// What a decision says to a [`Place`].
#[derive(Clone)]
enum Word {
    /// Ask the filters of this snapshot about the tunnel.
    Ask(Arc<Snapshot>),
    /// Give its carrier this order.
    Carry(Order),
}

/// How a tunnel is to be opened anew.
pub(crate) struct Move {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The route that it takes there.
    pub(crate) route: Arc<CompiledRoute>,
    /// The request as it is by that snapshot's rules.
    pub(crate) head: RequestHead,
}

impl Tunnels {
    /// Decides on every open tunnel again.
    pub(crate) fn redecide(&self, snapshot: &Arc<Snapshot>) -> Redecided {
        let mut counts = Redecided::default();
        let all: Vec<Arc<Standing>> = self.standing.lock().values().cloned().collect();
        for standing in all {
            match standing.redecide(snapshot) {
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

/// A tunnel's place in the table; it leaves when this is dropped.
pub(crate) struct Place {
    standing: Arc<Standing>,
    number: u64,
    words: watch::Receiver<Option<Word>>,
    /// Filters that are being asked.
    asking: Option<Pin<Box<dyn Future<Output = Asked> + Send>>>,
    /// When filters are to be asked again.
    again: Option<Instant>,
}

/// Enters a tunnel that leads along `opened`. `movable` says whether its carrier can follow [`Order::Move`].
pub(crate) fn stand(routed: &Routed, opened: Opened, movable: bool) -> Place {
    let standing = Arc::new(Standing::new(routed, opened, movable));
    let words = standing.words();
    let tunnels = &routed.worker.shared.tunnels;
    let number = tunnels.next.fetch_add(1, Ordering::Relaxed);
    tunnels.standing.lock().insert(number, standing.clone());
    // The snapshot may have changed since this exchange took it, and the change did not find it in the table.
    let now = routed.worker.snapshot();
    if now.revision != routed.snapshot.revision {
        standing.redecide(&now);
    }
    Place {
        standing,
        number,
        words,
        asking: None,
        again: routed.auth.authorized,
    }
}

impl Place {
    /// The tunnel.
    pub(crate) fn standing(&self) -> &Arc<Standing> {
        &self.standing
    }

    /// The tunnel leads elsewhere now. What has changed meanwhile is decided on at once.
    pub(crate) fn moved(&self, opened: Opened) {
        let now = self.standing.snapshot();
        if self.standing.moved(opened) != now.revision {
            self.standing.redecide(&now);
        }
    }

    /// Decides on the tunnel by the rules of the moment: what it was told before could not be done.
    pub(crate) fn redecide(&self) {
        self.standing.redecide(&self.standing.snapshot());
    }

    /// Why the tunnel may not stay where it is, if the rules send it along `opened` and it cannot be moved there.
    pub(crate) fn forbids(&self, opened: &Opened) -> Option<Reason> {
        self.standing.forbids(opened)
    }

    /// Waits for the next order: to move or to end. The expiry of the credential is one. May be dropped and called again.
    pub(crate) async fn order(&mut self) -> Order {
        let mut expired = pin!(expiry(self.standing.expires()));
        loop {
            let Self {
                words,
                asking,
                again,
                ..
            } = self;
            let word = tokio::select! {
                biased;
                () = &mut expired => return Order::End(Reason::Expired),
                word = next(words) => {
                    // What was asked by older rules is void.
                    *asking = None;
                    word
                }
                asked = answer(asking) => {
                    *asking = None;
                    *again = asked.again;
                    asked.order.map(Word::Carry)
                }
                () = until(*again), if asking.is_none() => Some(Word::Ask(self.standing.snapshot())),
            };
            match word {
                Some(Word::Ask(snapshot)) => {
                    self.asking = Some(Box::pin(self.standing.clone().ask(snapshot)))
                }
                Some(Word::Carry(order)) => return order,
                None => {}
            }
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

async fn next(words: &mut watch::Receiver<Option<Word>>) -> Option<Word> {
    if words.changed().await.is_err() {
        // The sender lives as long as the tunnel.
        std::future::pending::<()>().await;
    }
    words.borrow_and_update().clone()
}

async fn answer(asking: &mut Option<Pin<Box<dyn Future<Output = Asked> + Send>>>) -> Asked {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

async fn until(again: Option<Instant>) {
    match again {
        // A place of its own for the timer, which most tunnels do not have.
        Some(again) => Box::pin(tokio::time::sleep_until(again)).await,
        None => std::future::pending().await,
    }
}

/// Resolves when a credential that ends at Unix time `expires` is not accepted any more; never without one.
async fn expiry(expires: Option<u64>) {
    let Some(expires) = expires else {
        return std::future::pending().await;
    };
    // The token's author chose the number: what a clock cannot show is not added to one.
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let left = Duration::from_secs(expires.saturating_add(LEEWAY)).saturating_sub(since_epoch);
    Box::pin(tokio::time::sleep(left)).await;
}

impl Drop for Place {
    fn drop(&mut self) {
        self.standing.tunnels().standing.lock().remove(&self.number);
    }
}
