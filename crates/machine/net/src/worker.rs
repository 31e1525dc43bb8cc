//! Worker threads, each with a runtime of its own.

use std::future::Future;
use std::io;
use std::thread::{self, JoinHandle};

use tokio::runtime;

/// Threads that were started together. Dropping it leaves them running.
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
}

/// Starts `count` threads (one at least) named `<name>-<index>`. Each makes a current-thread
/// runtime and runs `f(index)` on it to its end; unfinished tasks that it spawned are dropped with
/// the runtime.
///
/// # Errors
/// When a thread or its runtime cannot be made. Threads that had started already go on.
pub fn spawn<F, T>(count: usize, name: &str, f: F) -> io::Result<Workers>
where
    F: Fn(usize) -> T + Send + Sync + Clone + 'static,
    T: Future<Output = ()>,
{
    let mut threads = Vec::with_capacity(count.max(1));
    for index in 0..count.max(1) {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let f = f.clone();
        let thread = thread::Builder::new().name(format!("{name}-{index}"));
        threads.push(thread.spawn(move || runtime.block_on(f(index)))?);
    }

    Ok(Workers { threads })
}

impl Workers {
    /// How many threads there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Never true: there is one thread at least.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// True once every thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for every thread. Blocks: call it from a thread that has nothing else to do.
    ///
    /// # Errors
    /// The names of the threads that panicked.
    pub fn join(self) -> Result<(), Vec<String>> {
        let mut panicked = Vec::new();
        for thread in self.threads {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                panicked.push(name);
            }
        }

        if panicked.is_empty() {
            Ok(())
        } else {
            Err(panicked)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn every_worker_runs_on_its_own_named_thread() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = seen.clone();
        let workers = spawn(3, "w", move |index| {
            let told = told.clone();
            async move {
                tokio::task::yield_now().await;
                let name = thread::current().name().map(str::to_owned);
                told.lock().unwrap().push((index, name));
            }
        });
        workers.unwrap().join().unwrap();
        let mut seen = seen.lock().unwrap().clone();
        seen.sort();
        let expected: Vec<_> = (0..3)
            .map(|index| (index, Some(format!("w-{index}"))))
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn join_names_the_thread_that_panicked() {
        let workers = spawn(2, "p", |index| async move {
            assert_eq!(index, 0, "one of them fails on purpose");
        });
        assert_eq!(workers.unwrap().join(), Err(vec!["p-1".to_owned()]));
    }
}
