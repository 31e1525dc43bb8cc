//! The guard of an open tunnel: its entry in the table, and the orders to its carrier.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hermes_identity::LEEWAY;
use hermes_rules::reevaluate::Reason;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::order::{Order, Word};
use super::tunnel_state::{Asked, Opened, TunnelState};
use crate::routed::Routed;
use crate::tunnels::OpenTunnel;

/// A tunnel's entry in the table, and the orders for its carrier; it leaves the table when this is dropped.
pub struct TunnelGuard {
    state: Arc<TunnelState>,
    /// Filters that are being asked.
    asking: Option<Pin<Box<dyn Future<Output = Asked> + Send>>>,
    /// When filters are to be asked again.
    again: Option<Instant>,
}

/// Enters a tunnel that leads along `opened`. `movable` says whether its carrier can follow [`Order::Move`].
pub fn enter(routed: &Routed, opened: Opened, movable: bool) -> TunnelGuard {
    let state = Arc::new(TunnelState::new(routed, opened, movable));
    state.tunnels().enter(state.clone());

    // The snapshot may have changed since this exchange took it, and the change did not find it in the table.
    let now = routed.worker.snapshot();
    if now.revision != routed.snapshot.revision {
        state.reevaluate(&now);
    }

    TunnelGuard {
        state,
        asking: None,
        again: routed.auth.authorized,
    }
}

impl TunnelGuard {
    /// The state of the tunnel.
    pub fn state(&self) -> &Arc<TunnelState> {
        &self.state
    }

    /// The tunnel leads elsewhere now. If the rules have changed meanwhile, it is re-evaluated at once.
    pub fn moved(&self, opened: Opened) {
        let now = self.state.snapshot();
        if self.state.moved(opened) != now.revision {
            self.state.reevaluate(&now);
        }
    }

    /// Re-evaluates the tunnel by the rules in force, because its last order could not be followed.
    pub fn reevaluate(&self) {
        self.state.reevaluate(&self.state.snapshot());
    }

    /// Why the tunnel may not stay where it is, if the rules send it along `opened` and it cannot be moved there.
    pub fn forbids(&self, opened: &Opened) -> Option<Reason> {
        self.state.forbids(opened)
    }

    /// Waits for the next order: to move or to end. The expiry of the credential is one. May be dropped and called again.
    pub async fn order(&mut self) -> Order {
        let mut expiry = expiry(self.state.expires());
        loop {
            let word = match self.heard(&mut expiry).await {
                GuardEvent::Expired => return Order::End(Reason::Expired),
                GuardEvent::Word(word) => {
                    // A question by older rules is void.
                    self.asking = None;
                    word
                }
                GuardEvent::Answer(asked) => {
                    self.asking = None;
                    self.again = asked.again;
                    asked.order.map(Word::Carry)
                }
                GuardEvent::Again => Some(Word::Ask(self.state.snapshot())),
            };

            match word {
                Some(Word::Ask(snapshot)) => {
                    self.asking = Some(Box::pin(self.state.clone().ask(snapshot)))
                }
                Some(Word::Carry(order)) => return order,
                None => {}
            }
        }
    }

    /// Waits for whatever comes first. Polled by hand: a `select!` holds the state of each branch, and idle tunnels are here.
    async fn heard(&mut self, expiry: &mut Option<Timer>) -> GuardEvent {
        let Self {
            state,
            asking,
            again,
            ..
        } = self;
        let mut again = again
            .filter(|_| asking.is_none())
            .map(|again| Box::pin(sleep_until(again)));
        let mut next = pin!(state.words().next());

        poll_fn(move |cx| {
            // First: an expired credential does not wait behind other words.
            if due(expiry, cx) {
                return Poll::Ready(GuardEvent::Expired);
            }
            if let Poll::Ready(word) = next.as_mut().poll(cx) {
                return Poll::Ready(GuardEvent::Word(word));
            }
            if let Some(asking) = asking {
                return asking.as_mut().poll(cx).map(GuardEvent::Answer);
            }
            if due(&mut again, cx) {
                return Poll::Ready(GuardEvent::Again);
            }
            Poll::Pending
        })
        .await
    }

    /// Waits until the tunnel may not go on; for tunnels that cannot be moved.
    pub async fn ended(&mut self) -> Reason {
        loop {
            if let Order::End(reason) = self.order().await {
                return reason;
            }
        }
    }
}

/// Events while a tunnel is carried.
enum GuardEvent {
    /// Its credential is not accepted any more.
    Expired,
    /// A decision has an order, or makes the order before void.
    Word(Option<Word>),
    /// The filters that were asked have answered.
    Answer(Asked),
    /// Filters are to be asked again.
    Again,
}

/// A time that comes. On the heap, because most tunnels have none.
type Timer = Pin<Box<Sleep>>;

/// Whether the time has come; the task is polled when it does.
fn due(timer: &mut Option<Timer>, cx: &mut Context<'_>) -> bool {
    timer
        .as_mut()
        .is_some_and(|timer| timer.as_mut().poll(cx).is_ready())
}

/// When a credential that ends at Unix time `expires` is not accepted any more; never without one.
fn expiry(expires: Option<u64>) -> Option<Timer> {
    let expires = expires?;
    // The token's author chose the number: a time that no clock can show must not overflow here.
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let left = Duration::from_secs(expires.saturating_add(LEEWAY)).saturating_sub(since_epoch);
    Some(Box::pin(sleep(left)))
}

impl Drop for TunnelGuard {
    fn drop(&mut self) {
        self.state.tunnels().leave(self.state.clone());
    }
}
