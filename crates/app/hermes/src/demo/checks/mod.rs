//! The exchanges of the demo through the overlay, and the expected results.

mod datagrams;
mod message;
mod refused;
mod sealed;
mod stream;

use std::time::Duration;

use super::Scene;
use super::evidence::{Checked, Evidence};

/// Time for one check with all its tries.
const PATIENCE: Duration = Duration::from_secs(30);

/// Every check, one after the other, so that they do not disturb each other's latency.
pub async fn all(scene: &Scene) -> Vec<Checked> {
    vec![
        check("HTTP: GET http://VIDEO/hello", message::check(scene)).await,
        check("TLS end to end: CONNECT SECURE:443", sealed::check(scene)).await,
        check("TCP: a connection to DB:5432", stream::check(scene)).await,
        check("UDP: datagrams to ECHO:7000", datagrams::check(scene)).await,
        check("a forged `user` field", refused::forged_user(scene)).await,
        check("a name that no route knows", refused::unknown_name(scene)).await,
    ]
}

async fn check(what: &'static str, run: impl Future<Output = Result<Evidence, String>>) -> Checked {
    let late = || Err(format!("not done after {} s", PATIENCE.as_secs()));
    let outcome = tokio::time::timeout(PATIENCE, run)
        .await
        .unwrap_or_else(|_| late());
    Checked { what, outcome }
}
