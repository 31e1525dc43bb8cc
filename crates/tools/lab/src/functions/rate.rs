//! The processing rate: requests in a second, each on a connection of its own, by some clients at once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use super::network::exchange;
use super::systems::RunningFunctions;
use crate::report::{Figure, Sheet};
use crate::socks::client::SocksWay;

/// Clients at once, as the paper has them.
pub(super) const CLIENTS: [usize; 5] = [1, 2, 4, 8, 16];

/// Requests before those that are measured.
const WARM: usize = 20;

/// The case of so many clients.
pub(super) fn case(clients: usize) -> String {
    match clients {
        1 => "1 client".to_owned(),
        _ => format!("{clients} clients"),
    }
}

/// Measures a system that listens.
///
/// # Errors
/// When a request fails.
pub(super) async fn measure(
    running: &RunningFunctions,
    each: Duration,
    sheet: &mut Sheet,
) -> Result<()> {
    let way = running.way;
    let target = running.target;
    for _ in 0..WARM {
        exchange(way, target).await?;
    }
    for clients in CLIENTS {
        let used = running.processor_time();
        let begin = Instant::now();
        let done = load(way, target, clients, begin + each).await?;
        let rate = done as f64 / begin.elapsed().as_secs_f64();
        let case = case(clients);
        let system = running.system.name();
        sheet.add(&case, system, Figure::more("rate", "requests/s"), rate);
        if let Some((after, used)) = running.processor_time().zip(used) {
            let cost = (after - used).as_secs_f64() * 1e6 / done as f64;
            sheet.add(&case, system, Figure::less("processor", "us each"), cost);
        }
    }
    Ok(())
}

/// So many clients, each with one request after the other, until a time: how many were answered.
async fn load(way: SocksWay, target: SocketAddr, clients: usize, until: Instant) -> Result<usize> {
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        tasks.spawn(async move {
            let mut done = 0;
            while Instant::now() < until {
                exchange(way, target).await?;
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    let mut done = 0;
    while let Some(task) = tasks.join_next().await {
        done += task??;
    }
    Ok(done)
}
