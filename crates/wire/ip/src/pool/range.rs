//! A prefix that is given out in parts.

use std::collections::HashMap;
use std::net::IpAddr;

use hermes_proto::ip::IpPrefix;

use super::{LeaseKey, PoolError};

/// A prefix, the length of the parts that it is given out in, and those that are not.
#[derive(Debug, Clone)]
pub struct PoolRange {
    prefix: IpPrefix,
    each: u8,
    reserved: Vec<IpAddr>,
    /// How many parts there are, without those that are reserved; as many as can be counted, at least.
    parts: u64,
    given: u64,
}

impl PoolRange {
    /// Gives out parts of `each` bits: 32 and 128 for single addresses. `reserved` are not given out: addresses of this node. Of IPv4,
    /// the first and the last address are not, either, where they mean the network and all of its hosts.
    ///
    /// # Errors
    /// [`PoolError::Range`]: parts are not shorter than that.
    pub fn new(prefix: IpPrefix, each: u8, reserved: &[IpAddr]) -> Result<Self, PoolError> {
        if IpPrefix::around(prefix.address(), each).is_err() || each < prefix.length() {
            return Err(PoolError::Range { prefix, each });
        }

        let is_network = prefix.is_ipv4() && each == 32 && prefix.length() < 31;
        // The zero address of IPv6 is the all-routers address (RFC 4291, section 2.6.1); in both
        // families it also means "no address".
        let is_anycast = !prefix.is_ipv4() && each == 128 && prefix.length() < 127;
        let reserved = reserved.iter().filter(|one| prefix.contains(**one));
        let mut kept: Vec<_> = reserved.copied().collect();
        if is_network || is_anycast {
            kept.push(prefix.address());
        }
        if is_network {
            kept.push(prefix.last());
        }

        let mut range = Self {
            prefix,
            each,
            reserved: kept,
            parts: 0,
            given: 0,
        };
        range.parts = range.slots().saturating_sub(range.reserved_parts());
        Ok(range)
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.prefix.is_ipv4()
    }

    /// How many parts can be given out.
    pub(super) fn parts(&self) -> u64 {
        self.parts
    }

    /// Whether this is one of its parts.
    pub(super) fn gives(&self, part: IpPrefix) -> bool {
        part.length() == self.each && self.prefix.covers(&part) && !self.is_reserved(part)
    }

    pub(super) fn count(&mut self, is_given: bool) {
        match is_given {
            true => self.given += 1,
            false => self.given = self.given.saturating_sub(1),
        }
    }

    /// The first part that is not taken, from where the lease points to.
    pub(super) fn find_free(
        &self,
        key: &LeaseKey,
        taken: &HashMap<IpPrefix, LeaseKey>,
    ) -> Option<IpPrefix> {
        if self.given >= self.parts {
            return None;
        }

        let slots = self.slots();
        let start = place(key) % slots;
        // Among more than are given or reserved, one is free.
        let most = self.given + self.reserved.len() as u64 + 1;
        (0..most.min(slots))
            .map(|step| (start + step) % slots)
            .filter_map(|slot| self.part(slot))
            .find(|part| !taken.contains_key(part) && !self.is_reserved(*part))
    }

    fn is_reserved(&self, part: IpPrefix) -> bool {
        self.reserved.iter().any(|one| part.contains(*one))
    }

    /// How many parts there are. More than can be counted are never given out.
    fn slots(&self) -> u64 {
        1_u64
            .checked_shl(u32::from(self.each - self.prefix.length()))
            .unwrap_or(1 << 63)
    }

    fn reserved_parts(&self) -> u64 {
        let parts = self.reserved.iter();
        let mut parts: Vec<_> = parts
            .filter_map(|one| IpPrefix::around(*one, self.each).ok())
            .collect();
        parts.sort_unstable();
        parts.dedup();
        parts.len() as u64
    }

    fn part(&self, slot: u64) -> Option<IpPrefix> {
        let address = match self.prefix.address() {
            IpAddr::V4(first) => {
                let offset = slot.checked_shl(u32::from(32 - self.each))?;
                IpAddr::V4((first.to_bits() | u32::try_from(offset).ok()?).into())
            }
            IpAddr::V6(first) => {
                let offset = u128::from(slot).checked_shl(u32::from(128 - self.each))?;
                IpAddr::V6((first.to_bits() | offset).into())
            }
        };
        IpPrefix::new(address, self.each).ok()
    }
}

/// Where in a range a lease points to: the same in every run of every build (FNV-1a).
fn place(key: &LeaseKey) -> u64 {
    let bytes = key.identity.bytes().chain(key.number.to_be_bytes());
    let mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mixed ^ (mixed >> 32)
}
