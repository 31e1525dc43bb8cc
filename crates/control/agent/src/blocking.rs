//! Work with the disk of a node, beside its run time.

use std::io;

/// Disks may stand still, and must not stop the agent's run time.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}
