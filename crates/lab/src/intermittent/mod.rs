//! `hermes-lab intermittent`: downloads over three links of which one is up for a second at a time, by unmodified clients.
//!
//! Each case has a network of its own: four nodes of Hermes in a row, a client beside the first, an origin beside the last. The
//! same network carries requests in custody, over connections from node to node, and directly by IP. Beside the times stands
//! the [`bound`]: what no protocol can be below.

pub mod bound;
mod network;
mod plot;
mod results;
mod server;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::progress::Progress;
use bound::Order;
use network::NodeRow;
use results::{TimedDownload, TimedDownloads};

/// Links in a row.
const LINKS: usize = 3;

/// 10 Mbit/s, in bytes a second.
const RATE: f64 = 1.25e6;

/// Up to which share of a slot a download may begin.
const LATEST: f64 = 0.7;

/// A megabyte, as the sizes of downloads are counted.
const MEGABYTE: usize = 1 << 20;

/// Options of the command. It needs root, curl and wget.
#[derive(Debug, clap::Args)]
pub struct IntermittentArguments {
    /// One order, one seed, one megabyte, curl and custody alone.
    #[arg(long)]
    short: bool,
    /// Seeds of each order.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only these orders of links.
    #[arg(long, value_delimiter = ',', default_values_t = Order::ALL)]
    orders: Vec<Order>,
    /// Only these ways.
    #[arg(long, value_delimiter = ',', default_values_t = Carriage::ALL)]
    ways: Vec<Carriage>,
    /// Only these clients.
    #[arg(long, value_delimiter = ',', default_values_t = Downloader::ALL)]
    clients: Vec<Downloader>,
    /// Megabytes of a download.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 5])]
    megabytes: Vec<usize>,
    /// How long a download may take.
    #[arg(long, default_value = "150s", value_parser = humantime::parse_duration)]
    limit: Duration,
    /// How much more than the bound a download in custody may take.
    #[arg(long, default_value_t = 0.05)]
    margin: f64,
    /// Write the results to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draw them into this file, as SVG.
    #[arg(long)]
    picture: Option<PathBuf>,
    /// The build of Hermes that is measured.
    #[arg(long)]
    hermes: PathBuf,
}

/// How requests pass from node to node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Carriage {
    /// In custody.
    Custody,
    /// In custody, in a tunnel whose ends speak TLS.
    Tunnel,
    /// Over a connection of TCP between each two.
    Tcp,
    /// As that, where TCP waits no longer than a second before it tries again.
    Impatient,
    /// Over a connection of QUIC between each two.
    Quic,
    /// By IP, without nodes.
    Direct,
}

/// What downloads.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Downloader {
    /// curl, which tries once.
    Curl,
    /// wget, as the paper's: it tries ten times, each for a minute of silence.
    Wget,
}

impl Carriage {
    const ALL: [Self; 6] = [
        Self::Custody,
        Self::Tunnel,
        Self::Tcp,
        Self::Impatient,
        Self::Quic,
        Self::Direct,
    ];

    /// Whether it is held to the bound.
    fn is_custody(self) -> bool {
        matches!(self, Self::Custody | Self::Tunnel)
    }

    /// Round trips of the whole path before the request can be read: that of TLS 1.3, where the client is told at once that its tunnel
    /// is open.
    fn round_trips(self) -> usize {
        usize::from(self == Self::Tunnel)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Custody => "custody",
            Self::Tunnel => "tunnel",
            Self::Tcp => "tcp",
            Self::Impatient => "impatient",
            Self::Quic => "quic",
            Self::Direct => "direct",
        }
    }
}

impl std::fmt::Display for Carriage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Downloader {
    const ALL: [Self; 2] = [Self::Curl, Self::Wget];
}

impl std::fmt::Display for Downloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Curl => "curl",
            Self::Wget => "wget",
        })
    }
}

/// Runs the command.
///
/// # Errors
/// When a network cannot be laid, the results cannot be written, or a download in custody was not whole or took longer than
/// the bound and the margin.
pub fn run(arguments: &IntermittentArguments) -> Result<()> {
    let plan = Plan::of(arguments);
    let mut progress = Progress::new(plan.downloads());
    let mut results = TimedDownloads::default();
    for order in &plan.orders {
        for seed in plan.seeds.clone() {
            measure(&plan, (*order, seed), &mut progress, &mut results)?;
        }
    }

    progress.end();
    if let Some(file) = &arguments.json {
        results.save(file)?;
    }
    if let Some(file) = &arguments.picture {
        plot::save(&results, file)?;
    }
    results.show()?;
    results.verdict(arguments.margin)
}

/// What is measured.
struct Plan {
    orders: Vec<Order>,
    seeds: std::ops::Range<u64>,
    ways: Vec<Carriage>,
    clients: Vec<Downloader>,
    sizes: Vec<usize>,
    limit: Duration,
    hermes: PathBuf,
}

impl Plan {
    fn of(arguments: &IntermittentArguments) -> Self {
        let sizes = arguments.megabytes.iter().map(|count| count * MEGABYTE);
        let whole = Self {
            orders: arguments.orders.clone(),
            seeds: arguments.seed..arguments.seed + arguments.seeds,
            ways: arguments.ways.clone(),
            clients: arguments.clients.clone(),
            sizes: sizes.collect(),
            limit: arguments.limit,
            hermes: arguments.hermes.clone(),
        };
        if !arguments.short {
            return whole;
        }

        Self {
            orders: vec![Order::Cyclic],
            seeds: arguments.seed..arguments.seed + 1,
            ways: vec![Carriage::Custody],
            clients: vec![Downloader::Curl],
            sizes: vec![MEGABYTE],
            ..whole
        }
    }

