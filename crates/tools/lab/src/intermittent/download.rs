//! One download over a network of its own.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::bound::{self, LinkChain, Order, SLOT};
use super::network::NodeRow;
use super::results::{SecondFetch, TimedDownload};
use super::{Carriage, Downloader, LINKS, MEGABYTE, Protection, RATE, server};

/// Slots after the beginning of the links in which downloads begin: the nodes have started by then. Seeds differ in the last ones.
const FIRST_SLOT: u64 = 6;

/// Up to which share of a slot a download may begin: a client that takes some milliseconds to start would miss the slot.
const LATEST: f64 = 0.7;

/// The share of a slot after which a download begins that follows another one.
const EARLY: f64 = 0.1;

/// How long it takes to lay a network and start its nodes.
const LAYING: Duration = Duration::from_secs(2);

/// Attempts at a network whose nodes are ready in time.
const TRIES: usize = 5;

/// The share of the bound of a whole download after which a client leaves it to another one.
const LEFT: f64 = 0.5;

/// One fetch of a client.
#[derive(Clone, Copy)]
struct Fetch<'a> {
    file: &'a Path,
    /// The path of the URL. Each names the same content.
    path: &'a str,
    limit: Duration,
}

/// The state that simultaneous downloads share.
pub(super) struct AtOnce {
    /// When their links begin.
    start: Instant,
    /// One network is laid after the other: none has begun by then that this could disturb.
    laying: Mutex<()>,
}

impl AtOnce {
    /// So many, from now on.
    pub(super) fn new(downloads: usize) -> Self {
        // The first slots are enough for one.
        let others = downloads.saturating_sub(1) as u32;
        Self {
            start: Instant::now() + LAYING * others,
            laying: Mutex::new(()),
        }
    }
}

/// A download: its size, its way, and its moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlannedDownload {
    /// In which order links are up.
    pub order: Order,
    /// The seed of a random order and of the moment.
    pub seed: u64,
    /// Bytes of content.
    pub bytes: usize,
    /// Who can read it.
    pub protection: Protection,
    /// The client.
    pub client: Downloader,
    /// How it passes.
    pub way: Carriage,
}

impl fmt::Display for PlannedDownload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            order,
            seed,
            bytes,
            protection,
            client,
            way,
        } = self;
        let megabytes = bytes / MEGABYTE;
        write!(
            f,
            "{order} {seed}: {megabytes} MB, {protection}, {client}, {way}"
        )
    }
}

impl PlannedDownload {
    /// Makes it.
    ///
    /// # Errors
    /// The network cannot be laid, or the content that came in custody is wrong.
    pub(super) fn measure(
        self,
        hermes: &Path,
        limit: Duration,
        at_once: &AtOnce,
    ) -> Result<TimedDownload> {
        let moment = self.moment();
        let mut start = at_once.start;
        for _ in 0..TRIES {
            let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
            let laying = at_once.laying.lock();
            let row = NodeRow::lay(hermes, folder.path(), self, start);
            drop(laying);
            let row = row.with_context(|| self.to_string())?;
            let Some(left) = (start + moment).checked_duration_since(Instant::now()) else {
                start = Instant::now();
                continue;
            };
            std::thread::sleep(left);

            let begin = start.elapsed();
            let file = row.folder.join("download");
            let whole = Fetch {
                file: &file,
                path: "/file",
                limit,
            };
            let taken = self.run(&row, whole)?;
            let (again, resumed) = match self.is_cached() && taken.is_some() {
                true => (
                    Some(self.again(&row, whole)?),
                    Some(self.resumed(&row, start, limit)?),
                ),
                false => (None, None),
            };
            return Ok(TimedDownload {
                download: self,
                begin: begin.as_secs_f64(),
                seconds: taken.map(|taken| taken.as_secs_f64()),
                bound: self.bound(begin).as_secs_f64(),
                again,
                resumed,
            });
        }
        bail!("{self}: the nodes were never ready within {moment:?}")
    }

    /// Which link is up in each slot.
    pub(super) fn turns(self) -> Arc<[usize]> {
        self.order.turns(LINKS, self.seed)
    }

    /// How long the links are needed at least, from their beginning on.
    pub(super) fn least(self) -> Duration {
        self.moment() + self.bound(self.moment())
    }

    fn bound(self, begin: Duration) -> Duration {
        let round_trips = self.protection.round_trips();
        let chain = LinkChain {
            turns: &self.turns(),
            links: LINKS,
            rate: RATE,
        };
        bound::bound(chain, self.bytes, round_trips, begin)
    }

