//! The measurements of a point on a system that runs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

use super::download;
use super::plan::{HopExperiment, Point};
use super::qlog;
use super::systems::{Around, HopEntry, Running};
use crate::experiment::Measured;
use crate::origin;
use crate::report::Figure;
use crate::report::median;
use crate::traffic::datagrams::{PAYLOAD, Sender};
use crate::traffic::search::highest;
use crate::traffic::{self, Client, Kind};

/// How much is measured.
struct Amounts {
    /// How long each rate of datagrams is sent.
    rate_time: Duration,
    /// Round trips on a kept flow, and on new ones.
    kept: usize,
    new: usize,
    /// Bytes of a download.
    bytes: u64,
}

const LONG: Amounts = Amounts {
    rate_time: Duration::from_millis(500),
    kept: 2000,
    new: 200,
    bytes: 256 << 20,
};
const SHORT: Amounts = Amounts {
    rate_time: Duration::from_millis(200),
    kept: 500,
    new: 50,
    bytes: 64 << 20,
};
/// Round trips before the first that counts.
const WARM_UP: usize = 20;
/// Datagrams a second through a proxy that writes down its connections, and how long.
const TRACED_RATE: f64 = 5000.0;
const TRACED_TIME: Duration = Duration::from_millis(500);
/// How long such a proxy may take to start.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Earlier flows have ended after this time: a burst of new ones shall be all that a connection carries.
const REST: Duration = Duration::from_secs(3);

/// Where a point is measured.
pub struct HopBench<'a> {
    /// Which.
    pub point: Point,
    /// The running system.
    pub running: &'a Running,
    /// The network and the files of all systems.
    pub around: &'a Around<'a>,
    /// The load.
    pub client: &'a Client,
    /// The addresses of the origin as the client sees them.
    pub origin: origin::Addresses,
    /// Less, for figures that scatter more.
    pub short: bool,
}

