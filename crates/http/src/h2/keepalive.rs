//! PING on a link: finds out when its SETTINGS have come, and later whether the peer is still there.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use h2::{Ping, PingPong};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::metered::Watchman;

/// How the peer of a link is watched (RFC 9113, 6.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Time between two PINGs.
    pub every: Duration,
    /// Silence after a PING that ends the link. A peer that sends anything at all is there, however late its answer is.
    pub timeout: Duration,
}

/// SETTINGS are the first frame a server sends, so they were seen when the first PING is answered. Returns when the peer has
/// fallen silent.
pub(super) async fn settle(
    ping_pong: Option<PingPong>,
    settled: watch::Sender<bool>,
    keepalive: Option<Keepalive>,
    heard: Arc<Watchman>,
) {
    let Some(mut ping_pong) = ping_pong else {
        return std::future::pending().await;
    };
    loop {
        match answered(&mut ping_pong, keepalive, &heard).await {
            Answer::Came => drop(settled.send_replace(true)),
            Answer::Silence => return,
            // The connection is ending, and its driver will say so.
            Answer::Never => break,
        }
        let Some(Keepalive { every, .. }) = keepalive else {
            break;
        };
        sleep(every).await;
    }
    // Those who wait for SETTINGS learn from the end of the connection that none come.
    let _settled = settled;
    std::future::pending().await
}

/// Resolves when a client that is served has fallen silent; never where it is not watched, which takes no room.
pub(super) fn silence(
    ping_pong: Option<PingPong>,
    keepalive: Option<Keepalive>,
    heard: Arc<Watchman>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    match keepalive {
        Some(keepalive) => Box::pin(settle(
            ping_pong,
            watch::channel(false).0,
            Some(keepalive),
            heard,
        )),
        None => Box::pin(std::future::pending()),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Came,
    Silence,
    /// The connection is over.
    Never,
}

async fn answered(
    ping_pong: &mut PingPong,
    keepalive: Option<Keepalive>,
    heard: &Watchman,
) -> Answer {
    let pong = ping_pong.ping(Ping::opaque());
    tokio::pin!(pong);
    let Some(Keepalive { timeout: time, .. }) = keepalive else {
        return pong.await.map_or(Answer::Never, |_| Answer::Came);
    };
    loop {
        let before = heard.heard();
        match timeout(time, &mut pong).await {
            Ok(pong) => return pong.map_or(Answer::Never, |_| Answer::Came),
            Err(_) if heard.heard() != before => {}
            Err(_) => return Answer::Silence,
        }
    }
}
