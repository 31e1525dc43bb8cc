//! Ending spawned tasks: first gracefully, then by force.
//!
//! A [`Drain`] is held by the side that decides to stop; a [`Watch`] goes into every task.
//!
//! 1. *Running.* Tasks are started with [`Watch::spawn`], so that they are counted.
//! 2. *Graceful.* [`Drain::drain`] resolves [`Watch::graceful`] everywhere: accept loops stop accepting,
//!    HTTP connections say GOAWAY or `Connection: close`, exchanges that are open go on.
//! 3. *Forced.* When the deadline has passed, [`Watch::forced`] resolves: the remaining tasks reset
//!    their connections and end.
//!
//! `drain` returns when no task is left. It never drops a task: a task that ignores `forced` keeps
//! it waiting, so it gives up after [`FORCED_LIMIT`] and returns the number of remaining tasks.
//!
//! A part of the process (one listener that a new configuration removed) is drained through
//! [`Watch::child`]: its tasks count for the parent as well, and the parent's drain drains it too.
//!
//! ```
//! # use hermes_net::drain::{Drain, Ended};
//! # use std::time::Duration;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let drain = Drain::new();
//! let watch = drain.watch();
//! drain.watch().spawn(async move {
//!     watch.graceful().await;
//!     // finish the work at hand
//! });
//! assert_eq!(drain.drain(Duration::from_secs(10)).await, Ended::Gracefully);
//! # }
//! ```

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::clock::ClockedTask;

/// How long tasks may take to end once they are told to end at once: time for a reset and a log
/// line.
#[doc(alias = "bound")]
pub const FORCED_LIMIT: Duration = Duration::from_secs(5);

/// Starts the end of a set of tasks.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    watch: Watch,
}

/// Seen by every task: whether it should end, and how soon. Cheap to clone, and as small as a pointer.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Signals>);

/// The state that all views of a drain share.
#[derive(Debug, Default)]
struct Signals {
    graceful: CancellationToken,
    forced: CancellationToken,
    tracker: TaskTracker,
    /// Trackers of the drains that this one is a part of, nearest first.
    ancestors: Vec<TaskTracker>,
}

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every task ended before the deadline.
    Gracefully,
    /// `tasks` were left at the deadline and ended when they were told to end at once.
    Forced {
        /// How many were left at the deadline.
        tasks: usize,
    },
    /// `tasks` did not end even then.
    Stuck {
        /// How many are still there.
        tasks: usize,
    },
}

impl Drain {
    /// A drain of its own, with no task yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A view for tasks.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Tells every task to finish; returns at once.
    pub fn start(&self) {
        self.watch.0.graceful.cancel();
        self.watch.0.tracker.close();
    }

    /// Tells every task to end at once; returns at once.
    pub fn force(&self) {
        self.start();
        self.watch.0.forced.cancel();
    }

    /// Tells every task to finish, waits `deadline` for that, then tells those left to end at once.
    ///
    /// Dropping the future leaves the drain in the phase it had reached. Calling it again goes on from there.
    pub async fn drain(&self, deadline: Duration) -> Ended {
        self.start();
        let tracker = &self.watch.0.tracker;
        if timeout(deadline, tracker.wait()).await.is_ok() {
            return Ended::Gracefully;
        }

        let tasks = tracker.len();
        self.watch.0.forced.cancel();
        match timeout(FORCED_LIMIT, tracker.wait()).await {
            Ok(()) => Ended::Forced { tasks },
            Err(_) => Ended::Stuck {
                tasks: tracker.len(),
            },
        }
    }
}

