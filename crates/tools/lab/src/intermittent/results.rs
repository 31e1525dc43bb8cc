//! The results: as a table, as JSON, and the verdict.

use std::collections::{BTreeMap, BTreeSet};

use std::path::Path;

use anyhow::{Result, ensure};
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde::{Deserialize, Serialize};

use super::bound::Order;
use super::download::PlannedDownload;
use super::{Carriage, Downloader, MEGABYTE, Protection};
use crate::report::load;

/// Seconds of the paper's overlay for 1 and 5 megabytes over links in turn (Table VI, first downloads).
const PAPER: [(usize, f64); 2] = [(1, 115.82), (5, 601.49)];

/// The same of its second downloads.
const PAPER_SECOND: [(usize, f64); 2] = [(1, 133.69), (5, 618.75)];

/// Seconds that a fetch may take which needs no link: the client starts, and the first node has all of it.
const AT_ONCE: f64 = 0.5;

/// The same with CONNECT, where it lost a fifth and two thirds of the downloads.
const PAPER_CONNECT: [(usize, f64); 2] = [(1, 101.7), (5, 567.0)];

/// One download.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TimedDownload {
    /// The download.
    #[serde(flatten)]
    pub download: PlannedDownload,
    /// When it began, in seconds after the links did.
    pub begin: f64,
    /// Its time; `None` if it was not whole within the limit.
    pub seconds: Option<f64>,
    /// The lower bound of any protocol, in seconds.
    pub bound: f64,
    /// The same fetch once more, where nodes on the way store it.
    #[serde(default)]
    pub again: Option<SecondFetch>,
    /// A fetch that one client left in the middle and another went on with.
    #[serde(default)]
    pub resumed: Option<SecondFetch>,
}

/// A fetch of a response that a node on the way may have stored.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SecondFetch {
    /// Its time; `None` if it was not whole within the limit.
    pub seconds: Option<f64>,
    /// The lower bound from the last hop that can be reached and has it, in seconds.
    pub bound: f64,
}

impl SecondFetch {
    /// Whether it took the bound and the margin at most, and a moment for the client to start.
    fn is_in_time(&self, margin: f64) -> bool {
        let most = self.bound * (1.0 + margin) + AT_ONCE;
        self.seconds.is_some_and(|seconds| seconds <= most)
    }
}

/// All of them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TimedDownloads {
    /// In the order in which they were made.
    pub downloads: Vec<TimedDownload>,
}

/// Downloads that are compared: they differ in their seed and their way alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ComparedCase {
    pub order: Order,
    pub bytes: usize,
    pub protection: Protection,
    pub client: Downloader,
}

/// Downloads that differ in their seed only, by how they passed.
pub(super) type ByWay<'a> = BTreeMap<Carriage, Vec<&'a TimedDownload>>;

impl TimedDownloads {
    /// Adds those that a file has, if there is one, and that are not among them.
    ///
    /// # Errors
    /// The file has something else.
    pub fn keep_earlier(&mut self, file: &Path) -> Result<()> {
        if !file.exists() {
            return Ok(());
        }
        let earlier: Self = load(file)?;
        let made: BTreeSet<_> = self.downloads.iter().map(|one| one.download).collect();
        let earlier = earlier.downloads.into_iter();
        let kept = earlier.filter(|one| !made.contains(&one.download));
        self.downloads.extend(kept);
        Ok(())
    }

    /// A row for each case that was compared.
    pub(super) fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(ASCII_MARKDOWN);
        let mut header: Vec<String> = ["links", "MB", "TLS", "client", "bound s", "paper s"]
            .map(str::to_owned)
            .to_vec();
        let ways: BTreeSet<Carriage> = self.downloads.iter().map(|one| one.download.way).collect();
        header.extend(ways.iter().map(|way| format!("{way} s")));
        let second = [
            "of the bound, at most",
            "again s",
            "paper's second s",
            "left and resumed, of the bound at most",
        ];
        header.extend(second.map(str::to_owned));
        table.set_header(header);
        for (case, by_way) in self.cases() {
            table.add_row(row(case, &by_way, &ways));
        }
        table
    }

    /// Whether all downloads in custody were whole and took no longer than the bound and the margin.
    ///
    /// # Errors
    /// They were not.
    pub fn verdict(&self, margin: f64) -> Result<()> {
        let custody = self.downloads.iter();
        let custody = custody.filter(|one| one.download.way.is_custody());
        let is_late = |one: &&TimedDownload| {
            let mut second = one.again.iter().chain(&one.resumed);
            one.share().is_none_or(|share| share > 1.0 + margin)
                || second.any(|fetch| !fetch.is_in_time(margin))
        };
        let late = custody.filter(is_late);
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

    /// The compared downloads.
    pub(super) fn cases(&self) -> BTreeMap<ComparedCase, ByWay<'_>> {
        let mut cases = BTreeMap::<ComparedCase, ByWay<'_>>::new();
        for one in &self.downloads {
            let PlannedDownload {
                order,
                bytes,
                protection,
                client,
                way,
                ..
            } = one.download;
            let case = ComparedCase {
                order,
                bytes,
                protection,
                client,
            };
            let ways = cases.entry(case).or_default();
            ways.entry(way).or_default().push(one);
        }
        cases
    }
}

