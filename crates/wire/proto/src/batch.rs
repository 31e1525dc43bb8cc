//! A batch of packets in one buffer, in the shape that segmentation offload wants.
//!
//! Packets move through Hermes in batches: one allocation, filled again and again, and runs of equal length that the
//! operating system takes in one call (`UDP_SEGMENT`) or that go into one frame.
//!
//! A [`Layout`] says which packets a batch holds. That of UDP has no headroom and ends at the
//! longest UDP payload. That of a device has room for a head before each packet (a context ID, a
//! capsule's or an HTTP datagram's head, a `virtio_net_hdr`), which is written there without moving
//! the packet, and holds super-packets: packets longer than the path carries, which travel whole,
//! with the size of the segments that they are cut into at the far end.

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

/// The longest packet of UDP and of IP, by the 16 bits of their length fields.
const MAX_DATAGRAM: usize = 65_535;

/// The longest super-packet, in bytes: the most that Linux lets a device merge (`GSO_MAX_SIZE`).
#[doc(alias = "bound")]
pub const MAX_SUPER_PACKET: usize = 512 * 1024;

/// The most headroom of a packet, in bytes: more than a capsule's head, two varints and a `virtio_net_hdr` together.
#[doc(alias = "bound")]
pub const MAX_HEADROOM: usize = 64;

/// Marks the length of a super-packet. No packet is as long, so it never joins a run of other
/// packets.
const SUPER: u32 = 1 << 31;

/// The packets that a batch has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of all packets together, their headroom not counted.
    pub max_bytes: usize,
    /// How many packets.
    pub max_packets: usize,
    /// Bytes of the longest packet, up to [`MAX_SUPER_PACKET`].
    pub longest: usize,
    /// Bytes before each packet, up to [`MAX_HEADROOM`].
    pub headroom: usize,
    /// Whether packets may come whole that have yet to be cut into segments.
    pub super_packets: bool,
}

impl Layout {
    /// Two full runs of UDP datagrams.
    pub const UDP: Self = Self {
        max_bytes: DEFAULT_BYTES,
        max_packets: DEFAULT_DATAGRAMS,
        longest: MAX_DATAGRAM,
        headroom: 0,
        super_packets: false,
    };

    /// For one read of a device: packets with a head each, and super-packets.
    pub const DEVICE: Self = Self {
        max_bytes: 2 * MAX_SUPER_PACKET,
        max_packets: DEFAULT_DATAGRAMS,
        longest: MAX_SUPER_PACKET,
        headroom: MAX_HEADROOM,
        super_packets: true,
    };
}

/// Why a packet was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// There is no room now; there is after [`Batch::clear`].
    #[error("the batch is full")]
    Full,
    /// The packet does not fit an empty batch, or is longer than its packets may be.
    #[error("the packet is too long for the batch")]
    TooLong,
}

/// There is less room before a packet than a head takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a head of {0} bytes does not fit before its packet")]
pub struct NoHeadroom(usize);

/// Packets of one flow, in order, up to a number of bytes and of packets.
#[derive(Debug)]
pub struct Batch {
    /// Headroom and packet, by turns.
    bytes: BytesMut,
    /// The packets' lengths, with [`SUPER`].
    lengths: Vec<u32>,
    /// Segment sizes of the super-packets, in order.
    segments: Vec<u32>,
    /// How much of each packet's headroom its head takes; nothing where there is no headroom.
    heads: Vec<u8>,
    layout: Layout,
}

/// Consecutive packets of equal length, except that the last may be shorter; or one packet by itself, with its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run<'a> {
    /// The packets, one after the other; the head before them, if there is one.
    pub bytes: &'a [u8],
    /// The length of every packet but the last, in bytes. 0 only for a run of one empty packet. For
    /// a super-packet, the size of its segments.
    pub segment_size: usize,
    /// How many packets these are; at least 1.
    pub count: usize,
    /// How many of the bytes are a head. Only a packet by itself has one.
    pub head: usize,
}

impl Run<'_> {
    /// Whether it is one packet that is to be cut into segments.
    pub fn is_super_packet(&self) -> bool {
        self.count == 1 && self.segment_size < self.bytes.len() - self.head
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::with(Layout::UDP)
    }
}

impl Batch {
    /// An empty batch for UDP with room for `max_bytes` and `max_datagrams`.
    pub fn new(max_bytes: usize, max_datagrams: usize) -> Self {
        Self::with(Layout {
            max_bytes,
            max_packets: max_datagrams,
            ..Layout::UDP
        })
    }

    /// An empty batch. It allocates on demand, and keeps its memory. A layout above the bounds is
    /// cut to them.
    pub fn with(layout: Layout) -> Self {
        Self {
            bytes: BytesMut::new(),
            lengths: Vec::new(),
            segments: Vec::new(),
            heads: Vec::new(),
            layout: Layout {
                longest: layout.longest.min(layout.max_bytes).min(MAX_SUPER_PACKET),
                headroom: layout.headroom.min(MAX_HEADROOM),
                ..layout
            },
        }
    }

