//! How much tunnels moved, so that those of bulk get connections of their own.
//!
//! A tunnel that has a connection without TLS alone is carried by the kernel
//! (`hermes_net::splice`), and no exchange waits behind it. A place on a link costs less to open.
//! So large tunnels get a connection alone, and small ones share. The size of a tunnel is not known
//! beforehand; that of the last ones to its target is the best estimate, and without those, that of
//! its route.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};

/// Targets and routes with remembered sizes; two that meet in one place forget each other.
#[doc(alias = "bound")]
const PLACES: usize = 512;

/// Bytes from which a tunnel is bulk: moving them takes longer than opening a connection, also where its window has to grow first.
pub const BULK: u64 = 16 << 20;

/// Bits of a place for the size; the bits above are the tag.
const SIZE_BITS: u32 = 8;

/// The sizes of tunnels through one upstream.
#[derive(Debug)]
pub struct TunnelSizes {
    /// Keyed, so that no one can choose a victim's place.
    hasher: RandomState,
    places: Box<[AtomicU32]>,
}

impl Default for TunnelSizes {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            places: (0..PLACES).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl TunnelSizes {
    /// Whether a tunnel of this route to this target is likely to be bulk.
    pub fn expects_bulk(&self, route: &str, target: (&str, Option<u16>)) -> bool {
        let expected = self.known(target).or_else(|| self.known(route));
        expected.is_some_and(|size| size >= size_class(BULK))
    }

    /// A tunnel of this route to this target has ended, and moved so many bytes in both directions.
    pub fn ended(&self, route: &str, target: (&str, Option<u16>), bytes: u64) {
        self.note(target, bytes);
        self.note(route, bytes);
    }

    fn known(&self, of: impl Hash) -> Option<u32> {
        let (place, tag) = self.place(of);
        let held = place.load(Ordering::Relaxed);
        (held >> SIZE_BITS == tag).then_some(held & size_mask())
    }

    /// The last tunnel counts for half of the mean, which is one of bytes, because the gain of bulk
    /// outweighs the loss of a few small tunnels. If two workers write at once, one of two sizes is
    /// lost.
    fn note(&self, of: impl Hash + Copy, bytes: u64) {
        let known = self.known(of).map(bytes_of_class);
        let size = size_class(known.map_or(bytes, |known| known / 2 + bytes / 2));
        let (place, tag) = self.place(of);
        place.store(tag << SIZE_BITS | size, Ordering::Relaxed);
    }

    /// The place of its size, and its tag there. A tag is not zero, which marks an empty place.
    fn place(&self, of: impl Hash) -> (&AtomicU32, u32) {
        let hash = self.hasher.hash_one(of);
        let tag = (hash >> 40) as u32 | 1;
        (&self.places[hash as usize % PLACES], tag)
    }
}

const fn size_mask() -> u32 {
    (1 << SIZE_BITS) - 1
}

/// Four times the logarithm of a number of bytes, base 2, rounded down to a quarter.
fn size_class(bytes: u64) -> u32 {
    let Some(log) = bytes.checked_ilog2() else {
        return 0;
    };
    let next_bits = if log >= 2 { bytes >> (log - 2) & 3 } else { 0 };
    4 * log + next_bits as u32
}

/// The smallest number of bytes of a class.
fn bytes_of_class(size: u32) -> u64 {
    let quarters = u64::from(4 + size % 4);
    match size / 4 {
        log @ 2.. => quarters << (log - 2),
        log => quarters >> (2 - log),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: (&str, Option<u16>) = ("db", Some(5432));

    #[test]
    fn what_was_bulk_is_expected_to_be_bulk_until_it_is_not() {
        let sizes = TunnelSizes::default();
        assert!(!sizes.expects_bulk("a", TARGET));
        sizes.ended("a", TARGET, 1 << 30);
        assert!(sizes.expects_bulk("a", TARGET));
        for _ in 0..7 {
            sizes.ended("a", TARGET, 1000);
        }
        assert!(!sizes.expects_bulk("a", TARGET));
    }

    #[test]
    fn a_small_tunnel_to_a_target_of_bulk_changes_nothing() {
        let sizes = TunnelSizes::default();
        for bytes in [64, 1 << 30, 64, 64] {
            sizes.ended("a", TARGET, bytes);
        }
        assert!(sizes.expects_bulk("a", TARGET));
    }

    #[test]
    fn a_class_begins_where_its_smallest_number_is() {
        for bytes in [
            8,
            10,
            12,
            14,
            1 << 24,
            (1 << 24) + (1 << 22),
            1 << 60,
            7 << 60,
        ] {
            assert_eq!(bytes_of_class(size_class(bytes)), bytes);
        }
    }

    #[test]
    fn a_target_that_is_new_is_judged_by_its_route() {
        let sizes = TunnelSizes::default();
        sizes.ended("backup", TARGET, 1 << 30);
        assert!(sizes.expects_bulk("backup", ("other", Some(1))));
        assert!(!sizes.expects_bulk("web", ("other", Some(1))));
        sizes.ended("web", ("small", Some(1)), 10);
        assert!(!sizes.expects_bulk("backup", ("small", Some(1))));
    }

    #[test]
    fn the_bound_is_where_bulk_begins() {
        for (bytes, is_bulk) in [
            (0, false),
            (1, false),
            (BULK - 1, false),
            (BULK, true),
            (u64::MAX, true),
        ] {
            let sizes = TunnelSizes::default();
            sizes.ended("a", TARGET, bytes);
            assert_eq!(sizes.expects_bulk("a", TARGET), is_bulk, "{bytes}");
        }
    }

    #[test]
    fn however_many_targets_there_are_memory_is_the_same() {
        let sizes = TunnelSizes::default();
        for port in 0..=u16::MAX {
            sizes.ended("a", ("host", Some(port)), 1 << 30);
        }
        assert_eq!(sizes.places.len(), PLACES);
        assert!(sizes.expects_bulk("a", ("host", Some(u16::MAX))));
    }
}