impl Watch {
    /// Resolves when the work at hand should be finished and nothing new begun. Stays resolved.
    pub fn graceful(&self) -> WaitForCancellationFuture<'_> {
        self.0.graceful.cancelled()
    }

    /// Resolves when everything should end at once. Stays resolved.
    pub fn forced(&self) -> WaitForCancellationFuture<'_> {
        self.0.forced.cancelled()
    }

    /// Resolves when the drain has gone on for `time`, or everything should end at once: for work
    /// that has hardly begun, and is not worth the whole time of the drain.
    pub async fn graceful_for(&self, time: Duration) {
        self.graceful().await;
        // Whichever comes first: an error means that the time has passed.
        let _ = timeout(time, self.forced()).await;
    }

    /// True from the start of the drain on.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.graceful.is_cancelled()
    }

    /// True when the deadline has passed.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.0.forced.is_cancelled()
    }

    /// How many tasks are running, those of children included.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.0.tracker.len()
    }

    /// Starts a counted task on the current runtime.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let counted = self.count();
        // In its place on the heap from the beginning: each hand that a large future passes through would copy it.
        let future = ClockedTask(Box::pin(future));
        self.0.tracker.spawn(async move {
            let _counted = counted;
            future.await
        })
    }

    /// Counts something that is not a task of its own for as long as the guard lives.
    #[must_use]
    pub fn hold(&self) -> Hold {
        Hold {
            _here: self.0.tracker.token(),
            _above: self.count(),
        }
    }

    /// A drain for a part: its tasks count here too, and it is drained when this one is.
    #[must_use]
    pub fn child(&self) -> Drain {
        let mut ancestors = vec![self.0.tracker.clone()];
        ancestors.extend_from_slice(&self.0.ancestors);
        Drain {
            watch: Watch(Arc::new(Signals {
                graceful: self.0.graceful.child_token(),
                forced: self.0.forced.child_token(),
                tracker: TaskTracker::new(),
                ancestors,
            })),
        }
    }

    /// One token of each ancestor; no allocation at the root.
    fn count(&self) -> Vec<TaskTrackerToken> {
        self.0.ancestors.iter().map(TaskTracker::token).collect()
    }
}

/// Keeps a drain waiting while it lives; from [`Watch::hold`].
#[derive(Debug)]
pub struct Hold {
    _here: TaskTrackerToken,
    _above: Vec<TaskTrackerToken>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough that only a paused clock gets there.
    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn tasks_that_listen_end_gracefully() {
        let drain = Drain::new();
        let watch = drain.watch();
        drain.watch().spawn(async move { watch.graceful().await });
        assert_eq!(drain.watch().tasks(), 1);
        assert_eq!(drain.drain(HOUR).await, Ended::Gracefully);
    }

    #[tokio::test]
    async fn tasks_that_do_not_listen_are_forced_at_the_deadline() {
        let drain = Drain::new();
        let watch = drain.watch();
        drain.watch().spawn(async move { watch.forced().await });
        assert_eq!(
            drain.drain(Duration::from_millis(1)).await,
            Ended::Forced { tasks: 1 }
        );
    }

    #[tokio::test]
    async fn a_child_is_drained_alone_and_with_its_parent() {
        let parent = Drain::new();
        let (one, two) = (parent.watch().child(), parent.watch().child());
        for child in [&one, &two] {
            let watch = child.watch();
            child.watch().spawn(async move { watch.graceful().await });
        }
        assert_eq!(parent.watch().tasks(), 2);
        assert_eq!(one.drain(HOUR).await, Ended::Gracefully);
        assert!(!parent.watch().is_draining() && !two.watch().is_draining());
        assert_eq!(parent.watch().tasks(), 1);
        assert_eq!(parent.drain(HOUR).await, Ended::Gracefully);
        assert!(two.watch().is_draining());
    }

    #[tokio::test]
    async fn a_hold_keeps_the_drain_waiting() {
        let drain = Drain::new();
        let hold = drain.watch().hold();
        let ended = drain.drain(Duration::from_millis(1));
        let watch = drain.watch();
        let (ended, ()) = tokio::join!(ended, async move {
            watch.forced().await;
            drop(hold);
        });
        assert_eq!(ended, Ended::Forced { tasks: 1 });
    }
}
