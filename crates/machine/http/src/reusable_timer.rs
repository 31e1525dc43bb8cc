//! A bound of time that is put off again and again, over one timer.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// Bounds waits that follow each other. To set and clear a timer for each would cost more than most of them: this one is set
/// anew only when it rings too early, or would ring too late.
#[derive(Debug, Default)]
pub(crate) struct ReusableTimer(Option<Pin<Box<Sleep>>>);

impl ReusableTimer {
    /// Ready at `end`, which may be another one at each call.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>, end: Instant) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() > end {
            timer.as_mut().reset(end);
        }

        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() >= end {
                return Poll::Ready(());
            }
            timer.as_mut().reset(end);
        }
    }

    /// Waits for `work`; `None` at `end`.
    pub(crate) async fn bound<T>(
        &mut self,
        end: Instant,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_over(cx, end).map(|()| None),
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_wait_has_its_own_end_earlier_or_later_than_the_one_before() {
        let mut timer = ReusableTimer::default();
        for seconds in [10, 60, 5, 5, 600, 1] {
            let since = Instant::now();
            let time = Duration::from_secs(seconds);
            assert_eq!(
                timer
                    .bound(since + time / 2, tokio::time::sleep(time / 4))
                    .await,
                Some(())
            );
            assert_eq!(timer.bound(since + time, pending::<()>()).await, None);
            assert_eq!(since.elapsed(), time + Duration::from_millis(0));
        }
    }
}