    /// The layout of this batch.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Adds a copy of `packet`, which may be empty.
    ///
    /// # Errors
    /// [`PushError`], with the batch unchanged.
    pub fn push(&mut self, packet: &[u8]) -> Result<(), PushError> {
        if packet.len() > self.layout.longest {
            return Err(PushError::TooLong);
        }
        if self.layout.headroom > 0 {
            return self.push_behind_headroom(packet);
        }

        let taken = self.bytes.len();
        self.append(packet, taken)
    }

    /// As [`Batch::push`], with room for heads before it.
    fn push_behind_headroom(&mut self, packet: &[u8]) -> Result<(), PushError> {
        let headroom = self.layout.headroom;
        let before = self.bytes.len();
        let taken = before - self.lengths.len() * headroom;
        self.bytes.resize(before + headroom, 0);

        let appended = self.append(packet, taken);
        match appended {
            Ok(()) => self.heads.push(0),
            Err(_) => self.bytes.truncate(before),
        }

        appended
    }

    /// Appends a packet, where the packets that are there have `taken` bytes.
    fn append(&mut self, packet: &[u8], taken: usize) -> Result<(), PushError> {
        if self.lengths.len() == self.layout.max_packets
            || taken + packet.len() > self.layout.max_bytes
        {
            return Err(if self.layout.max_packets == 0 {
                PushError::TooLong
            } else {
                PushError::Full
            });
        }

        self.bytes.extend_from_slice(packet);
        self.lengths.push(packet.len() as u32);
        Ok(())
    }

    /// Adds a copy of a super-packet, whose payload is to be cut into segments of `segment_size`
    /// bytes. A payload of one segment is added as an ordinary packet.
    ///
    /// # Errors
    /// [`PushError`], with the batch unchanged: too long is every one where the layout has no super-packets.
    pub fn push_super_packet(
        &mut self,
        packet: &[u8],
        segment_size: usize,
    ) -> Result<(), PushError> {
        if segment_size == 0 || segment_size >= packet.len() {
            return self.push(packet);
        }
        if !self.layout.super_packets {
            return Err(PushError::TooLong);
        }

        self.push(packet)?;
        if let Some(length) = self.lengths.last_mut() {
            *length |= SUPER;
        }

        self.segments.push(segment_size as u32);
        Ok(())
    }

    /// Writes a head directly before each packet, and before the head that it has: `write` sees both and appends the new one.
    ///
    /// # Errors
    /// [`NoHeadroom`]; packets before that one have their heads.
    pub fn prepend(
        &mut self,
        mut write: impl FnMut(&[u8], &mut BytesMut),
    ) -> Result<(), NoHeadroom> {
        let headroom = self.layout.headroom;
        let mut head = BytesMut::new();
        let mut at = 0;

        for (index, &length) in self.lengths.iter().enumerate() {
            let taken = self.heads.get(index).map_or(0, |taken| usize::from(*taken));
            let start = at + headroom - taken;
            let end = at + headroom + (length & !SUPER) as usize;

            head.clear();
            write(&self.bytes[start..end], &mut head);
            if head.len() > headroom - taken {
                return Err(NoHeadroom(head.len()));
            }

            self.bytes[start - head.len()..start].copy_from_slice(&head);
            if let Some(heads) = self.heads.get_mut(index) {
                *heads = (taken + head.len()) as u8;
            }

            at = end;
        }

        Ok(())
    }

    /// How many packets there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there is no packet. A batch of empty packets is not empty.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// All packets, one after the other, with their headroom before them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes all packets and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.lengths.clear();
        self.segments.clear();
        self.heads.clear();
    }

    /// The packets without their heads, in order; super-packets whole.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let headroom = self.layout.headroom;
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |&length| {
            let (packet, tail) = rest[headroom..].split_at((length & !SUPER) as usize);
            rest = tail;
            packet
        })
    }

    /// The packets, in order, in runs of at most [`MAX_RUN_DATAGRAMS`] and [`MAX_RUN_BYTES`].
    ///
    /// A longer packet is a run by itself. So are an empty one, as it would not be sent as a segment of a run; a super-packet; and
    /// every packet of a batch with headroom.
    pub fn runs(&self) -> impl Iterator<Item = Run<'_>> {
        let headroom = self.layout.headroom;
        let mut bytes = &self.bytes[..];
        let mut lengths = &self.lengths[..];
        let mut segments = self.segments.iter();
        let mut heads = self.heads.iter();

        std::iter::from_fn(move || {
            let &first = lengths.first()?;
            if headroom > 0 || first & SUPER != 0 {
                let head = heads.next().map_or(0, |head| usize::from(*head));
                let length = (first & !SUPER) as usize;
                let segment_size = match first & SUPER {
                    0 => length,
                    _ => segments.next().map_or(length, |size| *size as usize),
                };

                let (packet, tail) = bytes.split_at(headroom + length);
                bytes = tail;
                lengths = &lengths[1..];
                return Some(Run {
                    // The head ends where the packet begins.
                    bytes: &packet[headroom - head..],
                    segment_size,
                    count: 1,
                    head,
                });
            }

            let (count, size) = first_run(lengths)?;
            let (run, tail) = bytes.split_at(size);
            bytes = tail;
            lengths = &lengths[count..];

            Some(Run {
                bytes: run,
                segment_size: first as usize,
                count,
                head: 0,
            })
        })
    }
}

