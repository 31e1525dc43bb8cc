//! Requests for many objects, as many ask for a few and few for many; and for one object, which is always a hit.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::systems::{CacheSystem, RunningCache};
use crate::report::quantile;

/// Objects: five times as many bytes as the caches have.
const OBJECTS: usize = 8_000;

/// The exponent of Zipf's law: requests of the web are between 0.6 and 1.
const SKEW: f64 = 0.8;

/// Clients at once.
const CLIENTS: usize = 8;

/// Sizes of the object that is always a hit.
const SMALL: usize = 1 << 10;
const LARGE: usize = 100 << 10;

/// How many requests are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct TraceCounts {
    requests: usize,
    hits: usize,
    seed: u64,
}

impl TraceCounts {
    /// Fewer in a short run.
    pub(super) fn new(is_short: bool, seed: u64) -> Self {
        let count = if is_short { 2_000 } else { 40_000 };
        Self {
            requests: count,
            hits: count,
            seed,
        }
    }
}

/// Figures of a cache.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct TraceFigures {
    /// Percent of the requests of the trace, and of their bytes, that the origin did not see.
    pub hit_percent: f64,
    pub byte_hit_percent: f64,
    pub small: HitFigures,
    pub large: HitFigures,
}

/// Hits of one object.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct HitFigures {
    /// Microseconds of the processor for each.
    pub processor_us: f64,
    /// Microseconds until it was there, with one client.
    pub median_us: f64,
    pub p99_us: f64,
}

/// Measures a cache.
///
/// # Errors
/// It does not start or answer.
pub(super) async fn measure(
    system: CacheSystem,
    hermes: &std::path::Path,
    counts: TraceCounts,
) -> Result<TraceFigures> {
    let sized = SizedOrigin::default();
    let origin = sized.listen().await?;
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    super::open_to_all(folder.path())?;
    let cache = RunningCache::start(system, hermes, folder.path(), origin).await?;
    let mut figures = TraceFigures {
        small: hits(&cache, SMALL, counts.hits).await?,
        large: hits(&cache, LARGE, counts.hits / 4).await?,
        ..TraceFigures::default()
    };
    replay(&cache, &sized, counts, &mut figures).await?;
    Ok(figures)
}

/// An origin whose objects have the length that their path says, and stay fresh. It counts the requests that reach it, and the bytes that it gives.
#[derive(Clone, Default)]
struct SizedOrigin {
    requests: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
}

impl SizedOrigin {
    async fn listen(&self) -> Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let origin = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let origin = origin.clone();
                tokio::spawn(async move { origin.serve(stream).await });
            }
        });
        Ok(address)
    }

    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut unread = Vec::new();
        loop {
            let head = head(&mut stream, &mut unread).await.ok()?;
            let path = head.split(' ').nth(1)?;
            let length: usize = path.rsplit('/').next()?.parse().ok()?;
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(length, Ordering::Relaxed);
            let mut answer = format!(
                "HTTP/1.1 200 OK\r\nDate: {}\r\nCache-Control: public, max-age=3600\r\nETag: \"{path}\"\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n",
                httpdate::fmt_http_date(SystemTime::now())
            )
            .into_bytes();
            answer.resize(answer.len() + length, b'x');
            stream.write_all(&answer).await.ok()?;
        }
    }
}

async fn head(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Result<String> {
    loop {
        let end = unread.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let rest = unread.split_off(end + 4);
            return Ok(String::from_utf8(std::mem::replace(unread, rest))?);
        }
        anyhow::ensure!(stream.read_buf(unread).await? > 0, "the connection ended");
    }
}

/// A connection that asks for one object after the other.
struct KeptClient {
    stream: TcpStream,
    address: SocketAddr,
    unread: Vec<u8>,
}

impl KeptClient {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            address,
            unread: Vec::new(),
        })
    }

    /// Asks for a path of this length.
    async fn get(&mut self, path: &str, length: usize) -> Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        self.stream.write_all(request.as_bytes()).await?;
        let head = head(&mut self.stream, &mut self.unread).await?;
        anyhow::ensure!(head.contains(" 200 "), "{head}");
        anyhow::ensure!(
            !head.to_ascii_lowercase().contains("chunked"),
            "chunked: {head}"
        );
        while self.unread.len() < length {
            anyhow::ensure!(self.stream.read_buf(&mut self.unread).await? > 0, "cut off");
        }
        self.unread.drain(..length);
        Ok(())
    }
}

/// Asks for one object again and again.
async fn hits(cache: &RunningCache, length: usize, count: usize) -> Result<HitFigures> {
    let path = format!("/hot/{length}");
    let mut client = KeptClient::connect(cache.address).await?;
    for _ in 0..100 {
        client.get(&path, length).await?;
    }
    let mut times = Vec::with_capacity(count);
    for _ in 0..count / 4 {
        let began = Instant::now();
        client.get(&path, length).await?;
        times.push(began.elapsed());
    }

    let before = cache.process.processor_time();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let address = cache.address;
        let path = path.clone();
        clients.spawn(async move {
            let mut client = KeptClient::connect(address).await?;
            for _ in 0..count / CLIENTS {
                client.get(&path, length).await?;
            }
            anyhow::Ok(())
        });
    }
    for done in clients.join_all().await {
        done?;
    }
    let used = cache.process.processor_time() - before;

    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let times: Vec<f64> = times.into_iter().map(micros).collect();
    Ok(HitFigures {
        processor_us: micros(used) / count as f64,
        median_us: quantile(&times, 0.5),
        p99_us: quantile(&times, 0.99),
    })
}

/// Asks for objects by Zipf's law.
async fn replay(
    cache: &RunningCache,
    origin: &SizedOrigin,
    counts: TraceCounts,
    figures: &mut TraceFigures,
) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(counts.seed);
    // From 1 KiB to 1 MiB, small ones more often.
    let sizes: Vec<usize> = (0..OBJECTS)
        .map(|_| (1024.0 * 1024_f64.powf(random.f64().powi(2))) as usize)
        .collect();
    let mut sums = Vec::with_capacity(OBJECTS);
    let mut sum = 0.0;
    for rank in 1..=OBJECTS {
        sum += (rank as f64).powf(-SKEW);
        sums.push(sum);
    }

    let mut client = KeptClient::connect(cache.address).await?;
    let mut bytes = 0_usize;
    let requests_before = origin.requests.load(Ordering::Relaxed);
    let bytes_before = origin.bytes.load(Ordering::Relaxed);
    for _ in 0..counts.requests {
        let at = random.f64() * sum;
        let object = sums.partition_point(|sum| *sum < at).min(OBJECTS - 1);
        let size = sizes[object];
        let path = format!("/{object}/{size}");
        client.get(&path, size).await.context(path)?;
        bytes += size;
    }
    let missed = origin.requests.load(Ordering::Relaxed) - requests_before;
    let missed_bytes = origin.bytes.load(Ordering::Relaxed) - bytes_before;
    let percent = |missed: usize, all: usize| 100.0 * (1.0 - missed as f64 / all.max(1) as f64);
    figures.hit_percent = percent(missed, counts.requests);
    figures.byte_hit_percent = percent(missed_bytes, bytes);
    Ok(())
}
