//! One system, once.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::client::{self, SocksWay};
use super::systems::RunningSocks;
use crate::origin::{ECHO, SOURCE};
use crate::process::Process;
use crate::report::{Figure, Sheet, median, quantile};

pub(super) const NEW: &str = "new connection";
pub(super) const AT_ONCE: &str = "1,000 at once";
pub(super) const BULK: &str = "bulk, 8 flows";
pub(super) const MEMORY: &str = "memory";

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct SocksCounts {
    /// New connections, one after the other.
    pub new: usize,
    /// Connections at once.
    pub at_once: usize,
    /// Downloads at once, and for how long.
    pub flows: usize,
    pub bulk: Duration,
}

/// Connections before those that are measured.
const WARM: usize = 50;

/// Bytes of one read.
const READ: usize = 1 << 20;

/// A system, and where its figures go.
pub(super) struct Measuring<'a> {
    pub running: &'a RunningSocks,
    pub origin: SocketAddr,
    pub counts: SocksCounts,
    pub sheet: &'a mut Sheet,
}

impl Measuring<'_> {
    /// Measures all.
    ///
    /// # Errors
    /// When a connection fails.
    pub(super) async fn all(mut self) -> Result<()> {
        if let Some(process) = &self.running.process {
            let idle = process.memory() as f64 / f64::from(1 << 20);
            self.add(MEMORY, Figure::less("idle", "MiB"), idle);
        }
        for _ in 0..WARM {
            self.echo().await?;
        }
        self.one_by_one().await?;
        self.at_once().await?;
        self.bulk().await
    }

    fn add(&mut self, case: &str, figure: Figure, value: f64) {
        let system = self.running.system.name();
        self.sheet.add(case, system, figure, value);
    }

    async fn echo(&self) -> Result<()> {
        let echoed = client::echo(self.running.way, self.origin, &[ECHO, ECHO]);
        echoed.await.map(drop)
    }

    /// With processes and threads of a connection that have ended: some systems have one for each.
    fn processor_time(&self) -> Option<Duration> {
        let process = self.running.process.as_ref()?;
        Some(process.processor_time_of_all())
    }

    async fn one_by_one(&mut self) -> Result<()> {
        let used = self.processor_time();
        let mut times = Vec::new();
        for _ in 0..self.counts.new {
            let begin = Instant::now();
            self.echo().await?;
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        self.add(NEW, Figure::less("p50", "us"), median(&times));
        self.add(NEW, Figure::less("p99", "us"), quantile(&times, 0.99));
        if let Some((after, used)) = self.processor_time().zip(used) {
            let cost = (after - used).as_secs_f64() * 1e6 / self.counts.new as f64;
            self.add(NEW, Figure::less("processor", "us each"), cost);
        }
        Ok(())
    }

    async fn at_once(&mut self) -> Result<()> {
        let memory = |running: &RunningSocks| running.process.as_ref().map(Process::memory);
        let before = memory(self.running);
        let begin = Instant::now();
        let kept = at_once(self.running.way, self.origin, self.counts.at_once).await?;
        let took = begin.elapsed().as_secs_f64() * 1e3;
        self.add(AT_ONCE, Figure::less("all answered", "ms"), took);

        if let Some((after, before)) = memory(self.running).zip(before) {
            let each = after.saturating_sub(before) as f64 / 1024.0 / kept.len() as f64;
            self.add(MEMORY, Figure::less("an idle connection", "KiB"), each);
        }
        Ok(())
    }

    async fn bulk(&mut self) -> Result<()> {
        let used = self.processor_time();
        let begin = Instant::now();
        let bytes = bulk(self.running.way, self.origin, self.counts).await?;
        let gigabytes = bytes as f64 / 1e9;
        let rate = gigabytes * 8.0 / begin.elapsed().as_secs_f64();
        self.add(BULK, Figure::more("rate", "Gbit/s"), rate);
        if let Some((after, used)) = self.processor_time().zip(used) {
            let cost = (after - used).as_secs_f64() / gigabytes;
            self.add(BULK, Figure::less("processor", "s/GB"), cost);
        }
        Ok(())
    }
}

async fn at_once(
    way: SocksWay,
    origin: SocketAddr,
    count: usize,
) -> Result<Vec<tokio::net::TcpStream>> {
    let mut opening = JoinSet::new();
    for _ in 0..count {
        opening.spawn(async move { client::echo(way, origin, &[ECHO, ECHO]).await });
    }
    let mut open = Vec::new();
    while let Some(opened) = opening.join_next().await {
        open.push(opened??);
    }
    Ok(open)
}

async fn bulk(way: SocksWay, origin: SocketAddr, counts: SocksCounts) -> Result<u64> {
    let until = tokio::time::Instant::now() + counts.bulk;
    let mut flows = JoinSet::new();
    for _ in 0..counts.flows {
        flows.spawn(async move {
            let stream = client::open(way, origin, &[SOURCE]).await?;
            let mut room = vec![0; READ];
            let mut bytes = 0;
            // Where bytes are always there, no wait would end.
            while tokio::time::Instant::now() < until {
                // The kernel drops the bytes: copying them would take time from the proxies.
                let read = || Ok(recv(&stream, room.as_mut_slice(), RecvFlags::TRUNC)?.1);
                match timeout_at(until, stream.async_io(Interest::READABLE, read)).await {
                    Ok(Ok(0)) => bail!("the download ended"),
                    Ok(read) => bytes += read? as u64,
                    Err(_) => break,
                }
            }
            anyhow::Ok(bytes)
        });
    }
    let mut bytes = 0;
    while let Some(flow) = flows.join_next().await {
        bytes += flow??;
    }
    Ok(bytes)
}