    /// When it begins, after the links did: the same for all that are compared.
    fn moment(self) -> Duration {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let slot = FIRST_SLOT + random.u64(..LINKS as u64);
        SLOT.mul_f64(slot as f64 + random.f64() * LATEST)
    }

    /// Whether the nodes on its way store its responses: they can read them, and take them into custody.
    fn is_cached(self) -> bool {
        self.way.is_custody() && self.protection == Protection::Hop
    }

    /// The same once more: the first node has it, so that no link is needed.
    fn again(self, row: &NodeRow, first: Fetch<'_>) -> Result<SecondFetch> {
        fs::remove_file(first.file)?;
        let taken = self.run(row, first)?;
        Ok(SecondFetch {
            seconds: taken.map(|taken| taken.as_secs_f64()),
            bound: 0.0,
        })
    }

    /// One whose client leaves in the middle, and that another goes on with: both together have the time of one.
    fn resumed(self, row: &NodeRow, start: Instant, limit: Duration) -> Result<SecondFetch> {
        // At the beginning of a slot: near its end, a client that takes some milliseconds to start would miss it.
        let slots = start.elapsed().div_duration_f64(SLOT).ceil();
        let moment = start + SLOT.mul_f64(slots + EARLY);
        std::thread::sleep(moment.saturating_duration_since(Instant::now()));
        let begin = start.elapsed();
        let bound = self.bound(begin);
        let file = row.folder.join("resumed");
        let fetch = |limit| Fetch {
            file: &file,
            path: "/resumed",
            limit,
        };
        self.run(row, fetch(bound.mul_f64(LEFT)))?;
        let taken = self.run(row, fetch(limit))?;
        let taken = taken.map(|_| start.elapsed() - begin);
        Ok(SecondFetch {
            seconds: taken.map(|taken| taken.as_secs_f64()),
            bound: bound.as_secs_f64(),
        })
    }

    /// How long it takes, if it is whole.
    fn run(self, row: &NodeRow, fetch: Fetch<'_>) -> Result<Option<Duration>> {
        let Fetch { file, limit, .. } = fetch;
        let words = self.words(row, fetch)?;
        let limit = limit.as_secs_f64().to_string();
        let begun = Instant::now();
        let mut command = row.client()?.command("timeout");
        let output = command.arg(limit).args(&words).output();
        let output = output.with_context(|| words[0].clone())?;
        let taken = begun.elapsed();

        // A client that fails says so on standard error; only the arrived content counts.
        if !output.status.success() || !file.exists() {
            return Ok(None);
        }
        let whole = fs::read(file)? == server::content(self.bytes);
        ensure!(
            whole || !self.way.is_custody(),
            "the download in custody ended well and has wrong bytes"
        );
        Ok(whole.then_some(taken))
    }

    /// The command of the client.
    fn words(self, row: &NodeRow, fetch: Fetch<'_>) -> Result<Vec<String>> {
        let text = |path: &Path| path.to_str().map(str::to_owned).context("a name in UTF-8");
        let scheme = match self.protection {
            Protection::Hop => "http",
            Protection::EndToEnd => "https",
        };
        let mut words: Vec<String> = match self.client {
            Downloader::Curl => ["curl", "-sS", "-C", "-", "--cacert"]
                .map(str::to_owned)
                .to_vec(),
            Downloader::Wget => [
                "wget",
                "-nv",
                "--tries=10",
                "--waitretry=20",
                "--timeout=60",
                "--continue",
                "--retry-connrefused",
                "--ca-certificate",
            ]
            .map(str::to_owned)
            .to_vec(),
        };
        words.push(text(&row.authority())?);
        words.push(match self.client {
            Downloader::Curl => "-o".to_owned(),
            Downloader::Wget => "-O".to_owned(),
        });
        words.push(text(fetch.file)?);
        words.extend(self.direction(row, scheme));

        let origin = row.origin(self.way, self.protection);
        words.push(format!("{scheme}://{origin}{}", fetch.path));
        Ok(words)
    }

    /// How the client is told where to go.
    fn direction(self, row: &NodeRow, scheme: &str) -> Vec<String> {
        match (self.client, row.proxy(self.way)) {
            (Downloader::Curl, Some(proxy)) => vec!["-x".to_owned(), proxy],
            (Downloader::Wget, Some(proxy)) => {
                let proxy = format!("{scheme}_proxy={proxy}");
                ["-e", "use_proxy=yes", "-e", &proxy]
                    .map(str::to_owned)
                    .to_vec()
            }
            // The origin is named by its address, which its certificate does not have.
            (Downloader::Curl, None) => vec!["-k".to_owned()],
            (Downloader::Wget, None) => vec!["--no-check-certificate".to_owned()],
        }
    }
}
