//! The measurements of one system.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ping;
use super::system::RunningIp;
use crate::report::median;
use crate::traffic::bulk::{Download, upload};
use crate::traffic::datagrams::Sender;
use crate::traffic::search::highest;
use crate::traffic::{Client, Entry, Kind};

/// Flows of the larger crowd.
const CROWD: usize = 8;

/// UDP payloads of both sizes.
const SMALL: usize = 64;
const LARGE: usize = 1200;

/// How long a tunnel may take until it carries something.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Pause between two looks.
const STEP: Duration = Duration::from_millis(50);

/// Round trips before the first that counts.
const WARM_UP: usize = 20;

/// Of so many round trips one may be lost.
const LOST_ONE_IN: usize = 50;

/// How much is measured.
struct IpAmounts {
    /// How long bytes flow.
    bulk: Duration,
    /// How long each rate of datagrams is sent.
    rate: Duration,
    /// Round trips of each kind.
    trips: usize,
}

const LONG: IpAmounts = IpAmounts {
    bulk: Duration::from_secs(3),
    rate: Duration::from_millis(400),
    trips: 1000,
};
const SHORT: IpAmounts = IpAmounts {
    bulk: Duration::from_millis(400),
    rate: Duration::from_millis(80),
    trips: 100,
};

/// The figures of one round.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct IpFigures {
    /// TCP from the client, in Gbit/s of content: of one flow, and of eight.
    pub up: f64,
    pub up_crowd: f64,
    /// TCP to the client.
    pub down: f64,
    pub down_crowd: f64,
    /// Datagrams a second of which at most 1 % is lost, in thousands, by payload. `None` when even the lowest rate loses more.
    pub udp_small: Option<f64>,
    pub udp_large: Option<f64>,
    /// Round trips, in microseconds.
    pub ping: f64,
    pub udp_trip: f64,
    /// A connection, a request and its answer, in microseconds.
    pub request: f64,
    /// Seconds of processor time of the tunnel's programs for a gigabyte: of TCP, both ways, and of large datagrams.
    pub processor_tcp: f64,
    pub processor_udp: Option<f64>,
}

/// Measures it, from a thread in the client's namespace.
///
/// # Errors
/// When the system loses or delays too much to be measured.
pub fn all(running: &RunningIp, client: &Client, short: bool) -> Result<IpFigures> {
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            running.network.near()?.enter()?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(measure(running, client, short))
        });
        load.join()
            .map_err(|_| anyhow!("the thread of the load panicked"))?
    })
}

async fn measure(running: &RunningIp, client: &Client, short: bool) -> Result<IpFigures> {
    let amounts = if short { SHORT } else { LONG };
    ready(running, client).await?;

    let before = running.processor_time();
    let up = uploads(running, 1, amounts.bulk).await?;
    let down = downloads(running, 1, amounts.bulk).await?;
    let up_crowd = uploads(running, CROWD, amounts.bulk).await?;
    let down_crowd = downloads(running, CROWD, amounts.bulk).await?;
    let used = running.processor_time().saturating_sub(before);
    let bytes: u64 = [&up, &down, &up_crowd, &down_crowd]
        .iter()
        .map(|flow| flow.bytes)
        .sum();

    let udp_small = datagrams(running, SMALL, &amounts).await?;
    let udp_large = datagrams(running, LARGE, &amounts).await?;
    Ok(IpFigures {
        up: up.gigabits(),
        up_crowd: up_crowd.gigabits(),
        down: down.gigabits(),
        down_crowd: down_crowd.gigabits(),
        udp_small: udp_small.as_ref().map(|found| found.thousands),
        udp_large: udp_large.as_ref().map(|found| found.thousands),
        ping: pings(running, amounts.trips)?,
        udp_trip: exchanges(running, client, amounts.trips).await?,
        request: requests(running, client, amounts.trips).await?,
        processor_tcp: used.as_secs_f64() / (bytes as f64 / 1e9),
        processor_udp: udp_large.map(|found| found.processor),
    })
}

/// Waits until a request is answered through it.
async fn ready(running: &RunningIp, client: &Client) -> Result<()> {
    let begin = Instant::now();
    let entry = entry(running, Kind::Http);
    loop {
        let tried = tokio::time::timeout(Duration::from_secs(2), client.once(&entry)).await;
        match tried {
            Ok(Ok(())) => return Ok(()),
            _ if begin.elapsed() < READY_LIMIT => sleep(STEP).await,
            Ok(Err(error)) => return Err(error.context(running.logs())),
            Err(_) => return Err(anyhow!("no answer through it: {}", running.logs())),
        }
    }
}

fn entry(running: &RunningIp, kind: Kind) -> Entry {
    let address = match kind {
        Kind::Http => running.origin.http,
        Kind::Connect => running.origin.tls,
        Kind::Tcp => running.origin.tcp,
        Kind::Udp => running.origin.udp,
    };
    Entry {
        kind,
        address,
        asks: false,
    }
}