/// A row of the table.
fn row(case: ComparedCase, by_way: &ByWay<'_>, ways: &BTreeSet<Carriage>) -> Vec<String> {
    let megabytes = case.bytes / MEGABYTE;
    // All begin at the same moments, give or take milliseconds.
    let bound = mean(by_way.values().flatten().map(|one| one.bound));
    let mut row = vec![
        case.order.to_string(),
        megabytes.to_string(),
        case.protection.to_string(),
        case.client.to_string(),
        seconds(bound),
        seconds(paper(case.order, megabytes, case.protection)),
    ];
    for way in ways {
        let downloads = by_way.get(way).map(Vec::as_slice).unwrap_or_default();
        let taken = mean(downloads.iter().filter_map(|one| one.seconds));
        let whole = downloads.iter().filter(|one| one.seconds.is_some()).count();
        row.push(format!(
            "{} ({whole} of {})",
            seconds(taken),
            downloads.len()
        ));
    }

    let custody = by_way.get(&Carriage::Custody);
    let shares = custody.into_iter().flatten().filter_map(|one| one.share());
    let worst = shares.reduce(f64::max);
    row.push(percent(worst));
    row.extend(second_cells(
        case,
        custody.map(Vec::as_slice).unwrap_or_default(),
    ));
    row
}

/// The cells of second fetches in custody, beside the paper's.
fn second_cells(case: ComparedCase, custody: &[&TimedDownload]) -> [String; 3] {
    let again = custody.iter().filter_map(|one| one.again?.seconds);
    let resumed = custody.iter().filter_map(|one| {
        let resumed = one.resumed?;
        Some(resumed.seconds? / resumed.bound)
    });
    let is_of_paper = case.order == Order::Cyclic && case.protection == Protection::Hop;
    let mut of_paper = PAPER_SECOND.iter().filter(|_| is_of_paper);
    let of_paper = of_paper.find(|(size, _)| size * MEGABYTE == case.bytes);
    [
        seconds(mean(again)),
        seconds(of_paper.map(|(_, seconds)| *seconds)),
        percent(resumed.reduce(f64::max)),
    ]
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

impl TimedDownload {
    /// The time as a share of the bound.
    pub(super) fn share(&self) -> Option<f64> {
        self.seconds.map(|seconds| seconds / self.bound)
    }
}

/// Seconds of the paper's overlay, where the paper has them.
pub(super) fn paper(order: Order, megabytes: usize, protection: Protection) -> Option<f64> {
    let table = match (order, protection) {
        (Order::Cyclic, Protection::Hop) => PAPER,
        (Order::Cyclic, Protection::EndToEnd) => PAPER_CONNECT,
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
pub(super) mod tests {
    use super::*;

    pub(crate) fn download(way: Carriage, seconds: Option<f64>) -> TimedDownloads {
        TimedDownloads {
            downloads: vec![TimedDownload {
                download: PlannedDownload {
                    order: Order::Cyclic,
                    seed: 0,
                    bytes: MEGABYTE,
                    protection: Protection::Hop,
                    client: Downloader::Curl,
                    way,
                },
                begin: 0.0,
                seconds,
                bound: 10.0,
                again: None,
                resumed: None,
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

    #[test]
    fn a_second_fetch_has_a_bound_of_its_own() {
        let verdict = |again: Option<f64>, resumed: Option<f64>| {
            let mut results = download(Carriage::Custody, Some(10.0));
            results.downloads[0].again = Some(SecondFetch {
                seconds: again,
                bound: 0.0,
            });
            results.downloads[0].resumed = Some(SecondFetch {
                seconds: resumed,
                bound: 10.0,
            });
            results.verdict(0.05).is_ok()
        };
        assert!(verdict(Some(0.1), Some(10.9)));
        assert!(!verdict(Some(5.0), Some(10.9)) && !verdict(None, Some(10.9)));
        assert!(!verdict(Some(0.1), Some(12.0)) && !verdict(Some(0.1), None));
    }

    #[test]
    fn what_was_made_again_takes_the_place_of_what_was_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.json");
        let mut before = download(Carriage::Custody, None);
        before.keep_earlier(&file).unwrap();
        before
            .downloads
            .extend(download(Carriage::Tcp, None).downloads);
        crate::report::save(&before, &file).unwrap();

        let mut again = download(Carriage::Custody, Some(10.4));
        again.keep_earlier(&file).unwrap();
        let ways = again
            .downloads
            .iter()
            .map(|one| (one.download.way, one.seconds));
        assert_eq!(
            ways.collect::<Vec<_>>(),
            [(Carriage::Custody, Some(10.4)), (Carriage::Tcp, None)]
        );
    }

    #[test]
    fn a_row_says_what_each_way_took_and_how_often_it_was_whole() {
        let mut results = download(Carriage::Custody, Some(10.4));
        results
            .downloads
            .extend(download(Carriage::Tcp, None).downloads);
        results
            .downloads
            .extend(download(Carriage::Tcp, Some(90.0)).downloads);
        let cases = results.cases();
        let (case, by_way) = cases.first_key_value().unwrap();
        let ways = by_way.keys().copied().collect();
        let row = row(*case, by_way, &ways);
        let wanted = [
            "cyclic",
            "1",
            "hop",
            "curl",
            "10.00",
            "115.82",
            "10.40 (1 of 1)",
            "90.00 (1 of 2)",
            "104.0 %",
            "-",
            "133.69",
            "-",
        ];
        assert_eq!(row, wanted);
    }
}
