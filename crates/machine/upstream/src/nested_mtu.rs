//! The MTU of a connection inside another one, which carries its packets.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hermes_net::quic::SMALLEST_MTU;

/// No QUIC datagrams at all.
const NONE: usize = usize::MAX;

/// The known bounds.
#[derive(Debug)]
pub(crate) struct NestedMtu {
    /// Bytes of the largest packet that a QUIC datagram of the outer connection carries.
    largest: AtomicUsize,
    /// Bytes of the largest packet that goes on from the hop before, by its own word.
    limit: AtomicUsize,
    dropped: AtomicU64,
}

impl NestedMtu {
    /// For a tunnel with QUIC datagrams of this many bytes; `None` without QUIC datagrams.
    pub(crate) fn new(largest: Option<usize>) -> Self {
        Self {
            largest: AtomicUsize::new(largest.unwrap_or(NONE)),
            limit: AtomicUsize::new(NONE),
            dropped: AtomicU64::new(0),
        }
    }

    /// QUIC datagrams carry this many bytes now.
    pub(crate) fn carries(&self, largest: usize) {
        self.largest.store(largest, Ordering::Relaxed);
    }

    /// Takes the hop's limit: the largest datagram that goes on from there.
    pub(crate) fn heed(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Its last limit.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Counts packets that were too large, or found no room.
    pub(crate) fn dropped(&self, count: usize) {
        self.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Why packets take a stream; `None` where QUIC datagrams carry them.
    pub(crate) fn stream_because(&self) -> Option<String> {
        match self.largest.load(Ordering::Relaxed) {
            NONE => Some("the hop before it has no QUIC datagrams".to_owned()),
            largest if largest < usize::from(SMALLEST_MTU) => Some(format!(
                "a datagram of the hop before it carries {largest} bytes, and QUIC needs {SMALLEST_MTU}"
            )),
            _ => None,
        }
    }

    /// Packets that were dropped here.
    pub(crate) fn count_dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}
