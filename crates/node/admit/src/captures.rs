//! The captured networks that are open: who has them, and how many flows there are.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hermes_packet::tun::{CapturedNetwork, NamedHostsView};
use parking_lot::Mutex;
use serde::Serialize;

/// Captured networks of the programs of one user of this machine at once.
#[doc(alias = "bound")]
const CAPTURES_OF_USER: usize = 64;

/// Captured networks of programs at once.
#[doc(alias = "bound")]
const CAPTURES: usize = 1024;

/// The captured networks of a node.
#[derive(Debug, Default)]
pub struct Captures {
    open: Arc<Mutex<HashMap<u64, Capture>>>,
    last: AtomicU64,
}

/// Whose network it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CapturedBy {
    /// A program's, of a user of this machine.
    Program {
        /// The number of its user.
        uid: u32,
        /// The number of the process, where the kernel tells it.
        pid: Option<i32>,
    },
    /// The network namespace at this path.
    Network(PathBuf),
}

#[derive(Debug)]
struct Capture {
    listener: Arc<str>,
    by: CapturedBy,
    /// None: it is being set up.
    network: Option<Arc<CapturedNetwork>>,
}

/// One captured network among the others, until this is dropped.
#[derive(Debug)]
pub struct CaptureEntry {
    open: Arc<Mutex<HashMap<u64, Capture>>>,
    number: u64,
}

/// The view of a captured network.
#[derive(Debug, Serialize)]
pub struct SeenCapture {
    listener: Arc<str>,
    /// The user of this machine whose program it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    /// The process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    /// The network namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<PathBuf>,
    /// How its targets are waited for: a client's first segment, until its target has answered.
    holds: &'static str,
    #[serde(flatten)]
    hosts: NamedHostsView,
}

/// Why one more network is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyCaptures {
    /// Of this user.
    #[error("user {0} has {CAPTURES_OF_USER} captured programs already")]
    OfUser(u32),
    /// Of all.
    #[error("{CAPTURES} programs are captured already")]
    OfAll,
}

impl Captures {
    /// Takes a place for one more.
    ///
    /// # Errors
    /// [`TooManyCaptures`].
    pub fn enter(
        &self,
        listener: &Arc<str>,
        by: CapturedBy,
    ) -> Result<CaptureEntry, TooManyCaptures> {
        let mut open = self.open.lock();
        if let CapturedBy::Program { uid, .. } = by {
            let is_program = |one: &&Capture| matches!(one.by, CapturedBy::Program { .. });
            let is_own = |one: &&Capture| matches!(one.by, CapturedBy::Program { uid: other, .. } if other == uid);
            if open.values().filter(is_own).count() >= CAPTURES_OF_USER {
                return Err(TooManyCaptures::OfUser(uid));
            }
            if open.values().filter(is_program).count() >= CAPTURES {
                return Err(TooManyCaptures::OfAll);
            }
        }

        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let capture = Capture {
            listener: listener.clone(),
            by,
            network: None,
        };
        open.insert(number, capture);
        Ok(CaptureEntry {
            open: self.open.clone(),
            number,
        })
    }

    /// Those that are open, the oldest first.
    pub fn views(&self) -> Vec<SeenCapture> {
        let open = self.open.lock();
        let mut numbers: Vec<&u64> = open.keys().collect();
        numbers.sort_unstable();
        let captures = numbers.into_iter().filter_map(|number| open.get(number));
        captures.filter_map(Capture::view).collect()
    }
}

impl Capture {
    fn view(&self) -> Option<SeenCapture> {
        let (uid, pid, network) = match &self.by {
            CapturedBy::Program { uid, pid } => (Some(*uid), *pid, None),
            CapturedBy::Network(path) => (None, None, Some(path.clone())),
        };
        Some(SeenCapture {
            listener: self.listener.clone(),
            uid,
            pid,
            network,
            holds: "stack",
            hosts: self.network.as_ref()?.hosts().view(),
        })
    }
}

impl CaptureEntry {
    /// The network is there.
    pub fn opened(&self, network: &Arc<CapturedNetwork>) {
        if let Some(capture) = self.open.lock().get_mut(&self.number) {
            capture.network = Some(network.clone());
        }
    }
}

impl Drop for CaptureEntry {
    fn drop(&mut self) {
        self.open.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_programs_and_leaves_room_for_others() {
        let captures = Captures::default();
        let listener: Arc<str> = "programs".into();
        let enter = |uid| captures.enter(&listener, CapturedBy::Program { uid, pid: None });
        let held: Vec<CaptureEntry> = std::iter::from_fn(|| enter(1000).ok()).collect();
        assert_eq!(held.len(), CAPTURES_OF_USER);
        assert_eq!(enter(1000).unwrap_err(), TooManyCaptures::OfUser(1000));
        enter(1001).unwrap();
        drop(held);
        enter(1000).unwrap();
        assert!(captures.views().is_empty(), "none was opened");
    }
}
