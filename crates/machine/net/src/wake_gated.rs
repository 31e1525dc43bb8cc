//! Rare events that a task waits for beside its work (a wake-gated poll).
//!
//! A task that is woken polls all its futures. If datagrams wake it, beside orders, time-outs or a
//! drain, most of these polls find nothing. Such futures are polled here only when they were woken
//! themselves.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// Waits for `future`, which is polled first and then whenever it was woken; not whenever the task is.
pub async fn wake_gated<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let bell = Arc::new(Bell {
        rung: AtomicBool::new(true),
        task: Mutex::new(None),
    });
    let waker = Waker::from(bell.clone());
    poll_fn(|cx| {
        bell.hang(cx.waker());
        if !bell.rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        future.as_mut().poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// Rung by a future that wants to be polled; it then wakes the task.
struct Bell {
    rung: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Bell {
    /// The task that is to hear it.
    fn hang(&self, waker: &Waker) {
        let mut task = self.task.lock();
        if !task.as_ref().is_some_and(|task| task.will_wake(waker)) {
            *task = Some(waker.clone());
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        let task = self.task.lock().clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn a_future_is_polled_when_it_was_woken_and_not_when_its_task_is() {
        let (often, rare, polls) = (Notify::new(), Notify::new(), AtomicUsize::new(0));
        let mut waits = pin!(rare.notified());
        let counted = poll_fn(|cx| {
            polls.fetch_add(1, Ordering::Relaxed);
            waits.as_mut().poll(cx)
        });
        let mut counted = pin!(counted);
        let work = async {
            for _ in 0..100 {
                tokio::join!(often.notified(), async { often.notify_one() });
                tokio::task::yield_now().await;
            }
            rare.notify_one();
        };
        tokio::join!(wake_gated(counted.as_mut()), work);
        assert_eq!(
            polls.load(Ordering::Relaxed),
            2,
            "at first, and when it was woken"
        );
    }

    #[tokio::test]
    async fn the_task_is_woken_where_it_is_now() {
        let rare = Arc::new(Notify::new());
        let waiting = rare.clone();
        let mut waits = Box::pin(async move { wake_gated(pin!(waiting.notified())).await });
        // Polled once under another waker, as a future is that moves from one task to another.
        assert!(
            waits
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        let task = tokio::spawn(waits);
        tokio::task::yield_now().await;
        rare.notify_one();
        task.await.unwrap();
    }
}
