//! One download as fast as it goes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Bench, Figure, Measured};
use crate::traffic::bulk::Download;

/// Bytes before those that count: windows and buffers have grown by then.
const WARM_UP: Duration = Duration::from_millis(300);
/// Time in which the end of a download is noticed everywhere.
const NOTICED: Duration = Duration::from_millis(100);
/// How long bytes are counted.
const LONG: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(600);

/// The rate, and what it costs the proxies.
pub async fn run(bench: &Bench<'_>) -> Result<Measured> {
    // What a system does for bulk it may do for those that follow one: this one ends, and is noticed, before the one that counts.
    let mut before = Download::start(bench.entry).await?;
    before.read_for(WARM_UP).await?;
    drop(before);
    tokio::time::sleep(NOTICED).await;

    let mut download = Download::start(bench.entry).await?;
    download.read_for(WARM_UP).await?;
    let begin = Instant::now();
    let used = bench.system.processor_time();
    let bytes = download
        .read_for(if bench.short { SHORT } else { LONG })
        .await?;
    let used = (bench.system.processor_time() - used).as_secs_f64();
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(bytes > 0, "no byte came");
    let gigabytes = bytes as f64 / 1e9;
    let mut measured = vec![(Figure::more("rate", "Gbit/s"), gigabytes * 8.0 / seconds)];

    if !bench.system.processes.is_empty() {
        measured.push((Figure::less("proxies' time", "CPU s/GB"), used / gigabytes));
    }
    Ok(measured)
}
