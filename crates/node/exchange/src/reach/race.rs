//! The race of two ways: by the next proxy, and from here.

use std::pin::pin;
use std::time::Duration;

/// How metrics name an attempt from here.
pub(crate) const DIRECT: &str = "direct";

/// The one of two that is first.
pub(crate) enum First<A, B> {
    Overlay(A),
    Direct(B),
}

/// Waits for the first that succeeds; the second begins after a time, if there is one, or when the first has failed in a way that allows it. If both
/// fail, the outcome is that of the first.
pub(crate) async fn first<A, B, E>(
    overlay: impl Future<Output = Result<A, E>>,
    direct: impl Future<Output = Result<B, E>>,
    after: Option<Duration>,
    allows_direct: impl Fn(&Result<A, E>) -> bool,
) -> Result<First<A, B>, E> {
    let mut overlay = pin!(overlay);
    let mut direct = pin!(direct);
    let head_start = async {
        match after {
            Some(after) => tokio::time::sleep(after).await,
            None => std::future::pending().await,
        }
    };

    let outcome = tokio::select! {
        biased;
        outcome = &mut overlay => Some(outcome),
        () = head_start => None,
    };
    let outcome = match outcome {
        Some(outcome) => outcome,
        // Both are on their way. One that has failed leaves the other.
        None => tokio::select! {
            biased;
            outcome = &mut overlay => outcome,
            connected = &mut direct => return match connected {
                Ok(connected) => Ok(First::Direct(connected)),
                Err(_) => overlay.await.map(First::Overlay),
            },
        },
    };
    if !allows_direct(&outcome) {
        return outcome.map(First::Overlay);
    }
    match direct.await {
        Ok(connected) => Ok(First::Direct(connected)),
        Err(_) => outcome.map(First::Overlay),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::{Instant, sleep};

    use super::*;

    const HEAD_START: Duration = Duration::from_millis(250);

    /// After so many milliseconds, this outcome; notes when it began.
    async fn after(
        began: &Cell<Option<u128>>,
        clock: Instant,
        millis: u64,
        outcome: Result<u8, u8>,
    ) -> Result<u8, u8> {
        began.set(Some(clock.elapsed().as_millis()));
        sleep(Duration::from_millis(millis)).await;
        outcome
    }

    /// Who won, and when the second began.
    async fn run(
        overlay: (u64, Result<u8, u8>),
        direct: (u64, Result<u8, u8>),
        head_start: Option<Duration>,
    ) -> (Result<char, u8>, Option<u128>, u128) {
        let clock = Instant::now();
        let ignored = Cell::new(None);
        let began = Cell::new(None);
        let overlay = after(&ignored, clock, overlay.0, overlay.1);
        let direct = after(&began, clock, direct.0, direct.1);
        // Refusals below 50 are meant.
        let allows = |outcome: &Result<u8, u8>| outcome.is_err_and(|code| code >= 50);
        let won = first(overlay, direct, head_start, allows).await;
        let won = won.map(|first| match first {
            First::Overlay(_) => 'o',
            First::Direct(_) => 'd',
        });
        (won, began.get(), clock.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn the_overlay_wins_within_its_head_start_and_nothing_else_begins() {
        let won = run((249, Ok(1)), (0, Ok(2)), Some(HEAD_START)).await;
        assert_eq!(won, (Ok('o'), None, 249));
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_of_both_wins_after_the_head_start() {
        let won = run((900, Ok(1)), (100, Ok(2)), Some(HEAD_START)).await;
        assert_eq!(won, (Ok('d'), Some(250), 350));
        let won = run((300, Ok(1)), (100, Ok(2)), Some(HEAD_START)).await;
        assert_eq!(won, (Ok('o'), Some(250), 300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_the_overlay_lets_the_other_begin_at_once() {
        for head_start in [Some(HEAD_START), None] {
            let won = run((10, Err(52)), (100, Ok(2)), head_start).await;
            assert_eq!(won, (Ok('d'), Some(10), 110));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_race_a_slow_overlay_is_waited_for() {
        let won = run((60_000, Ok(1)), (0, Ok(2)), None).await;
        assert_eq!(won, (Ok('o'), None, 60_000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_is_meant_stands() {
        for head_start in [Some(HEAD_START), None] {
            let won = run((10, Err(43)), (0, Ok(2)), head_start).await;
            assert_eq!(won, (Err(43), None, 10));
        }
        let won = run((300, Err(43)), (1000, Ok(2)), Some(HEAD_START)).await;
        assert_eq!(won, (Err(43), Some(250), 300));
    }

    #[tokio::test(start_paused = true)]
    async fn if_both_fail_the_reason_is_that_of_the_overlay() {
        let won = run((900, Err(54)), (100, Err(60)), Some(HEAD_START)).await;
        assert_eq!(won, (Err(54), Some(250), 900));
        let won = run((10, Err(54)), (100, Err(60)), None).await;
        assert_eq!(won, (Err(54), Some(10), 110));
        let won = run((900, Ok(1)), (100, Err(60)), Some(HEAD_START)).await;
        assert_eq!(won, (Ok('o'), Some(250), 900));
    }
}
