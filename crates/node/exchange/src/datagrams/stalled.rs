//! A tunnel of datagrams that is to move, and cannot because a capsule that has begun does not end.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use hermes_admit::reevaluate::{Opened, TunnelGuard};
use hermes_http::Reset;
use hermes_observe::Exchange;
use hermes_packet::Broken;

use crate::reach::datagram_path::Path;

/// A path that could not be left.
#[derive(Debug, Default)]
pub(crate) struct Stalled {
    /// The tunnel is re-evaluated when the capsule has ended.
    pub(crate) waits: bool,
    /// The log has said so. Once is enough: the writer of the capsules chooses how often it happens.
    told: bool,
}

impl Stalled {
    /// A capsule does not end. The tunnel goes on where it is until then, if the rules allow it for tunnels that cannot move.
    ///
    /// # Errors
    /// They do not.
    pub(crate) fn stay(
        &mut self,
        exchange: &Exchange,
        guard: &TunnelGuard,
        path: Path,
        opened: Opened,
    ) -> Result<(), Broken> {
        path.ends.sink.reset(Reset::Cancel);
        if let Some(reason) = guard.forbids(&opened) {
            return Err(
                Broken::policy(&reason).note("and a capsule that had begun kept it from moving")
            );
        }

        self.waits = true;
        if !std::mem::replace(&mut self.told, true) {
            tracing::warn!(
                exchange = %exchange.id(),
                "not moved; a capsule is incomplete, and it stays on its path until that ends"
            );
        }

        Ok(())
    }
}

/// Carries until the directions have stopped or ended; `None` when they wait and `between` says that no capsule has begun.
pub(crate) async fn carried<T>(
    mut directions: Pin<&mut impl Future<Output = T>>,
    between: impl Fn() -> bool,
) -> Option<T> {
    poll_fn(|cx| match directions.as_mut().poll(cx) {
        Poll::Ready(left) => Poll::Ready(Some(left)),
        Poll::Pending if between() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
