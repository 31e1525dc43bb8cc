//! A thread that speaks to etcd, for callers that wait.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc;

use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::store::StoreError;

/// The thread. It ends with this.
pub(super) struct Runtime {
    handle: Handle,
    over: Arc<Notify>,
}

impl Runtime {
    pub(super) fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let over = Arc::new(Notify::new());
        let ends = over.clone();
        let thread = std::thread::Builder::new().name("etcd".to_owned());
        thread.spawn(move || runtime.block_on(ends.notified()))?;
        Ok(Self { handle, over })
    }

    /// Runs something on the thread, and waits for its end.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        // A channel of the standard library: those of tokio refuse to wait on threads of a run time.
        let (done, wait) = mpsc::sync_channel(1);
        self.handle.spawn(async move {
            // Who asked waits below.
            let _ = done.send(work.await);
        });
        let ended = || StoreError::new("the thread that speaks to etcd has ended");
        wait.recv().map_err(|_| ended())?
    }

    /// Begins something that goes on beside the callers.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.handle.spawn(work)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.over.notify_one();
    }
}
