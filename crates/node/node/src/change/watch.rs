//! Watching the files of a configuration.
//!
//! They are looked at, not subscribed to: a look sees every way in which editors and tools change a file (writing it, renaming
//! another over it, turning a symbolic link elsewhere), on every file system.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::snapshot::Snapshot;
use hermes_net::Watch;

use super::Trigger;
use crate::process::Node;

/// Time between two looks. A change counts once two looks in a row saw the same: writers take a while.
#[doc(alias = "bound")]
const LOOK: Duration = Duration::from_millis(500);

/// Bytes of one file that count; longer ones are no part of a configuration.
#[doc(alias = "bound")]
const FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The metadata by which a change of a file is noticed: device, inode, length and the times of its last changes.
type Outside = (u64, u64, u64, i64, i64, i64, i64);

/// Files with their metadata and a hash of their content; `None` for one that cannot be read.
type Looks = BTreeMap<PathBuf, Option<(Outside, u64)>>;

/// Reloads when the files of the configuration have changed, until told to stop.
pub(crate) async fn follow(node: Arc<Node>, always: bool, mut watched: Watched, watch: Watch) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = watch.graceful() => return,
        }

        let snapshot = node.shared.snapshot.load_full();
        if !always && !snapshot.document.watch {
            watched = Watched::default();
            continue;
        }

        let last = watched.last.clone();
        let looked = tokio::task::spawn_blocking(move || look(&snapshot, &last)).await;
        let Ok(looks) = looked else { continue };

        if watched.sees(looks) {
            let node = node.clone();
            // Mistakes in the files are in the log; the next change is tried again.
            let _ = tokio::task::spawn_blocking(move || reload(&node)).await;
        }
    }
}

fn reload(node: &Node) {
    match node.reload(Trigger::Surroundings) {
        Ok(report) => {
            tracing::info!(revision = report.revision, tunnels = ?report.tunnels, "a file changed: reloaded")
        }
        Err(problems) => tracing::error!(
            "a file changed, but not reloaded, the configuration stays in force:\n{problems}"
        ),
    }
}

/// The files as they are now. Those whose outside did not change are not read.
fn look(snapshot: &Snapshot, last: &Looks) -> Looks {
    let named = snapshot.document.files().into_iter().map(PathBuf::from);
    let all = snapshot.files.iter().cloned().chain(named);
    all.map(|file| {
        let seen = see(&file, last.get(&file).copied().flatten());
        (file, seen)
    })
    .collect()
}

fn see(file: &PathBuf, last: Option<(Outside, u64)>) -> Option<(Outside, u64)> {
    let data = std::fs::metadata(file)
        .ok()
        .filter(|data| data.is_file() && data.len() <= FILE_BYTES)?;
    let outside = (
        data.dev(),
        data.ino(),
        data.len(),
        data.mtime(),
        data.mtime_nsec(),
        data.ctime(),
        data.ctime_nsec(),
    );

    if let Some(last) = last.filter(|(known, _)| *known == outside) {
        return Some(last);
    }
    let mut hasher = DefaultHasher::new();
    std::fs::read(file).ok()?.hash(&mut hasher);

    Some((outside, hasher.finish()))
}

/// The state of the files so far.
#[derive(Default)]
pub(crate) struct Watched {
    last: Looks,
    /// Contents when a reload was last asked for, or when the watch began.
    settled: Option<BTreeMap<PathBuf, Option<u64>>>,
}

impl Watched {
    /// From the files as they are now.
    pub(crate) fn begin(snapshot: &Snapshot) -> Self {
        let mut watched = Self::default();
        watched.sees(look(snapshot, &Looks::new()));
        watched
    }

    /// Takes a look; true when contents have changed and stayed the same since the look before.
    fn sees(&mut self, looks: Looks) -> bool {
        let steady = self.last == looks;
        let contents: BTreeMap<PathBuf, Option<u64>> = looks
            .iter()
            .map(|(file, seen)| (file.clone(), seen.map(|(_, content)| content)))
            .collect();
        self.last = looks;
        let Some(settled) = &mut self.settled else {
            self.settled = Some(contents);
            return false;
        };

        // A file that came into the configuration by a reload is no change of it.
        let changed = contents
            .iter()
            .any(|(file, content)| settled.get(file).is_some_and(|known| known != content));
        if !changed {
            for (file, content) in contents {
                settled.entry(file).or_insert(content);
            }
            return false;
        }

        if steady {
            *settled = contents;
        }
        steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(files: &[(&str, i64, u64)]) -> Looks {
        let seen = |(name, time, content): &(&str, i64, u64)| {
            (
                PathBuf::from(name),
                Some(((0, 0, 0, *time, 0, *time, 0), *content)),
            )
        };
        files.iter().map(seen).collect()
    }

    #[test]
    fn a_change_counts_when_it_was_seen_twice() {
        let mut watched = Watched::default();
        assert!(!watched.sees(looks(&[("a", 1, 1)])));
        assert!(!watched.sees(looks(&[("a", 1, 1)])));
        assert!(!watched.sees(looks(&[("a", 2, 2)])));
        assert!(
            !watched.sees(looks(&[("a", 3, 3)])),
            "it is still being written"
        );
        assert!(watched.sees(looks(&[("a", 3, 3)])));
        assert!(!watched.sees(looks(&[("a", 3, 3)])), "once");
    }

    #[test]
    fn a_file_that_was_only_touched_is_no_change() {
        let mut watched = Watched::default();
        for time in 1..5 {
            assert!(!watched.sees(looks(&[("a", time, 1)])));
        }
    }

    #[test]
    fn a_file_that_goes_and_comes_back_otherwise_is_one_change() {
        let mut watched = Watched::default();
        assert!(!watched.sees(looks(&[("a", 1, 1)])));
        let gone = Looks::from([(PathBuf::from("a"), None)]);
        assert!(!watched.sees(gone));
        assert!(!watched.sees(looks(&[("a", 2, 2)])));
        assert!(watched.sees(looks(&[("a", 2, 2)])));
    }

    #[test]
    fn a_file_that_a_reload_brought_in_is_watched_from_then_on() {
        let mut watched = Watched::default();
        assert!(!watched.sees(looks(&[("a", 1, 1)])));
        assert!(!watched.sees(looks(&[("a", 1, 1), ("b", 1, 1)])));
        assert!(!watched.sees(looks(&[("a", 1, 1), ("b", 2, 2)])));
        assert!(watched.sees(looks(&[("a", 1, 1), ("b", 2, 2)])));
    }
}
