//! Datagrams received together.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use quinn_udp::{BATCH_SIZE, RecvMeta};

use crate::peer::canonical;

/// Bytes of one slot: the largest UDP payload, and the largest run that the kernel merges (GRO).
const SLOT: usize = 65_536;

/// Slots of a [`RecvBatch`]: with GRO one slot holds up to 64 datagrams.
#[doc(alias = "bound")]
const SLOTS: usize = 8;

/// Room for datagrams, filled by one [`crate::UdpSocket::recv`]. Nothing is allocated after it was made.
///
/// Memory is touched only as far as datagrams reach, so that a batch for small ones stays small. Sessions of
/// one worker can share one: see [`crate::UdpSocket::readable`].
pub struct RecvBatch {
    buffer: Box<[u8]>,
    meta: Vec<RecvMeta>,
    filled: usize,
}

/// Datagrams of one source and one length, in one piece, as the kernel delivered them. Only the last may be
/// shorter. The form that [`crate::UdpSocket::send_segments`] takes.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Their source.
    pub source: SocketAddr,
    /// The address of ours that they were sent to, where the system tells.
    pub local: Option<IpAddr>,
    /// Their payloads, one after the other.
    pub data: &'a [u8],
    /// The length of each but the last; that of `data` when there is one only.
    pub segment: usize,
}

impl Default for RecvBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl RecvBatch {
    /// A batch of 8 slots: 512 KiB of address space.
    #[must_use]
    pub fn new() -> Self {
        Self::with_slots(SLOTS)
    }

    /// A batch of `slots` runs (1 to 32) of 64 KiB.
    #[must_use]
    pub fn with_slots(slots: usize) -> Self {
        let slots = slots.clamp(1, BATCH_SIZE);
        let buffer = vec![0; slots * SLOT].into_boxed_slice();
        Self {
            buffer,
            meta: vec![RecvMeta::default(); slots],
            filled: 0,
        }
    }

    /// The received datagrams, run by run.
    pub fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let slots = self.buffer.chunks_exact(SLOT).zip(&self.meta);
        slots.take(self.filled).map(|(slot, meta)| {
            let data = &slot[..meta.len.min(SLOT)];
            let segment = if meta.stride == 0 {
                data.len()
            } else {
                meta.stride.min(data.len())
            };

            Run {
                source: canonical(meta.addr),
                local: meta.dst_ip,
                data,
                segment,
            }
        })
    }

    /// The received datagrams, one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = (SocketAddr, &[u8])> {
        self.runs()
            .flat_map(|run| run.datagrams().map(move |datagram| (run.source, datagram)))
    }

    /// How many datagrams were received last.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs().map(|run| run.count()).sum()
    }

    /// True when nothing was received.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Forgets the received datagrams.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Lets `receive` fill the slots; it returns how many it used. True if these are all.
    pub(crate) fn fill(
        &mut self,
        receive: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        self.filled = 0;
        let mut slots = self.buffer.chunks_exact_mut(SLOT);
        // Past the last slot these are empty; they are not shown to the kernel.
        let mut views: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(slots.next().unwrap_or_default()));
        self.filled = receive(&mut views[..self.meta.len()], &mut self.meta)?;
        Ok(self.filled == self.meta.len())
    }
}

impl<'a> Run<'a> {
    /// Each datagram's payload. An empty run is one empty datagram.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let empty: Option<&'a [u8]> = self.data.is_empty().then_some(&[]);
        self.data.chunks(self.segment.max(1)).chain(empty)
    }

    /// How many datagrams there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.data.len().div_ceil(self.segment.max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(data: &[u8], segment: usize) -> Run<'_> {
        Run {
            source: SocketAddr::from(([127, 0, 0, 1], 9)),
            local: None,
            data,
            segment,
        }
    }

    #[test]
    fn a_run_is_cut_at_its_segment_and_its_tail_is_short() {
        let lengths: Vec<usize> = run(&[0; 25], 10).datagrams().map(<[u8]>::len).collect();
        assert_eq!(lengths, [10, 10, 5]);
        assert_eq!(run(&[0; 25], 10).count(), 3);
    }

    #[test]
    fn an_empty_datagram_is_one_datagram() {
        assert_eq!(run(&[], 0).datagrams().count(), 1);
        assert_eq!(run(&[], 0).count(), 1);
    }
}
