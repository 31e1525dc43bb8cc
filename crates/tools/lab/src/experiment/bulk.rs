//! Downloads as fast as they go: one, and several at once.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::JoinSet;

use super::{Bench, Measured};
use crate::report::Figure;
use crate::traffic::Kind;
use crate::traffic::bulk::Download;

/// Downloads at once, beside one.
const FLOWS: usize = 8;

/// Bytes before those that count: windows and buffers have grown by then.
const WARM_UP: Duration = Duration::from_millis(300);
/// Time in which the end of a download is noticed everywhere.
const NOTICED: Duration = Duration::from_millis(100);
/// How long bytes are counted.
const LONG: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(600);

/// The rate of one download and of several at once, and what it costs the proxies.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    // What a system does for bulk it may do for those that follow one: this one ends, and is noticed, before the one that counts.
    let mut before = Download::start(bench.entry).await?;
    before.read_for(WARM_UP).await?;
    drop(before);

    let mut measured = flows(bench, 1, ["rate", "proxies' time"]).await?;
    if bench.case.kind == Kind::Tcp {
        let several = ["8 flows: rate", "8 flows: proxies' time"];
        measured.append(&mut flows(bench, FLOWS, several).await?);
    }
    Ok(measured)
}

/// So many downloads at once: their rate in all and its cost, by these names.
async fn flows(bench: &Bench<'_>, count: usize, [rate, cost]: [&str; 2]) -> Result<Measured> {
    tokio::time::sleep(NOTICED).await;
    let mut downloads = Vec::with_capacity(count);
    for _ in 0..count {
        downloads.push(Download::start(bench.entry).await?);
    }
    let (mut downloads, _) = read_all(downloads, WARM_UP).await?;

    let time = if bench.short { SHORT } else { LONG };
    let begin = Instant::now();
    let used = bench.system.processor_time();
    let bytes;
    (downloads, bytes) = read_all(downloads, time).await?;
    let used = (bench.system.processor_time().saturating_sub(used)).as_secs_f64();
    let seconds = begin.elapsed().as_secs_f64();
    drop(downloads);

    ensure!(bytes > 0, "no byte came");
    let gigabytes = bytes as f64 / 1e9;
    let mut measured = vec![(Figure::more(rate, "Gbit/s"), gigabytes * 8.0 / seconds)];
    if !bench.system.processes.is_empty() {
        measured.push((Figure::less(cost, "CPU s/GB"), used / gigabytes));
    }
    Ok(measured)
}

/// Reads all of them for some time: how many bytes came.
async fn read_all(downloads: Vec<Download>, time: Duration) -> Result<(Vec<Download>, u64)> {
    let mut tasks = JoinSet::new();
    for mut download in downloads {
        tasks.spawn(async move {
            let bytes = download.read_for(time).await?;
            anyhow::Ok((download, bytes))
        });
    }

    let read: Result<Vec<_>> = tasks.join_all().await.into_iter().collect();
    let (downloads, bytes): (Vec<_>, Vec<_>) = read?.into_iter().unzip();
    Ok((downloads, bytes.into_iter().sum()))
}
