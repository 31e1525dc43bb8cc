//! The clock of this machine: read once in each turn of a task, however many of its steps ask.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// The times that were read in the current turn of a task on this thread.
struct Clock {
    is_turn: Cell<bool>,
    instant: Cell<Option<Instant>>,
    system: Cell<Option<SystemTime>>,
}

thread_local! {
    static CLOCK: Clock = const {
        Clock {
            is_turn: Cell::new(false),
            instant: Cell::new(None),
            system: Cell::new(None),
        }
    };
}

/// The time of a clock: the one read earlier in this turn, if there is one.
fn read<T: Copy>(of: fn(&Clock) -> &Cell<Option<T>>, clock: fn() -> T) -> T {
    CLOCK.with(|turn| {
        let read = of(turn);
        if let Some(before) = read.get() {
            return before;
        }

        let now = clock();
        if turn.is_turn.get() {
            read.set(Some(now));
        }
        now
    })
}

/// The time at which this turn asked first; the present outside of tasks of
/// [`Watch::spawn`](crate::Watch::spawn). To measure within a turn, ask [`Instant`].
#[must_use]
pub fn now() -> Instant {
    read(|clock| &clock.instant, Instant::now)
}

/// The present time by the calendar.
#[must_use]
pub fn system_now() -> SystemTime {
    read(|clock| &clock.system, SystemTime::now)
}

/// Unix time in seconds, as certificates and tokens speak of time; 0 where the clock is before 1970.
#[must_use]
pub fn unix_seconds() -> u64 {
    system_now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// A task that reads the clock once a turn.
pub(crate) struct ClockedTask<F>(pub(crate) F);

impl<F: Future + Unpin> Future for ClockedTask<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _turn = ClockedTurn::begin();
        Pin::new(&mut self.0).poll(cx)
    }
}

/// Forgets the times when the turn ends, in whatever way.
struct ClockedTurn;

impl ClockedTurn {
    fn begin() -> Self {
        CLOCK.with(|clock| clock.is_turn.set(true));
        Self
    }
}

impl Drop for ClockedTurn {
    fn drop(&mut self) {
        CLOCK.with(|clock| {
            clock.is_turn.set(false);
            clock.instant.set(None);
            clock.system.set(None);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Moves on by more than the clock's grain.
    fn pass() {
        let began = Instant::now();
        while Instant::now() == began {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn a_turn_has_one_time_and_the_next_one_another() {
        let task = async {
            let first = (now(), system_now());
            pass();
            assert_eq!(first, (now(), system_now()));

            tokio::time::sleep(Duration::from_millis(2)).await;
            assert!(now() > first.0);
            first.0
        };
        let first = ClockedTask(Box::pin(task)).await;

        // No turn: time passes.
        let outside = now();
        assert!(outside > first);
        pass();
        assert!(now() > outside);
    }

    #[tokio::test]
    async fn a_turn_that_panics_has_an_end() {
        let task = async {
            let _ = now();
            panic!("as intended");
        };
        let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(task);
        assert!(tokio::spawn(ClockedTask(task)).await.is_err());

        let outside = now();
        pass();
        assert!(now() > outside);
    }
}
