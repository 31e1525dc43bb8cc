//! A batch of datagrams in one buffer, in the shape that UDP segmentation offload wants.
//!
//! Datagrams move through Hermes in batches: one allocation, filled again and again, and runs of equal length that the
//! operating system takes in one call (`UDP_SEGMENT`) or that go into one frame.

use bytes::BytesMut;

/// The most datagrams in one run: the kernel's limit on segments in one send.
#[doc(alias = "bound")]
pub const MAX_RUN_DATAGRAMS: usize = 64;

/// The most bytes in one run: below the 65,535 of an IP packet, with room for its headers.
#[doc(alias = "bound")]
pub const MAX_RUN_BYTES: usize = 65_000;

/// The bytes of a [`Batch::default`]: two full runs.
pub const DEFAULT_BYTES: usize = 2 * 65_536;

/// The datagrams of a [`Batch::default`]: two full runs.
pub const DEFAULT_DATAGRAMS: usize = 2 * MAX_RUN_DATAGRAMS;

/// Why a datagram was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// There is no room now; there is after [`Batch::clear`].
    #[error("the batch is full")]
    Full,
    /// The datagram does not fit an empty batch, or is above 65,535 bytes.
    #[error("the datagram is too long for the batch")]
    TooLong,
}

/// Datagrams of one flow, in order, up to a number of bytes and of datagrams.
#[derive(Debug)]
pub struct Batch {
    bytes: BytesMut,
    lengths: Vec<u16>,
    max_bytes: usize,
    max_datagrams: usize,
}

/// Consecutive datagrams of equal length, except that the last may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a> {
    /// The datagrams, one after the other.
    pub bytes: &'a [u8],
    /// The length of every datagram but the last, in bytes. 0 only for a run of one empty datagram.
    pub segment_size: usize,
    /// How many datagrams these are; at least 1.
    pub count: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new(DEFAULT_BYTES, DEFAULT_DATAGRAMS)
    }
}

impl Batch {
    /// An empty batch with room for `max_bytes` and `max_datagrams`. Memory is taken when it is needed, and kept.
    pub fn new(max_bytes: usize, max_datagrams: usize) -> Self {
        Self {
            bytes: BytesMut::new(),
            lengths: Vec::new(),
            max_bytes,
            max_datagrams,
        }
    }

    /// Adds a copy of `datagram`, which may be empty.
    ///
    /// # Errors
    /// [`PushError`], with the batch unchanged.
    pub fn push(&mut self, datagram: &[u8]) -> Result<(), PushError> {
        let length = u16::try_from(datagram.len()).map_err(|_| PushError::TooLong)?;
        if datagram.len() > self.max_bytes || self.max_datagrams == 0 {
            return Err(PushError::TooLong);
        }
        if self.lengths.len() == self.max_datagrams
            || self.bytes.len() + datagram.len() > self.max_bytes
        {
            return Err(PushError::Full);
        }
        self.bytes.extend_from_slice(datagram);
        self.lengths.push(length);
        Ok(())
    }

    /// How many datagrams there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there is no datagram. A batch of empty datagrams is not empty.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// All datagrams, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes all datagrams and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
    }

    /// The datagrams, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |&length| {
            let (datagram, tail) = rest.split_at(usize::from(length));
            rest = tail;
            datagram
        })
    }

    /// The datagrams, in order, in runs of at most [`MAX_RUN_DATAGRAMS`] and [`MAX_RUN_BYTES`].
    ///
    /// A longer datagram is a run by itself. So is an empty one: as a segment of a run it would not be sent.
    pub fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let mut bytes = &self.bytes[..];
        let mut lengths = &self.lengths[..];
        std::iter::from_fn(move || {
            let (count, size) = first_run(lengths)?;
            let segment_size = usize::from(lengths[0]);
            let (run, tail) = bytes.split_at(size);
            bytes = tail;
            lengths = &lengths[count..];
            Some(Run {
                bytes: run,
                segment_size,
                count,
            })
        })
    }
}