/// How many packets, and how many bytes, make the first run.
fn first_run(lengths: &[u32]) -> Option<(usize, usize)> {
    let (&first, others) = lengths.split_first()?;
    let mut count = 1;
    let mut size = first as usize;

    for &length in others.iter().take(MAX_RUN_DATAGRAMS - 1) {
        if length == 0 || length > first || size + length as usize > MAX_RUN_BYTES {
            break;
        }
        count += 1;
        size += length as usize;

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

    #[test]
    fn keeps_super_packets_whole_and_apart() {
        let mut batch = Batch::with(Layout {
            headroom: 0,
            ..Layout::DEVICE
        });
        let long = vec![7; 200_000];
        batch.push(&[1; 1400]).unwrap();
        batch.push_super_packet(&long, 1400).unwrap();
        batch.push_super_packet(&[2; 1400], 1400).unwrap();
        batch.push(&[3; 1400]).unwrap();
        assert_eq!(
            shape(&batch),
            [(1400, 1400, 1), (200_000, 1400, 1), (2800, 1400, 2)]
        );
        let is_super: Vec<_> = batch.runs().map(|run| run.is_super_packet()).collect();
        assert_eq!(is_super, [false, true, false]);
        assert_eq!(batch.iter().nth(1), Some(&long[..]));
        assert_eq!(
            batch.push(&vec![0; MAX_SUPER_PACKET + 1]),
            Err(PushError::TooLong)
        );
    }

    #[test]
    fn a_head_that_does_not_fit_is_refused() {
        let mut roomy = Batch::with(Layout {
            headroom: 3,
            ..Layout::UDP
        });
        roomy.push(b"a").unwrap();
        let head = |length: usize| move |_: &[u8], head: &mut BytesMut| head.resize(length, 9);
        assert_eq!(roomy.prepend(head(2)), Ok(()));
        assert_eq!(roomy.prepend(head(2)), Err(NoHeadroom(2)));
        assert_eq!(roomy.prepend(head(1)), Ok(()));
        assert_eq!(roomy.runs().next().unwrap().bytes, b"\x09\x09\x09a");
        assert_eq!(batch(&[4]).prepend(head(1)), Err(NoHeadroom(1)));
    }

    proptest! {
        #[test]
        fn heads_go_before_their_packets_and_change_none(
            packets in proptest::collection::vec((0_usize..3000, 0_usize..1500), 0..60),
            headroom in 9_usize..=MAX_HEADROOM,
        ) {
            let mut batch = Batch::with(Layout { headroom, ..Layout::DEVICE });
            let packets: Vec<_> = packets
                .iter()
                .enumerate()
                .map(|(number, &(length, segment))| (vec![number as u8; length], segment))
                .collect();
            for (packet, segment) in &packets {
                batch.push_super_packet(packet, *segment).unwrap();
            }
            // A context ID, then the length of all, as a capsule has it.
            batch.prepend(|_, head| head.extend_from_slice(&[0])).unwrap();
            batch
                .prepend(|packet, head| crate::varint::encode(packet.len() as u64, head))
                .unwrap();

            prop_assert!(batch.iter().eq(packets.iter().map(|(packet, _)| &packet[..])));
            prop_assert_eq!(batch.runs().count(), packets.len());
            for (run, (packet, segment)) in batch.runs().zip(&packets) {
                let (head, rest) = run.bytes.split_at(run.head);
                prop_assert_eq!(rest, &packet[..]);
                let mut length = head;
                prop_assert_eq!(crate::varint::decode(&mut length), Some(packet.len() as u64 + 1));
                prop_assert_eq!(length, &[0]);
                prop_assert_eq!(run.is_super_packet(), (1..packet.len()).contains(segment));
                let expected = if run.is_super_packet() { *segment } else { packet.len() };
                prop_assert_eq!(run.segment_size, expected);
            }

            batch.clear();
            prop_assert!(batch.is_empty() && batch.runs().next().is_none());
        }

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
