//! Waiting to be told to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Resolves at Ctrl-C and at SIGTERM. Without signals it never does, and the command ends as processes end.
pub async fn told_to_stop() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
