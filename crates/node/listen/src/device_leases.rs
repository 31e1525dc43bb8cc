//! Files of leases: who has which address at a device, so that each finds it again after a restart.
//!
//! Their folder may stand still; then the device that they belong to waits, and no one else.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_config::model::PacketTermination;
use hermes_net::{read_at_most, replace_file};
use hermes_packet::tun::{TunHub, TunProxy, TunService};
use parking_lot::Mutex;

/// Bytes of a file of leases: more than those that a pool may have.
#[doc(alias = "bound")]
const FILE_BYTES: u64 = 64 << 20;

/// How long a file of leases is waited for.
#[doc(alias = "bound")]
const READING: Duration = Duration::from_secs(2);

/// How long the last write of a file is waited for once its device is closed: it must not take the time that exchanges have to end.
#[doc(alias = "bound")]
const WRITING: Duration = Duration::from_secs(2);

/// How long changes of leases are gathered before they are written.
const TOGETHER: Duration = Duration::from_millis(100);

/// Reads the leases of a device, beside the worker: their folder may stand still.
pub(crate) async fn read(end: PacketTermination<'_>) -> Result<Option<String>, String> {
    let Some(file) = end.leases_file().map(|file| file.0.clone()) else {
        return Ok(None);
    };
    let failed =
        |error: &dyn std::fmt::Display| format!("leases_file: {}: {error}", file.display());
    let stands_still = || failed(&"it stands still, and cannot be read");
    let reading = ReadLeases::begin(&file).ok_or_else(stands_still)?;

    let from = file.clone();
    let read = beside(move || {
        let _reading = reading;
        let bytes = read_at_most(&from, FILE_BYTES)?;
        String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
    });
    let read = tokio::time::timeout(READING, read).await;
    match read.map_err(|_| stands_still())? {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

/// Runs work on files, which may stand still, on a thread that neither a worker nor the end of the process waits for.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (answer, answered) = tokio::sync::oneshot::channel();
    let builder = std::thread::Builder::new().name("leases".to_owned());
    // Who asked may have gone.
    builder.spawn(move || drop(answer.send(work())))?;
    let ended = |_| io::Error::other("the thread has ended");
    answered.await.map_err(ended)?
}

/// Files of leases that are being read: one that stands still has one thread, however often it is tried again.
static READ_LEASES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file of leases that is being read.
struct ReadLeases(PathBuf);

impl ReadLeases {
    /// Begins, unless it is being read already.
    fn begin(file: &Path) -> Option<Self> {
        let is_first = READ_LEASES.lock().insert(file.to_owned());
        is_first.then(|| Self(file.to_owned()))
    }
}

impl Drop for ReadLeases {
    fn drop(&mut self) {
        READ_LEASES.lock().remove(&self.0);
    }
}

/// Restores who had which address.
pub(crate) fn restore(service: &TunProxy, file: &Path, text: &str) -> Result<(), String> {
    let restored = service.restore(text);
    let left_out = restored.map_err(|error| format!("leases_file: {}: {error}", file.display()))?;
    if left_out > 0 {
        tracing::warn!(file = %file.display(), left_out, "leases of addresses that `pool` does not have are forgotten");
    }
    Ok(())
}

/// Writes who has which address whenever that changes, until the device is closed.
pub(crate) async fn keep(hub: &TunHub, file: PathBuf) {
    let TunService::Proxy(proxy) = hub.service() else {
        return;
    };
    let mut is_last = false;
    while !is_last {
        tokio::select! {
            // Many clients come at once after a restart: their leases are written together.
            () = proxy.changed() => tokio::time::sleep(TOGETHER).await,
            () = hub.closed() => is_last = true,
        }

        let text = proxy.leases();
        let to = file.clone();
        let written = tokio::select! {
            written = beside(move || replace_file(&to, &text)) => written,
            () = long_closed(hub) => {
                let reason = "it stands still; what changed last is lost";
                tracing::error!(file = %file.display(), "leases_file: {reason}");
                return;
            }
        };
        if let Err(error) = written {
            tracing::error!(file = %file.display(), %error, "leases cannot be written");
        }
    }
}

/// Resolves when a device was closed, and its file had its time.
async fn long_closed(hub: &TunHub) {
    hub.closed().await;
    tokio::time::sleep(WRITING).await;
}
