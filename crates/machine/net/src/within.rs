//! Waiting no longer than until a given time.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio::time::{Instant, timeout_at};

/// The outcome of `work`, or `None` at the time that `until` says.
///
/// Work that need not wait costs no timer, and no time is asked for. The work is pinned by the caller: taken by value, it would
/// have a second place in this future.
pub async fn within<F: Future>(
    until: impl FnOnce() -> Instant,
    mut work: Pin<&mut F>,
) -> Option<F::Output> {
    match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
        Poll::Ready(done) => Some(done),
        Poll::Pending => Box::pin(timeout_at(until(), work)).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn work_is_done_or_given_up() {
        let in_a_second = || Instant::now() + SECOND;
        let never = || -> Instant { panic!("asked for the time of work that is done") };
        assert_eq!(within(never, pin!(ready(7))).await, Some(7));
        assert_eq!(within(in_a_second, pin!(sleep(SECOND / 2))).await, Some(()));
        assert_eq!(within(in_a_second, pin!(pending::<()>())).await, None);
    }
}
