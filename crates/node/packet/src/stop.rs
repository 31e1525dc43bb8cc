//! How the directions of a tunnel are stopped, both at once.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

/// Directions of a tunnel.
const BOTH: usize = 2;

/// Tells both directions to stop. The task that sets it or takes it back polls them next, so that
/// it need not wake them.
#[derive(Debug, Default)]
pub struct Stop {
    is_set: AtomicBool,
    /// How many directions have stopped or ended.
    resting: AtomicUsize,
    /// Whether the read part of the client's stream ends within a capsule.
    within: AtomicBool,
}

impl Stop {
    /// Both are to stop from now on.
    pub fn set(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }

    /// Both directions go on, those that have stopped too.
    pub fn take_back(&self) {
        self.is_set.store(false, Ordering::Relaxed);
    }

    /// A direction has ended, for good.
    pub fn ended(&self) {
        self.resting.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits, with a direction that has stopped, for the other one: false if both are to go on.
    pub async fn rest(&self) -> bool {
        self.resting.fetch_add(1, Ordering::Relaxed);
        poll_fn(|_| {
            if !self.is_set() {
                self.resting.fetch_sub(1, Ordering::Relaxed);
                return Poll::Ready(false);
            }
            if self.resting.load(Ordering::Relaxed) >= BOTH {
                Poll::Ready(true)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Whether they are to stop.
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Resolves when it is set, provided that the waiting task is polled then.
    pub(crate) async fn seen(&self) {
        poll_fn(|_| {
            if self.is_set() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    pub(crate) fn client_reached(&self, is_between: bool) {
        self.within.store(!is_between, Ordering::Relaxed);
    }

    /// Whether the next reader from the client begins with a capsule.
    pub fn client_is_between(&self) -> bool {
        !self.within.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    use super::*;

    fn poll(rest: Pin<&mut impl Future<Output = bool>>) -> Poll<bool> {
        rest.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn directions_rest_until_both_do() {
        let stop = Stop::default();
        stop.set();
        let (mut one, mut two) = (pin!(stop.rest()), pin!(stop.rest()));
        assert_eq!(poll(one.as_mut()), Poll::Pending);
        assert_eq!(poll(two.as_mut()), Poll::Ready(true));
        assert_eq!(poll(one.as_mut()), Poll::Ready(true));
    }

    #[test]
    fn a_direction_that_rests_alone_goes_on_when_the_stop_is_taken_back() {
        let stop = Stop::default();
        for _ in 0..2 {
            stop.set();
            let mut one = pin!(stop.rest());
            assert_eq!(poll(one.as_mut()), Poll::Pending);
            stop.take_back();
            assert_eq!(poll(one.as_mut()), Poll::Ready(false));
        }
        stop.ended();
        stop.set();
        assert_eq!(poll(pin!(stop.rest())), Poll::Ready(true));
    }
}