/// How many datagrams, and how many bytes, make the first run.
fn first_run(lengths: &[u16]) -> Option<(usize, usize)> {
    let (&first, others) = lengths.split_first()?;
    let mut count = 1;
    let mut size = usize::from(first);
    for &length in others.iter().take(MAX_RUN_DATAGRAMS - 1) {
        if length == 0 || length > first || size + usize::from(length) > MAX_RUN_BYTES {
            break;
        }
        count += 1;
        size += usize::from(length);
        if length < first {
            break;
        }
    }
    Some((count, size))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(lengths: &[usize]) -> Batch {
        let mut batch = Batch::new(1 << 20, 1000);
        for (number, &length) in lengths.iter().enumerate() {
            batch.push(&vec![number as u8; length]).unwrap();
        }
        batch
    }

    fn shape(batch: &Batch) -> Vec<(usize, usize, usize)> {
        batch
            .runs()
            .map(|run| (run.bytes.len(), run.segment_size, run.count))
            .collect()
    }

    #[test]
    fn joins_equal_lengths_and_lets_the_last_be_shorter() {
        assert_eq!(
            shape(&batch(&[100, 100, 40, 100])),
            [(240, 100, 3), (100, 100, 1)]
        );
        assert_eq!(shape(&batch(&[40, 100])), [(40, 40, 1), (100, 100, 1)]);
        assert_eq!(shape(&batch(&[])), []);
    }

    #[test]
    fn sends_empty_datagrams_alone() {
        assert_eq!(
            shape(&batch(&[9, 0, 0, 9])),
            [(9, 9, 1), (0, 0, 1), (0, 0, 1), (9, 9, 1)]
        );
    }

    #[test]
    fn keeps_runs_within_the_limits_of_the_kernel() {
        assert_eq!(shape(&batch(&[10; 65])), [(640, 10, 64), (10, 10, 1)]);
        assert_eq!(
            shape(&batch(&[30_000; 3])),
            [(60_000, 30_000, 2), (30_000, 30_000, 1)]
        );
        assert_eq!(
            shape(&batch(&[65_527, 1])),
            [(65_527, 65_527, 1), (1, 1, 1)]
        );
    }

    #[test]
    fn refuses_more_than_its_bounds_and_stays_as_it_was() {
        let mut batch = Batch::new(10, 2);
        assert_eq!(batch.push(&[0; 11]), Err(PushError::TooLong));
        assert_eq!(batch.push(&[0; 6]), Ok(()));
        assert_eq!(batch.push(&[0; 5]), Err(PushError::Full));
        assert_eq!(batch.push(&[]), Ok(()));
        assert_eq!(batch.push(&[]), Err(PushError::Full));
        assert_eq!((batch.len(), batch.bytes().len()), (2, 6));
        batch.clear();
        assert!(batch.is_empty() && batch.bytes().is_empty());
        assert_eq!(batch.push(&[0; 10]), Ok(()));
    }

    #[test]
    fn refuses_what_udp_cannot_carry() {
        assert_eq!(
            Batch::new(1 << 20, 1).push(&[0; 65_536]),
            Err(PushError::TooLong)
        );
    }

    #[test]
    fn keeps_its_memory_when_cleared() {
        let mut batch = batch(&[1000; 8]);
        let before = batch.bytes().as_ptr();
        batch.clear();
        batch.push(&[1]).unwrap();
        assert_eq!(batch.bytes().as_ptr(), before);
    }

    proptest! {
        #[test]
        fn runs_hold_every_datagram_once_and_in_order(
            datagrams in proptest::collection::vec(
                prop_oneof![Just(0_usize), 1_usize..4, Just(1200), Just(20_000)].prop_map(|length| vec![length as u8; length]),
                0..100,
            ),
        ) {
            let mut batch = Batch::new(1 << 22, 100);
            for datagram in &datagrams {
                batch.push(datagram).unwrap();
            }
            prop_assert!(batch.iter().eq(datagrams.iter().map(|datagram| &datagram[..])));
            let mut again: Vec<&[u8]> = Vec::new();
            for run in batch.runs() {
                prop_assert!(run.count <= MAX_RUN_DATAGRAMS && run.bytes.len() <= MAX_RUN_BYTES);
                let before = again.len();
                match run.segment_size {
                    0 => again.push(run.bytes),
                    size => again.extend(run.bytes.chunks(size)),
                }
                prop_assert_eq!(again.len(), before + run.count);
            }
            prop_assert!(again.iter().copied().eq(batch.iter()));
        }
    }
}
