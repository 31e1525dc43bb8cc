//! What was measured: as a table, as JSON, and whether it is good enough.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde::{Deserialize, Serialize};

use super::bound::Order;
use super::{Carriage, Downloader, MEGABYTE};

/// What the paper's overlay took for 1 and 5 megabytes over links in turn, in seconds (Table VI, first downloads).
const PAPER: [(usize, f64); 2] = [(1, 115.82), (5, 601.49)];

/// As that, with CONNECT, of which it lost a fifth and two thirds.
const PAPER_CONNECT: [(usize, f64); 2] = [(1, 101.7), (5, 567.0)];

/// One download.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TimedDownload {
    /// In which order links were up.
    pub order: Order,
    /// What a random order was drawn from.
    pub seed: u64,
    /// How it passed.
    pub way: Carriage,
    /// What downloaded.
    pub client: Downloader,
    /// Bytes of content.
    pub bytes: usize,
    /// When it began, in seconds after the links did.
    pub begin: f64,
    /// How long it took; none if it was not whole within the limit.
    pub seconds: Option<f64>,
    /// What no protocol can be below, in seconds.
    pub bound: f64,
}

/// All of them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TimedDownloads {
    /// In the order in which they were made.
    pub downloads: Vec<TimedDownload>,
}

/// Downloads that differ in their seed only.
pub(super) type Group<'a> = BTreeMap<(Order, usize, Carriage, Downloader), Vec<&'a TimedDownload>>;

impl TimedDownloads {
    /// Writes them to a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(file, text).with_context(|| file.display().to_string())
    }

    /// Prints them as a table.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn show(&self) -> Result<()> {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        table.set_header([
            "links",
            "MB",
            "way",
            "client",
            "whole",
            "mean s",
            "bound s",
            "of the bound",
            "paper s",
        ]);
        for ((order, bytes, way, client), downloads) in self.groups() {
            let whole: Vec<_> = downloads
                .iter()
                .filter(|one| one.seconds.is_some())
                .collect();
            let seconds = mean(whole.iter().filter_map(|one| one.seconds));
            let bound = mean(downloads.iter().map(|one| one.bound));
            let worst = whole.iter().filter_map(|one| one.share());
            let worst = worst.reduce(f64::max);
            let megabytes = bytes / MEGABYTE;
            let text =
                |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
            table.add_row([
                order.to_string(),
                megabytes.to_string(),
                way.to_string(),
                client.to_string(),
                format!("{} of {}", whole.len(), downloads.len()),
                text(seconds),
                text(bound),
                worst.map_or("-".to_owned(), |worst| format!("{:.1} %", worst * 100.0)),
                text(paper(order, megabytes, way)),
            ]);
        }
        writeln!(std::io::stdout().lock(), "{table}").context("standard output")
    }

    /// Whether all downloads in custody were whole and took no longer than the bound and the margin.
    ///
    /// # Errors
    /// They were not.
    pub fn verdict(&self, margin: f64) -> Result<()> {
        let custody = self.downloads.iter().filter(|one| one.way.is_custody());
        let late = custody.filter(|one| one.share().is_none_or(|share| share > 1.0 + margin));
        let late: Vec<_> = late.map(|one| format!("{one:?}")).collect();
        ensure!(
            late.is_empty(),
            "{} downloads in custody took longer than the bound and {:.0} %:\n{}",
            late.len(),
            margin * 100.0,
            late.join("\n")
        );
        Ok(())
    }

    /// By what they differ in.
    pub(super) fn groups(&self) -> Group<'_> {
        let mut groups = Group::new();
        for one in &self.downloads {
            let key = (one.order, one.bytes, one.way, one.client);
            groups.entry(key).or_default().push(one);
        }
        groups
    }
}

impl TimedDownload {
    /// The time as a share of the bound.
    fn share(&self) -> Option<f64> {
        self.seconds.map(|seconds| seconds / self.bound)
    }
}

/// What the paper's overlay took, in seconds, where it was measured.
pub(super) fn paper(order: Order, megabytes: usize, way: Carriage) -> Option<f64> {
    let table = match (order, way) {
        (Order::Cyclic, Carriage::Custody) => PAPER,
        (Order::Cyclic, Carriage::Tunnel) => PAPER_CONNECT,
        _ => return None,
    };
    let found = table.iter().find(|(size, _)| *size == megabytes);
    found.map(|(_, seconds)| *seconds)
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<_> = values.collect();
    let count = values.len() as f64;
    (count > 0.0).then(|| values.iter().sum::<f64>() / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn download(way: Carriage, seconds: Option<f64>) -> TimedDownloads {
        TimedDownloads {
            downloads: vec![TimedDownload {
                order: Order::Cyclic,
                seed: 0,
                way,
                client: Downloader::Curl,
                bytes: MEGABYTE,
                begin: 0.0,
                seconds,
                bound: 10.0,
            }],
        }
    }

    #[test]
    fn custody_must_be_whole_and_near_the_bound() {
        assert!(
            download(Carriage::Custody, Some(10.4))
                .verdict(0.05)
                .is_ok()
        );
        assert!(
            download(Carriage::Custody, Some(10.6))
                .verdict(0.05)
                .is_err()
        );
        assert!(download(Carriage::Custody, None).verdict(0.05).is_err());
        assert!(download(Carriage::Tcp, None).verdict(0.05).is_ok());
    }
}
