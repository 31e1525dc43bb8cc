//! Turns that are lent to other nodes: these send a request themselves, and say how it was answered.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::origin::Permit;
use crate::shares::Share;
use crate::words::Told;

/// Turns that are lent at once.
#[doc(alias = "bound")]
const LENT: usize = 16_384;

/// How long another node may take for its request; then it counts as not answered.
#[doc(alias = "bound")]
const LENT_FOR: Duration = Duration::from_secs(30);

/// The name of a turn that was lent, which no one guesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct PermitName(u128);

impl PermitName {
    fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(u128::from_le_bytes(bytes)))
    }
}

impl TryFrom<String> for PermitName {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        u128::from_str_radix(&text, 16).map(Self)
    }
}

impl From<PermitName> for String {
    fn from(name: PermitName) -> Self {
        format!("{:032x}", name.0)
    }
}

/// Turns that are lent.
#[derive(Default)]
pub(crate) struct Permits {
    lent: Mutex<HashMap<PermitName, Lent>>,
}

struct Lent {
    permit: Permit,
    /// The place of its request among those of its user.
    _share: Share,
    until: Instant,
}

impl Permits {
    /// Lends a turn; `None` where too many are lent.
    pub(crate) fn lend(&self, permit: Permit, share: Share, now: Instant) -> Option<PermitName> {
        let name = PermitName::random()?;
        let mut lent = self.lent.lock();
        if lent.len() >= LENT {
            lent.retain(|_, one| now < one.until);
        }
        if lent.len() >= LENT {
            return None;
        }
        let until = now + LENT_FOR;
        let one = Lent {
            permit,
            _share: share,
            until,
        };
        lent.insert(name, one);
        Some(name)
    }

    /// A request of another node was answered. Returns whether the turn was lent.
    pub(crate) fn answered(&self, name: PermitName, is_refused: bool, told: Told) -> bool {
        let found = self.lent.lock().remove(&name);
        found.is_some_and(|lent| {
            lent.permit.answered(is_refused, told);
            true
        })
    }

    /// Takes back the turns of nodes that have said nothing for too long.
    pub(crate) fn expire(&self, now: Instant) {
        let mut lent = self.lent.lock();
        let expired: Vec<_> = lent.extract_if(|_, one| one.until <= now).collect();
        // A turn that comes back wakes those who wait: not under this lock.
        drop(lent);
        drop(expired);
    }
}
