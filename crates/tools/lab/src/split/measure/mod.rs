//! One system, once, as its client sees it.
//!
//! - `downloads`: by size, over new and kept connections, and large ones. `bursts`: beside many open connections.

mod bursts;
mod downloads;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::network::{SplitNetwork, SplitPath};
use super::systems::SplitSystem;
use crate::origin::ECHO;
use crate::process::Process;
use crate::report::{Figure, median, quantile};

pub(super) const CONNECT: &str = "connect";
pub(super) const NEW: &str = "new connection";
pub(super) const KEPT: &str = "kept connection";
pub(super) const REFUSED: &str = "refused";
pub(super) const MEMORY: &str = "memory";
pub(super) use downloads::{BOUNDED, HUGE, LARGE, LOSSY};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct SplitCounts {
    /// New connections, and refused ones, one after the other.
    pub connections: usize,
    /// Answers over one connection.
    pub answers: usize,
    /// Downloads of each size, over new connections and over one that is kept.
    pub downloads: usize,
    /// Downloads of 256 MB.
    pub large: usize,
    /// Whether 16 MB, 1 GB and 4 GB are downloaded too, and 64 MB without offloads.
    pub is_long: bool,
    /// Downloads over the lossy and long path.
    pub lossy: usize,
    /// Connections that are open at once, and idle.
    pub idle: usize,
    /// The most connections of those beside which bursts are sent.
    pub beside: usize,
    /// Bursts beside each number of connections.
    pub bursts: usize,
}

/// A figure of one round.
pub(super) struct SplitFigure {
    pub case: &'static str,
    pub figure: Figure,
    pub value: f64,
}

/// How long a system may take to start.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long anything may take after that.
const LIMIT: Duration = Duration::from_secs(30);
/// Connections before those that are measured.
const WARM: usize = 20;
/// The server echoes from the second byte on.
const FIRST: &[u8] = &[ECHO, ECHO];

/// Measures all that a path is for.
///
/// # Errors
/// When the system does not start, or a connection fails.
pub(super) fn all(
    network: &mut SplitNetwork,
    path: SplitPath,
    counts: SplitCounts,
) -> Result<Vec<SplitFigure>> {
    let mut figures = Vec::new();
    match path {
        SplitPath::LossyAndLong { .. } => {
            figures.extend(inside(network, counts, |measuring| measuring.lossy())?);
        }
        SplitPath::Cables => {
            figures.extend(inside(network, counts, |measuring| measuring.cables())?);
            if counts.is_long {
                network.bound_rate()?;
                figures.extend(inside(network, counts, |measuring| measuring.bounded())?);
                network.end_bound()?;
                network.end_offloads()?;
                figures.extend(inside(network, counts, |measuring| {
                    measuring.without_offloads()
                })?);
            }
        }
    }
    Ok(figures)
}

/// Measures from the namespace of the client.
fn inside(
    network: &mut SplitNetwork,
    counts: SplitCounts,
    measure: impl FnOnce(&mut SplitMeasuring<'_>) -> Result<()> + Send,
) -> Result<Vec<SplitFigure>> {
    let client = network.client()?;
    let mut measuring = SplitMeasuring {
        target: network.target,
        closed: network.closed,
        system: network.system,
        process: network.process.as_ref(),
        counts,
        figures: Vec::new(),
    };
    let measured = thread::scope(|scope| {
        // A thread of its own, since the namespace is the thread's.
        let measured = scope.spawn(move || {
            client.enter()?;
            measuring.wait()?;
            measure(&mut measuring)?;
            Ok(measuring.figures)
        });
        measured
            .join()
            .map_err(|_| anyhow!("the client has ended"))?
    });
    // Its log says more than a connection that fails.
    if let Some(process) = &mut network.process {
        process.check()?;
        let log = process.log();
        return measured.with_context(|| log);
    }
    measured
}

struct SplitMeasuring<'a> {
    target: SocketAddr,
    closed: SocketAddr,
    system: SplitSystem,
    process: Option<&'a Process>,
    counts: SplitCounts,
    figures: Vec<SplitFigure>,
}

