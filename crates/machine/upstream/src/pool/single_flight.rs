//! One connection attempt at a time; all waiting exchanges share its result.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::failure::ConnectFailure;

/// Lets one caller connect while the others wait.
#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    turn: tokio::sync::Mutex<()>,
    failures: AtomicU64,
    last: Mutex<Option<ConnectFailure>>,
}

/// The turn to connect; given up when dropped.
#[derive(Debug)]
pub(super) struct ConnectTurn<'a> {
    flight: &'a SingleFlight,
    _turn: tokio::sync::MutexGuard<'a, ()>,
}

impl SingleFlight {
    /// Waits for the turn. An attempt that failed meanwhile failed for those who waited as well.
    pub(super) async fn connect_turn(&self) -> Result<ConnectTurn<'_>, ConnectFailure> {
        let before = self.failures.load(Ordering::Relaxed);
        let turn = self.turn.lock().await;
        match &*self.last.lock() {
            Some(failure) if self.failures.load(Ordering::Relaxed) != before => {
                Err(failure.clone())
            }
            _ => Ok(ConnectTurn {
                flight: self,
                _turn: turn,
            }),
        }
    }
}

impl ConnectTurn<'_> {
    /// Tells those who wait that the attempt failed.
    pub(super) fn failed(self, failure: ConnectFailure) {
        *self.flight.last.lock() = Some(failure);
        self.flight.failures.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_who_waited_share_a_failure_and_later_ones_try_again() {
        let flight = SingleFlight::default();
        let first = flight.connect_turn().await.unwrap();
        let waiting = flight.connect_turn();
        tokio::pin!(waiting);
        assert!(futures_pending(waiting.as_mut()).await);
        first.failed(ConnectFailure::timeout("x:1"));
        assert_eq!(waiting.await.unwrap_err(), ConnectFailure::timeout("x:1"));
        assert!(flight.connect_turn().await.is_ok());
    }

    async fn futures_pending<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending()))
            .await
    }
}