/// The bytes of a transfer, and its time.
struct Flowed {
    bytes: u64,
    time: Duration,
}

impl Flowed {
    fn gigabits(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e9 / self.time.as_secs_f64()
    }
}

async fn uploads(running: &RunningIp, flows: usize, time: Duration) -> Result<Flowed> {
    let mut set = JoinSet::new();
    for _ in 0..flows {
        set.spawn(upload(running.origin.tcp, time));
    }

    let mut bytes = 0;
    let mut longest = time;
    while let Some(done) = set.join_next().await {
        let (count, took) = done??;
        bytes += count;
        longest = longest.max(took);
    }
    Ok(Flowed {
        bytes,
        time: longest,
    })
}

async fn downloads(running: &RunningIp, flows: usize, time: Duration) -> Result<Flowed> {
    let entry = entry(running, Kind::Tcp);
    let mut open = Vec::new();
    for _ in 0..flows {
        open.push(Download::start(&entry).await?);
    }

    let begin = Instant::now();
    let mut set = JoinSet::new();
    for mut download in open {
        set.spawn(async move { download.read_for(time).await });
    }
    let mut bytes = 0;
    while let Some(done) = set.join_next().await {
        bytes += done??;
    }
    Ok(Flowed {
        bytes,
        time: begin.elapsed(),
    })
}

/// The highest rate of datagrams, and the processor time of a gigabyte of them.
struct Datagrams {
    thousands: f64,
    processor: f64,
}

async fn datagrams(
    running: &RunningIp,
    payload: usize,
    amounts: &IpAmounts,
) -> Result<Option<Datagrams>> {
    let address = running.origin.udp;
    let sender = Sender::several(address, address, 1).await?;
    let mut sender = sender.with_payload(payload);
    // A system that loses more at any rate has no figure; all others were measured.
    let Ok(found) = highest(&mut sender, amounts.rate, || running.processor_time()).await else {
        return Ok(None);
    };

    let used = found.used.1.saturating_sub(found.used.0);
    let gigabytes = found.received as f64 * payload as f64 / 1e9;
    Ok(Some(Datagrams {
        thousands: found.rate / 1e3,
        processor: used.as_secs_f64() / gigabytes,
    }))
}

fn pings(running: &RunningIp, count: usize) -> Result<f64> {
    let IpAddr::V4(host) = running.origin.udp.ip() else {
        return Err(anyhow!("the origin is pinged over IPv4"));
    };
    let mut socket = ping::open(host)?;
    let mut trips = Trips::new(count);
    for number in 0..WARM_UP + count {
        let trip = ping::round_trip(&mut socket, u16::try_from(number)?);
        trips.add(number, trip);
    }
    trips.median().context("ping")
}

/// Datagrams and their answers on one flow.
async fn exchanges(running: &RunningIp, client: &Client, count: usize) -> Result<f64> {
    let mut session = client.open(&entry(running, Kind::Udp)).await?;
    let mut trips = Trips::new(count);
    for number in 0..WARM_UP + count {
        let begin = Instant::now();
        let exchanged = session.exchange().await;
        trips.add(number, exchanged.map(|()| begin.elapsed()));
    }
    trips.median().context("datagrams and their answers")
}

/// A new connection for each request.
async fn requests(running: &RunningIp, client: &Client, count: usize) -> Result<f64> {
    let entry = entry(running, Kind::Http);
    let mut trips = Trips::new(count);
    for number in 0..WARM_UP + count {
        let begin = Instant::now();
        let answered = client.once(&entry).await;
        trips.add(number, answered.map(|()| begin.elapsed()));
    }
    trips.median().context("requests")
}

/// Times of round trips, of which a few may be lost, as packets may.
struct Trips {
    times: Vec<f64>,
    count: usize,
    lost: usize,
    why: Option<anyhow::Error>,
}

impl Trips {
    fn new(count: usize) -> Self {
        Self {
            times: Vec::with_capacity(count),
            count,
            lost: 0,
            why: None,
        }
    }

    /// The trip of this number, of which the first are not counted.
    fn add(&mut self, number: usize, trip: Result<Duration>) {
        match trip {
            Ok(time) if number >= WARM_UP => self.times.push(time.as_secs_f64() * 1e6),
            Ok(_) => {}
            Err(error) => {
                self.lost += 1;
                self.why = Some(error);
            }
        }
    }

    /// In microseconds.
    fn median(self) -> Result<f64> {
        if self.lost * LOST_ONE_IN > self.count {
            let error = self.why.unwrap_or_else(|| anyhow!("no reason is known"));
            return Err(error.context(format!("{} of {} were lost", self.lost, self.count)));
        }
        Ok(median(&self.times))
    }
}
