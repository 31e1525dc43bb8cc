//! How fast a client must be while it is waited for: slow content and slow readers.
//!
//! A client has some time, and loses it only while this side waits for this client alone: a target
//! that does not take its content, or has no response yet, costs it nothing. Each byte that moves
//! brings time back.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hermes_net::clock;
use tokio::time::Instant;

use crate::error::{Cause, StreamError};
use crate::reusable_timer::ReusableTimer;

/// How fast a client must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinRate {
    /// Bytes a second, on average; 0 is no bound.
    pub rate: u64,
    /// How far a client may fall behind the average: the time that it has from the beginning.
    pub window: Duration,
}

/// Bytes of credit for a reader: those that buffers on the way may hold, which it reads without our
/// seeing it.
#[doc(alias = "bound")]
const AHEAD: u64 = 1024 * 1024;

/// Set when the response has begun: from then on both sides may rightly wait for each other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answered(Option<Arc<AtomicBool>>);

impl Answered {
    pub(crate) fn set(&self) {
        if let Some(answered) = &self.0 {
            answered.store(true, Ordering::Relaxed);
        }
    }

    fn is_set(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|answered| answered.load(Ordering::Relaxed))
    }
}

/// One direction that is held to a rate, or is not.
#[derive(Debug, Default)]
pub(crate) struct Pace(Option<Box<Measure>>);

#[derive(Debug)]
struct Measure {
    rate: u64,
    /// The time that can be left.
    most: Duration,
    left: Duration,
    waiting: Option<Instant>,
    /// No measurement before the first byte: the client may be waiting for `100 (Continue)`.
    held: bool,
    answered: Answered,
    timer: ReusableTimer,
}

impl Pace {
    /// For content, until the response begins; with `held`, from its first byte on.
    pub(crate) fn of_content(min: Option<MinRate>, held: bool) -> (Self, Answered) {
        let Some(min) = min else {
            return Default::default();
        };
        let answered = Answered(Some(Arc::default()));
        (Self::new(min, min.window, held, answered.clone()), answered)
    }

    /// For a reader of content.
    pub(crate) fn of_reader(min: Option<MinRate>) -> Self {
        let Some(min) = min else {
            return Self::default();
        };
        let ahead = time_for(AHEAD, min.rate);
        Self::new(min, min.window.max(ahead), false, Answered::default())
    }

    fn new(
        MinRate { rate, window }: MinRate,
        most: Duration,
        held: bool,
        answered: Answered,
    ) -> Self {
        if rate == 0 {
            return Self::default();
        }
        Self(Some(Box::new(Measure {
            rate,
            most,
            left: window,
            waiting: None,
            held,
            answered,
            timer: ReusableTimer::default(),
        })))
    }

    /// Whether there is a rate.
    pub(crate) fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// Bytes moved: the wait is over.
    pub(crate) fn moved(&mut self, bytes: usize) {
        if let Some(measure) = &mut self.0 {
            measure.moved(bytes, clock::now());
        }
    }

    /// Called when nothing moves: ready with an error when the client has used up its time.
    pub(crate) fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        let Some(measure) = &mut self.0 else {
            return Poll::Pending;
        };
        ready!(measure.poll(cx));
        Poll::Ready(StreamError::new(Cause::Slow))
    }

    /// Waits for `work`, or until the client has used up its time.
    pub(crate) async fn bound<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, StreamError> {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => self.poll_slow(cx).map(Err),
        })
        .await
    }
}

impl Measure {
    fn moved(&mut self, bytes: usize, now: Instant) {
        if let Some(since) = self.waiting.take() {
            self.left = self.left.saturating_sub(now.duration_since(since));
        }
        self.held &= bytes == 0;
        self.left = (self.left + time_for(bytes as u64, self.rate)).min(self.most);
    }

