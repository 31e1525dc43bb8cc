//! Reads from a folder that may stand still: a network file system whose server is gone, a disk that fails.
//!
//! A thread does them, one after the other. The caller waits for a moment; from then on the folder counts as standing still, and further
//! reads are refused at once, until the one that stands still has come to its end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// How long an operation is waited for, once: a disk that is busy answers within tens of milliseconds, and who waits may be a worker.
#[doc(alias = "bound")]
pub(super) const PATIENCE: Duration = Duration::from_millis(250);

type Job = Box<dyn FnOnce() + Send>;

/// Does operations on a thread of its own.
#[derive(Debug)]
pub(super) struct PatientThread {
    jobs: Sender<Job>,
    /// Operations that no one waits for any more.
    given_up: Arc<AtomicUsize>,
}

impl PatientThread {
    /// Starts the thread, which ends with this.
    ///
    /// # Errors
    /// The system starts none.
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let builder = thread::Builder::new().name("custody-read".to_owned());
        builder.spawn(move || queue.into_iter().for_each(|job| job()))?;
        Ok(Self {
            jobs,
            given_up: Arc::default(),
        })
    }

    /// Does one and waits for it, for a moment.
    ///
    /// # Errors
    /// The error of the operation; or the folder stands still, and the operation may be done later all the same.
    pub(super) fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        if self.given_up.load(Ordering::Acquire) > 0 {
            return Err(stands_still());
        }

        let (answer, answered) = mpsc::sync_channel(1);
        let given_up = self.given_up.clone();
        let job = Box::new(move || {
            let done = operation();
            // No one is there any more who would take it.
            if answer.send(done).is_err() {
                given_up.fetch_sub(1, Ordering::Release);
            }
        });
        self.jobs.send(job).map_err(|_| ended())?;

        match answered.recv_timeout(PATIENCE) {
            Ok(done) => done,
            Err(RecvTimeoutError::Disconnected) => Err(ended()),
            Err(RecvTimeoutError::Timeout) => {
                self.given_up.fetch_add(1, Ordering::AcqRel);
                // It may have been answered just now.
                match answered.try_recv() {
                    Ok(done) => {
                        self.given_up.fetch_sub(1, Ordering::Release);
                        done
                    }
                    Err(_) => Err(stands_still()),
                }
            }
        }
    }
}

pub(super) fn stands_still() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "the folder stands still: it did not answer in 250 ms",
    )
}

fn ended() -> io::Error {
    io::Error::other("the thread of the folder has ended")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_folder_that_stands_still_costs_one_wait_and_works_again_afterwards() {
        let thread = PatientThread::start().unwrap();
        assert_eq!(thread.run(|| Ok(7)).unwrap(), 7);

        let (release, held) = mpsc::channel::<()>();
        let standing = move || {
            let _ = held.recv();
            Ok(())
        };
        let error = thread.run(standing).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);

        // Thousands more are refused without a wait.
        let began = Instant::now();
        for _ in 0..10_000 {
            assert!(thread.run(|| Ok(())).is_err());
        }
        assert!(began.elapsed() < 100 * PATIENCE);

        release.send(()).unwrap();
        while thread.given_up.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        assert_eq!(thread.run(|| Ok(8)).unwrap(), 8);
    }

    #[test]
    fn what_an_operation_says_is_said() {
        let thread = PatientThread::start().unwrap();
        let error = thread
            .run(|| Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull)))
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
