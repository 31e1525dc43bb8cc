//! Exchanges at a steady rate, however long each takes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::journal::milliseconds;
use crate::traffic::http::{Buffer, REQUEST};

/// Clients, each with a connection.
const CLIENTS: u32 = 4;

/// Between two exchanges of a client.
const PACE: Duration = Duration::from_millis(10);

/// An exchange that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(10);

/// The outcomes of exchanges.
#[derive(Debug, Default)]
pub(super) struct Exchanged {
    /// Milliseconds of those that were answered.
    pub(super) times: Vec<f64>,
    pub(super) failed: usize,
}

/// Exchanges through this proxy for so long.
///
/// # Errors
/// Only where no run time can be made: exchanges that fail are counted.
pub(super) fn exchanges(web: SocketAddr, time: Duration) -> Result<Exchanged> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let end = Instant::now() + time;
        let clients = (0..CLIENTS).map(|number| {
            let offset = PACE * number / CLIENTS;
            tokio::spawn(client(web, offset, end))
        });
        let clients: Vec<_> = clients.collect();
        let mut all = Exchanged::default();
        for client in clients {
            let done = client.await?;
            all.times.extend(done.times);
            all.failed += done.failed;
        }
        Ok(all)
    })
}

async fn client(web: SocketAddr, offset: Duration, end: Instant) -> Exchanged {
    tokio::time::sleep(offset).await;
    let mut done = Exchanged::default();
    let mut pace = interval(PACE);
    // One that was slow is not made up for: the exchanges after it wait for their own times.
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut connection = None;
    while Instant::now() < end {
        pace.tick().await;
        let begin = Instant::now();
        match timeout(LIMIT, one(web, &mut connection)).await {
            Ok(Ok(())) => done.times.push(milliseconds(begin.elapsed())),
            Ok(Err(_)) | Err(_) => {
                done.failed += 1;
                connection = None;
            }
        }
    }
    done
}

async fn one(web: SocketAddr, connection: &mut Option<(TcpStream, Buffer)>) -> Result<()> {
    if connection.is_none() {
        let stream = TcpStream::connect(web).await?;
        stream.set_nodelay(true)?;
        *connection = Some((stream, Buffer::default()));
    }
    match connection {
        Some((stream, buffer)) => buffer.exchange(stream, REQUEST).await,
        // It was opened above.
        None => Ok(()),
    }
}
