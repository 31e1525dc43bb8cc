//! `hermes-lab intermittent`: downloads over three links of which one is up for a second at a time, by unmodified clients.
//!
//! Each download has a network of its own: four nodes of Hermes in a row, a client beside the first, an origin beside the last. Those
//! that are compared (in custody, over connections from node to node, directly by IP) begin at the same moment of the same schedule.
//! Beside the times stands the [`bound`], which no protocol can go below.

pub mod bound;
mod download;
mod network;
mod page;
mod plot;
mod results;
mod server;

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::progress::Progress;
use bound::Order;
use download::{AtOnce, PlannedDownload};
use results::{TimedDownload, TimedDownloads};

/// Links in a row.
const LINKS: usize = 3;

/// 10 Mbit/s, in bytes a second.
const RATE: f64 = 1.25e6;

/// A megabyte, as the sizes of downloads are counted.
const MEGABYTE: usize = 1 << 20;

/// Options of the command. It needs root, curl and wget.
#[derive(Debug, clap::Args)]
pub struct IntermittentArguments {
    /// One order, one seed, one megabyte, curl and custody alone, without end-to-end TLS.
    #[arg(long)]
    short: bool,
    #[command(flatten)]
    seeds: Seeds,
    /// Only these orders of links.
    #[arg(long, value_delimiter = ',', default_values_t = Order::ALL)]
    orders: Vec<Order>,
    /// Only these ways.
    #[arg(long, value_delimiter = ',', default_values_t = Carriage::ALL)]
    ways: Vec<Carriage>,
    /// Only these.
    #[arg(long, value_delimiter = ',', default_values_t = Protection::ALL)]
    protections: Vec<Protection>,
    /// Only these clients.
    #[arg(long, value_delimiter = ',', default_values_t = Downloader::ALL)]
    clients: Vec<Downloader>,
    /// Megabytes of a download.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 5])]
    megabytes: Vec<usize>,
    /// How long a download may take.
    #[arg(long, default_value = "150s", value_parser = humantime::parse_duration)]
    limit: Duration,
    /// Downloads at once, each over a network of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    parallel: u8,
    /// How much more than the bound a download in custody may take.
    #[arg(long, default_value_t = 0.05)]
    margin: f64,
    /// The build of Hermes that is measured.
    #[arg(long)]
    hermes: PathBuf,
    #[command(flatten)]
    files: ResultFiles,
}

/// The first seed of random orders and moments.
#[derive(Debug, clap::Args)]
struct Seeds {
    /// Seeds of each order.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Where results are left.
#[derive(Debug, clap::Args)]
struct ResultFiles {
    /// Write the results to this file. Downloads that it has of earlier runs stay, unless they were made again.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Draw them into this file, as SVG.
    #[arg(long)]
    picture: Option<PathBuf>,
    /// Write a page of them, with the picture's name if there is one.
    #[arg(long)]
    markdown: Option<PathBuf>,
}

/// How requests pass from node to node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Carriage {
    /// In custody.
    Custody,
    /// Over a connection of TCP between each two.
    Tcp,
    /// As that, where TCP waits no longer than a second before it tries again.
    Impatient,
    /// Over a connection of QUIC between each two.
    Quic,
    /// By IP, without nodes.
    Direct,
}

/// The parties that can read the content.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// Each node: from one to the next it is encrypted. By IP it is not.
    Hop,
    /// The client and the origin, which speak TLS, through a tunnel whose client is told at once that it is open.
    EndToEnd,
}

impl Protection {
    const ALL: [Self; 2] = [Self::Hop, Self::EndToEnd];

    /// Round trips of the whole path before the request can be read: that of TLS 1.3.
    fn round_trips(self) -> usize {
        usize::from(self == Self::EndToEnd)
    }
}

impl std::fmt::Display for Protection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Hop => "hop",
            Self::EndToEnd => "end-to-end",
        })
    }
}

/// The client.
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
    const ALL: [Self; 5] = [
        Self::Custody,
        Self::Tcp,
        Self::Impatient,
        Self::Quic,
        Self::Direct,
    ];

    /// Whether it is held to the bound.
    fn is_custody(self) -> bool {
        self == Self::Custody
    }

    fn name(self) -> &'static str {
        match self {
            Self::Custody => "custody",
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
    let mut downloads = downloads(arguments);
    // Those that are made at once take about as long. Those that are compared stay next to each other.
    downloads.sort_by_key(|one| one.least());
    let progress = Mutex::new(Progress::new(downloads.len()));
    let mut results = TimedDownloads::default();
    for some in downloads.chunks(arguments.parallel.into()) {
        let timed = measure_at_once(some, arguments, &progress)?;
        results.downloads.extend(timed);
    }

    if let Some(file) = &arguments.files.json {
        results.keep_earlier(file)?;
    }
    results.downloads.sort_by_key(|one| one.download);
    if let Some(file) = &arguments.files.json {
        crate::report::save(&results, file)?;
    }
    if let Some(file) = &arguments.files.picture {
        plot::save(&results, file)?;
    }
    if let Some(file) = &arguments.files.markdown {
        let picture = arguments.files.picture.as_deref();
        page::save(&results, arguments.margin, picture, file)?;
    }
    crate::options::show(&results.table().to_string())?;
    results.verdict(arguments.margin)
}

/// All downloads that are asked for; those that are compared are next to each other.
fn downloads(arguments: &IntermittentArguments) -> Vec<PlannedDownload> {
    let mut all = Vec::new();
    if arguments.short {
        all.push(PlannedDownload {
            order: Order::Cyclic,
            seed: arguments.seeds.seed,
            bytes: MEGABYTE,
            protection: Protection::Hop,
            client: Downloader::Curl,
            way: Carriage::Custody,
        });
        return all;
    }

    let Seeds { seeds, seed } = &arguments.seeds;
    for order in &arguments.orders {
        for seed in *seed..seed + seeds {
            for megabytes in &arguments.megabytes {
                all.extend(each(arguments, *order, seed, megabytes * MEGABYTE));
            }
        }
    }
    all
}

/// Those that differ in how they pass, and for whom.
fn each(
    arguments: &IntermittentArguments,
    order: Order,
    seed: u64,
    bytes: usize,
) -> Vec<PlannedDownload> {
    let mut all = Vec::new();
    for protection in &arguments.protections {
        for client in &arguments.clients {
            for way in &arguments.ways {
                all.push(PlannedDownload {
                    order,
                    seed,
                    bytes,
                    protection: *protection,
                    client: *client,
                    way: *way,
                });
            }
        }
    }
    all
}

/// Makes these downloads, each over a network of its own.
fn measure_at_once(
    downloads: &[PlannedDownload],
    arguments: &IntermittentArguments,
    progress: &Mutex<Progress>,
) -> Result<Vec<TimedDownload>> {
    let at_once = AtOnce::new(downloads.len());
    let measure = |one: PlannedDownload| {
        progress.lock().step(&one.to_string());
        one.measure(&arguments.hermes, arguments.limit, &at_once)
    };
    thread::scope(|threads| {
        let measured = downloads.iter();
        let measured = measured.map(|one| threads.spawn(|| measure(*one)));
        let measured: Vec<_> = measured.collect();
        let measured = measured.into_iter().map(|one| match one.join() {
            Ok(timed) => timed,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        measured.collect()
    })
}