impl HopBench<'_> {
    /// Measures it.
    ///
    /// # Errors
    /// When the chain does not carry the load.
    pub async fn run(&self) -> Result<Measured> {
        let entry = self
            .running
            .entry(self.point)
            .context("there is no such chain")?;
        let amounts = if self.short { SHORT } else { LONG };
        match self.point.experiment {
            HopExperiment::Datagrams => self.datagrams(entry, &amounts).await,
            HopExperiment::Latency => self.latency(entry, &amounts).await,
            HopExperiment::Flows => self.flows(entry).await,
            HopExperiment::Download => self.download(entry, &amounts).await,
            HopExperiment::Quic => self.quic().await,
        }
    }

    async fn datagrams(&self, entry: &HopEntry, amounts: &Amounts) -> Result<Measured> {
        let mut sender =
            Sender::several(entry.udp, self.origin.udp, self.point.transactions as usize).await?;
        let found = highest(&mut sender, amounts.rate_time, || {
            self.running.processor_times()
        })
        .await?;
        let mut measured = vec![
            (Figure::more("rate", "1000/s"), found.rate / 1e3),
            (
                Figure::more("throughput", "Mbit/s"),
                found.rate * PAYLOAD as f64 * 8.0 / 1e6,
            ),
        ];

        let gigabytes = found.received as f64 * PAYLOAD as f64 / 1e9;
        self.cost(&mut measured, &found.used, gigabytes);
        Ok(measured)
    }

    async fn latency(&self, entry: &HopEntry, amounts: &Amounts) -> Result<Measured> {
        let entry = entry.for_datagrams();
        let mut session = self.client.open(&entry).await?;
        let mut kept = Vec::with_capacity(amounts.kept);

        for _ in 0..WARM_UP + amounts.kept {
            let begin = Instant::now();
            session.exchange().await?;
            kept.push(begin.elapsed().as_secs_f64() * 1e6);
        }

        let mut new = Vec::with_capacity(amounts.new);
        for _ in 0..WARM_UP + amounts.new {
            let begin = Instant::now();
            self.client.once(&entry).await?;
            new.push(begin.elapsed().as_secs_f64() * 1e6);
        }

        let kept = &mut kept[WARM_UP..];
        // As RTP's receivers see it: how much one differs from the one before.
        let jitter = kept
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).abs())
            .sum::<f64>()
            / kept.len() as f64;
        kept.sort_by(f64::total_cmp);

        Ok(vec![
            (Figure::less("kept flow", "us"), median(kept)),
            (
                Figure::less("kept flow, 99th of 100", "us"),
                kept[kept.len() * 99 / 100],
            ),
            (Figure::less("jitter", "us"), jitter),
            (Figure::less("new flow", "us"), median(&new[WARM_UP..])),
        ])
    }

    /// Many new flows at once, over a connection that is open.
    async fn flows(&self, entry: &HopEntry) -> Result<Measured> {
        let entry = entry.for_datagrams();
        self.client.once(&entry).await?;
        tokio::time::sleep(REST).await;
        let begin = Instant::now();
        let mut tasks = JoinSet::new();

        for _ in 0..self.point.transactions {
            let client = self.client.clone();
            let entry = entry.clone();
            tasks.spawn(async move { client.once(&entry).await.map(|()| begin.elapsed()) });
        }

        let done = tasks.join_all().await;
        let times: Vec<_> = done
            .iter()
            .flatten()
            .map(|time| time.as_secs_f64() * 1e3)
            .collect();
        ensure!(!times.is_empty(), "no flow got an answer");

        Ok(vec![
            (
                Figure::less("last answer", "ms"),
                times.iter().copied().fold(0.0, f64::max),
            ),
            (
                Figure::less("lost", "flows"),
                (done.len() - times.len()) as f64,
            ),
        ])
    }

    async fn download(&self, entry: &HopEntry, amounts: &Amounts) -> Result<Measured> {
        let before = self.running.processor_times();
        let done = download::run(
            entry.http,
            &entry.host,
            amounts.bytes,
            self.point.transactions,
        )
        .await?;

        let after = self.running.processor_times();
        let first: Vec<_> = done
            .first_bytes
            .iter()
            .map(|time| time.as_secs_f64() * 1e3)
            .collect();
        let mut measured = vec![
            (
                Figure::more("throughput", "Mbit/s"),
                amounts.bytes as f64 * 8.0 / 1e6 / done.time.as_secs_f64(),
            ),
            (Figure::less("first byte", "ms"), median(&first)),
        ];

        self.cost(&mut measured, &(before, after), amounts.bytes as f64 / 1e9);
        Ok(measured)
    }

    /// Datagrams through a proxy that writes down its connections.
    async fn quic(&self) -> Result<Measured> {
        let folder = tempfile::tempdir_in(self.around.folder)?;
        let (mut process, entry) = self
            .running
            .traced(self.point, self.around, folder.path())?;
        let begin = Instant::now();

        while let Err(error) = self.client.once(&entry.for_datagrams()).await {
            process.check()?;
            ensure!(begin.elapsed() < START_LIMIT, error.context(process.log()));
        }

        let mut sender = Sender::several(entry.udp, self.origin.udp, 1).await?;
        sender.send(TRACED_RATE, TRACED_TIME).await?;

        // Its end writes the files to their ends.
        drop(process);
        qlog::read(&folder.path().join("qlog"))
    }

    /// Processor time of each process that the chain passes.
    fn cost(&self, measured: &mut Measured, used: &(Vec<Duration>, Vec<Duration>), gigabytes: f64) {
        let passed = if self.running.processes.is_empty() {
            0
        } else {
            usize::from(self.point.hops) + 1
        };
        for (number, (before, after)) in used.0.iter().zip(&used.1).enumerate().take(passed) {
            let name = if number == 0 {
                "time of client's proxy".to_owned()
            } else {
                format!("time of proxy {number}")
            };
            measured.push((
                Figure::less(name, "CPU s/GB"),
                (*after - *before).as_secs_f64() / gigabytes,
            ));
        }
    }
}

impl HopEntry {
    /// For clients of datagrams.
    fn for_datagrams(&self) -> traffic::Entry {
        traffic::Entry {
            kind: Kind::Udp,
            address: self.udp,
            asks: false,
        }
    }
}