impl SplitMeasuring<'_> {
    fn cables(&mut self) -> Result<()> {
        for _ in 0..WARM {
            self.echo()?;
        }
        self.one_by_one()?;
        self.kept()?;
        // Clients of a forwarder cannot ask for another address.
        if !self.system.is_forwarder() {
            self.refused()?;
        }
        self.by_size()?;
        self.large()?;
        self.idle()?;
        self.bursts()
    }

    fn add(&mut self, case: &'static str, figure: Figure, value: f64) {
        let figure = SplitFigure {
            case,
            figure,
            value,
        };
        self.figures.push(figure);
    }

    /// Waits until the system answers.
    fn wait(&self) -> Result<()> {
        let begin = Instant::now();
        loop {
            match self.echo() {
                Ok(_) => return Ok(()),
                Err(error) if begin.elapsed() > START_LIMIT => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.target, LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(stream)
    }

    fn echo(&self) -> Result<TcpStream> {
        let mut stream = self.connect()?;
        answer(&mut stream, FIRST)?;
        Ok(stream)
    }

    fn one_by_one(&mut self) -> Result<()> {
        let used = self.processor_time();
        let mut connected = Vec::new();
        let mut answered = Vec::new();
        for _ in 0..self.counts.connections {
            let begin = Instant::now();
            let mut stream = self.connect()?;
            connected.push(micros(begin));
            answer(&mut stream, FIRST)?;
            answered.push(micros(begin));
        }
        let p90 = || Figure::less("p90", "us");
        self.add(CONNECT, Figure::less("p50", "us"), median(&connected));
        self.add(CONNECT, p90(), quantile(&connected, 0.9));
        self.add(NEW, Figure::less("p50", "us"), median(&answered));
        self.add(NEW, p90(), quantile(&answered, 0.9));
        if let Some((after, used)) = self.processor_time().zip(used) {
            let cost = (after - used).as_secs_f64() * 1e6 / self.counts.connections as f64;
            self.add(NEW, Figure::less("processor", "us each"), cost);
        }
        Ok(())
    }

    fn kept(&mut self) -> Result<()> {
        let mut stream = self.echo()?;
        let mut times = Vec::new();
        for _ in 0..self.counts.answers {
            let begin = Instant::now();
            answer(&mut stream, &[ECHO])?;
            times.push(micros(begin));
        }
        self.add(KEPT, Figure::less("p50", "us"), median(&times));
        self.add(KEPT, Figure::less("p90", "us"), quantile(&times, 0.9));
        Ok(())
    }

    /// The time until a client knows that no one listens; none of a system that accepts it first.
    fn refused(&mut self) -> Result<()> {
        let mut times = Vec::new();
        for _ in 0..self.counts.connections {
            let begin = Instant::now();
            match TcpStream::connect_timeout(&self.closed, LIMIT) {
                Ok(_) => return Ok(()),
                // It was accepted, and is reset since the server refuses.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(error) => ensure!(error.kind() == ErrorKind::ConnectionRefused, "{error}"),
            }
            times.push(micros(begin));
        }
        self.add(REFUSED, Figure::less("p50", "us"), median(&times));
        self.add(REFUSED, Figure::less("p90", "us"), quantile(&times, 0.9));
        Ok(())
    }

    fn idle(&mut self) -> Result<()> {
        let Some(process) = self.process else {
            return Ok(());
        };
        let before = process.memory();
        let opened = (0..self.counts.idle).map(|_| self.echo());
        let open: Vec<TcpStream> = opened.collect::<Result<_>>()?;
        let each = process.memory().saturating_sub(before) as f64 / 1024.0 / open.len() as f64;
        self.add(MEMORY, Figure::less("an idle connection", "KiB"), each);
        Ok(())
    }

    fn processor_time(&self) -> Option<Duration> {
        self.process.map(Process::processor_time_of_all)
    }
}

/// Bytes there and back.
fn answer(stream: &mut TcpStream, said: &[u8]) -> Result<()> {
    stream.write_all(said)?;
    let mut heard = vec![0; said.len()];
    stream.read_exact(&mut heard)?;
    ensure!(heard == said, "other bytes came back");
    Ok(())
}

fn micros(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e6
}
