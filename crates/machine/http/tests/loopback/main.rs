//! The crate against itself and against raw sockets: loopback addresses, port 0 and socket pairs only.
#![allow(clippy::unwrap_used)]

mod cancel;
mod client;
mod content;
mod drain;
mod early;
mod flow;
mod forward;
mod h3;
mod interim;
mod lengths;
mod malformed;
mod messages;
mod packed;
mod processed;
mod quic;
mod raw;
mod reuse;
mod server;
mod slow_link;
mod tunnels;
mod upgrades;

use std::fmt::Debug;
use std::time::Duration;

use hermes_http::Offered;

use crate::client::Client;
use crate::server::Server;

/// Longer than anything here takes: only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

/// The HTTP version of one hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
    /// HTTP/3.
    H3,
}

use Version::{H1, H2, H3};

/// All versions, for properties of one hop.
const VERSIONS: &[Version] = &[H1, H2, H3];

/// The hops between a client and the origin; two hops have a forwarder between them.
type Path = &'static [Version];

/// Each version alone, and each turned into the other.
const PATHS: &[Path] = &[
    &[H1],
    &[H2],
    &[H3],
    &[H1, H2],
    &[H2, H1],
    &[H1, H3],
    &[H3, H1],
    &[H2, H3],
    &[H3, H2],
    &[H3, H3],
];

/// Runs `test` for each case, names the case in the output of a failure, and ends a hang.
async fn each<T: Debug + Copy>(cases: &[T], test: impl AsyncFn(T)) {
    for case in cases {
        eprintln!("case: {case:?}");
        bounded(test(*case)).await;
    }
}

/// Ends a hang.
async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap()
}

/// A client with exchanges that reach `answer` over `path`. The servers on the way live as long as
/// the test.
async fn reach<F, Fut>(path: Path, answer: F) -> Client
where
    F: Fn(Offered) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let mut client = Server::start(answer)
        .await
        .client(path[path.len() - 1])
        .await;
    for version in path[..path.len() - 1].iter().rev() {
        let next = client;
        let server = Server::start(move |offered| forward::forward(offered, next.clone())).await;
        client = server.client(*version).await;
    }
    client
}