    fn downloads(&self) -> usize {
        let each = self.ways.len() * self.clients.len() * self.sizes.len();
        self.orders.len() * self.seeds.clone().count() * each
    }
}

/// All downloads over one network.
fn measure(
    plan: &Plan,
    (order, seed): (Order, u64),
    progress: &mut Progress,
    results: &mut TimedDownloads,
) -> Result<()> {
    let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
    let turns = order.turns(LINKS, seed);
    // How long TCP waits is a setting of the whole network.
    let (impatient, patient): (Vec<_>, Vec<_>) = plan
        .ways
        .iter()
        .partition(|way| **way == Carriage::Impatient);
    for ways in [patient, impatient] {
        if !ways.is_empty() {
            let is_impatient = ways == [Carriage::Impatient];
            let row = NodeRow::lay(&plan.hermes, folder.path(), &turns, seed, is_impatient)
                .with_context(|| format!("{order}, seed {seed}"))?;
            measure_row(
                plan,
                (order, seed),
                (&row, &ways),
                &turns,
                (progress, results),
            )?;
        }
    }
    Ok(())
}

/// Those over one network that go these ways.
fn measure_row(
    plan: &Plan,
    (order, seed): (Order, u64),
    (row, ways): (&NodeRow, &[Carriage]),
    turns: &[usize],
    (progress, results): (&mut Progress, &mut TimedDownloads),
) -> Result<()> {
    for size in &plan.sizes {
        for way in ways {
            for client in &plan.clients {
                progress.step(&format!("{order} {seed}: {way}, {client}"));
                let begin = await_moment(row, seed);
                let taken = download(plan, row, (*way, *client), *size)?;
                results.downloads.push(TimedDownload {
                    order,
                    seed,
                    way: *way,
                    client: *client,
                    bytes: *size,
                    begin: begin.as_secs_f64(),
                    seconds: taken.map(|taken| taken.as_secs_f64()),
                    bound: bound::bound((turns, LINKS, RATE), *size, way.round_trips(), begin)
                        .as_secs_f64(),
                });
            }
        }
    }
    Ok(())
}

/// Waits for a moment within a slot that the seed chooses, but not near its end: a client that takes some milliseconds to start would
/// miss the slot. How long that is after the links began.
fn await_moment(row: &NodeRow, seed: u64) -> Duration {
    let share = fastrand::Rng::with_seed(seed).f64() * LATEST;
    let into = bound::SLOT.mul_f64(share);
    let since = row.start.elapsed();
    let slot = since.as_secs_f64() / bound::SLOT.as_secs_f64();
    let moment = bound::SLOT.mul_f64(slot.ceil()) + into;
    std::thread::sleep(moment.saturating_sub(since));
    row.start.elapsed()
}

/// One download: how long it took, if it was whole.
fn download(
    plan: &Plan,
    row: &NodeRow,
    (way, client): (Carriage, Downloader),
    size: usize,
) -> Result<Option<Duration>> {
    let file = row.folder.join("download");
    if file.exists() {
        fs::remove_file(&file)?;
    }
    let words = words(row, (way, client), size, &file)?;
    let limit = plan.limit.as_secs_f64().to_string();
    let begun = Instant::now();
    let mut command = row.client()?.command("timeout");
    let output = command.arg(limit).args(&words).output();
    let output = output.with_context(|| words[0].clone())?;
    let taken = begun.elapsed();

    // A client that fails has its reasons on standard error; what counts is what has arrived.
    if !output.status.success() || !file.exists() {
        return Ok(None);
    }
    let whole = fs::read(&file)? == server::content(size);
    ensure!(
        whole || !way.is_custody(),
        "the download in custody ended well and has wrong bytes"
    );
    Ok(whole.then_some(taken))
}

/// What is run to download.
fn words(
    row: &NodeRow,
    (way, client): (Carriage, Downloader),
    size: usize,
    file: &Path,
) -> Result<Vec<String>> {
    let file = file.to_str().context("the folder has no name in UTF-8")?;
    let is_secure = way == Carriage::Tunnel;
    let scheme = if is_secure { "https" } else { "http" };
    let url = format!("{scheme}://{}/{size}", row.origin(way));
    let proxy = row.proxy(way);
    let authority = row.authority();
    let authority = authority.to_str().context("the folder has no name")?;
    let mut words: Vec<&str> = match client {
        Downloader::Curl => vec!["curl", "-sS", "--cacert", authority, "-o", file],
        Downloader::Wget => vec![
            "wget",
            "-nv",
            "--ca-certificate",
            authority,
            "--tries=10",
            "--waitretry=20",
            "--timeout=60",
            "--continue",
            "--retry-connrefused",
            "-O",
            file,
        ],
    };

    let use_proxy = proxy
        .as_ref()
        .map(|proxy| format!("{scheme}_proxy={proxy}"));
    match (client, &proxy, &use_proxy) {
        (Downloader::Curl, Some(proxy), _) => words.extend(["-x", proxy]),
        (Downloader::Wget, _, Some(use_proxy)) => {
            words.extend(["-e", "use_proxy=yes", "-e", use_proxy]);
        }
        _ => {}
    }
    words.push(&url);
    Ok(words.into_iter().map(str::to_owned).collect())
}