    /// Ready at the time at which the client is too slow if nothing moves.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.held || self.answered.is_set() {
            return Poll::Pending;
        }
        let since = *self.waiting.get_or_insert_with(Instant::now);
        self.timer.poll_over(cx, since + self.left)
    }
}

fn time_for(bytes: u64, rate: u64) -> Duration {
    // A day stands for ever: no one is owed more.
    const DAY: u64 = 24 * 60 * 60 * 1_000_000;
    let micros = bytes
        .saturating_mul(1_000_000)
        .checked_div(rate)
        .unwrap_or(DAY);
    Duration::from_micros(micros.min(DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: MinRate = MinRate {
        rate: 100,
        window: Duration::from_secs(10),
    };

    async fn slow_after(pace: &mut Pace) -> Duration {
        let since = Instant::now();
        std::future::poll_fn(|cx| pace.poll_slow(cx)).await;
        since.elapsed()
    }

    /// Moves bytes after a wait.
    async fn wait(pace: &mut Pace, time: Duration, bytes: usize) -> bool {
        let in_time = pace.bound(tokio::time::sleep(time)).await.is_ok();
        pace.moved(bytes);
        in_time
    }

    #[tokio::test(start_paused = true)]
    async fn who_says_nothing_has_the_window() {
        let (mut pace, _) = Pace::of_content(Some(MIN), false);
        assert_eq!(slow_after(&mut pace).await.as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn who_keeps_the_rate_goes_on_and_who_does_not_is_found_out() {
        let (mut pace, _) = Pace::of_content(Some(MIN), false);
        for _ in 0..1_000 {
            assert!(wait(&mut pace, Duration::from_secs(5), 500).await);
        }
        // Half the rate: each second costs half a second, so ten seconds last for twenty.
        let since = Instant::now();
        while wait(&mut pace, Duration::from_secs(1), 50).await {}
        assert_eq!(since.elapsed().as_secs(), 19);
    }

    #[tokio::test(start_paused = true)]
    async fn only_time_in_which_the_client_is_waited_for_counts() {
        let (mut pace, _) = Pace::of_content(Some(MIN), false);
        for _ in 0..10 {
            assert!(wait(&mut pace, Duration::from_millis(10), 1).await);
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        assert_eq!(slow_after(&mut pace).await.as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_ahead_counts_for_a_reader_up_to_a_bound() {
        let mut pace = Pace::of_reader(Some(MinRate {
            rate: 1024 * 1024 / 60,
            ..MIN
        }));
        pace.moved(1024 * 1024 / 3);
        assert_eq!(slow_after(&mut pace).await.as_secs(), 30);
        pace.moved(1 << 40);
        assert_eq!(slow_after(&mut pace).await.as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn content_is_not_measured_before_its_first_byte_if_held_nor_after_the_answer() {
        let hour = Duration::from_secs(3600);
        let (mut pace, answered) = Pace::of_content(Some(MIN), true);
        assert!(wait(&mut pace, hour, 1).await);
        assert_eq!(slow_after(&mut pace).await.as_secs(), 10);
        let (mut pace, _) = Pace::of_content(Some(MIN), false);
        assert!(wait(&mut pace, Duration::from_secs(9), 0).await);
        assert_eq!(slow_after(&mut pace).await.as_secs(), 1);
        answered.set();
        let (mut pace, answered) = Pace::of_content(Some(MIN), false);
        let answer = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            answered.set();
            tokio::time::sleep(hour).await;
        };
        assert!(pace.bound(answer).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_rate_no_one_is_slow() {
        let hour = Duration::from_secs(3600);
        assert!(wait(&mut Pace::default(), hour, 0).await);
        assert!(
            wait(
                &mut Pace::of_reader(Some(MinRate { rate: 0, ..MIN })),
                hour,
                0
            )
            .await
        );
        assert!(
            wait(
                &mut Pace::of_content(Some(MinRate { rate: 0, ..MIN }), false).0,
                hour,
                0
            )
            .await
        );
    }
}
