//! Bursts beside many open connections: 128 KB each 100 ms, over one after the other, as the paper on split TCP sends them.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::downloads::timed;
use super::{SplitMeasuring, SplitSystem};
use crate::report::{Figure, median, quantile};
use crate::split::network::CLIENTS;

/// Numbers of connections. The last but one is as many as a node takes where 20,000 open files are the most, some of which it keeps back.
const BESIDE: [(usize, &str); 4] = [
    (100, "128 KB beside 100 connections"),
    (1000, "128 KB beside 1,000 connections"),
    (8500, "128 KB beside 8,500 connections"),
    (10_000, "128 KB beside 10,000 connections"),
];

const BURST: u64 = 128 * 1024;
const EVERY: Duration = Duration::from_millis(100);

/// Connections of one program that the stack of a node has room for by default.
const OF_STACK: usize = 100;

impl SplitMeasuring<'_> {
    pub(super) fn bursts(&mut self) -> Result<()> {
        let most = match self.system {
            SplitSystem::HermesStack => OF_STACK.min(self.counts.beside),
            _ => self.counts.beside,
        };
        for (connections, case) in BESIDE {
            if connections <= most {
                self.bursts_beside(connections, case)?;
            }
        }
        Ok(())
    }

    fn bursts_beside(&mut self, connections: usize, case: &'static str) -> Result<()> {
        // No client may hold more than half of the open files of a node.
        let clients = CLIENTS.iter().cycle().take(connections);
        let opened = clients.map(|client| self.downloading_from(*client));
        let mut open: Vec<TcpStream> = opened.collect::<Result<_>>()?;
        let step = (connections / self.counts.bursts).max(1);
        let begin = Instant::now();
        let used = self.processor_time();
        let mut times = Vec::new();
        for index in 0..self.counts.bursts {
            let at = begin + EVERY * index as u32;
            thread::sleep(at.saturating_duration_since(Instant::now()));
            // One that was closed in the meantime would be noticed.
            times.push(timed(&mut open[index * step % connections], BURST)?);
        }
        for (name, share) in [("p10", 0.1), ("p90", 0.9)] {
            self.add(case, Figure::less(name, "ms"), quantile(&times, share));
        }
        self.add(case, Figure::less("p50", "ms"), median(&times));
        if let Some((after, used)) = self.processor_time().zip(used) {
            let share = (after - used).as_secs_f64() / begin.elapsed().as_secs_f64();
            self.add(case, Figure::less("processor", "%"), share * 100.0);
        }
        if let Some(process) = self.process {
            let memory = process.memory() as f64 / 1024.0 / 1024.0;
            self.add(case, Figure::less("memory", "MiB"), memory);
        }
        Ok(())
    }
}
