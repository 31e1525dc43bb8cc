//! The origins that a node paces.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::origin::Origin;
use crate::settings::Mode;

/// Origins that are known at once, of each user where users are apart.
#[doc(alias = "bound")]
const ORIGINS: usize = 16_384;

/// How long an origin is known that no one asks.
const KNOWN: Duration = Duration::from_secs(3600);

/// Origins by name and mode: two functions of other modes do not share one.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    known: Mutex<HashMap<(Mode, String), Arc<Origin>>>,
}

impl Origins {
    /// The origin of this name; `None` where too many are in use.
    pub(crate) fn of(&self, mode: Mode, name: String, now: Instant) -> Option<Arc<Origin>> {
        let mut known = self.known.lock();
        let key = (mode, name);
        if let Some(origin) = known.get(&key) {
            return Some(origin.clone());
        }
        if known.len() >= ORIGINS {
            forget(&mut known, now);
        }
        if known.len() >= ORIGINS {
            return None;
        }
        let origin = Arc::new(Origin::new(key.1.clone(), mode, now));
        known.insert(key, origin.clone());
        Some(origin)
    }

    /// All of them, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Origin>> {
        let mut all: Vec<_> = self.known.lock().values().cloned().collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }
}

/// Forgets those that no one has asked for long, else the one that was asked least lately. One with requests under way stays.
fn forget(known: &mut HashMap<(Mode, String), Arc<Origin>>, now: Instant) {
    let is_free = |origin: &Arc<Origin>| Arc::strong_count(origin) == 1;
    known.retain(|_, origin| !is_free(origin) || origin.standing(now).idle < KNOWN);
    if known.len() < ORIGINS {
        return;
    }
    let free = known.iter().filter(|(_, origin)| is_free(origin));
    let longest = free.max_by_key(|(_, origin)| origin.standing(now).idle);
    if let Some(key) = longest.map(|(key, _)| key.clone()) {
        known.remove(&key);
    }
}
