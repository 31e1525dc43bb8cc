//! The capsule of super-packets.

use bytes::{BufMut, BytesMut};
use hermes_proto::capsule::{CapsuleType, encode_header};
use hermes_proto::varint;

use super::header::{HEADER_BYTES, OffloadHeader};
use super::segment::segment;

/// The content of a capsule of type [`SuperPacket`](CapsuleType::SuperPacket).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SuperCapsule<'a> {
    /// Its sender takes no super-packets from now on.
    TakesNone,
    /// Its sender takes super-packets in this context from now on.
    Takes(u64),
    /// A super-packet. Nothing in it may be believed before it was [checked](OffloadHeader::check).
    Packet {
        /// The context that was agreed on.
        context: u64,
        /// The work that is left to do on the packet.
        header: OffloadHeader,
        /// The packet.
        packet: &'a [u8],
    },
}

impl<'a> SuperCapsule<'a> {
    /// Reads the value of a capsule; `None` where it is cut off, or its packet is of an unknown kind.
    pub fn decode(mut value: &'a [u8]) -> Option<Self> {
        if value.is_empty() {
            return Some(Self::TakesNone);
        }

        let context = varint::decode(&mut value)?;
        if value.is_empty() {
            return Some(Self::Takes(context));
        }

        let (header, packet) = OffloadHeader::decode(value)?;
        Some(Self::Packet {
            context,
            header,
            packet,
        })
    }

    /// Bytes of its value.
    pub fn length(&self) -> usize {
        match self {
            Self::TakesNone => 0,
            Self::Takes(context) => varint::size(*context),
            Self::Packet {
                context, packet, ..
            } => varint::size(*context) + HEADER_BYTES + packet.len(),
        }
    }

    /// Appends the capsule.
    ///
    /// # Panics
    /// When the context is above [`varint::MAX`].
    pub fn encode(&self, output: &mut BytesMut) {
        encode_header(CapsuleType::SuperPacket, self.length() as u64, output);
        match self {
            Self::TakesNone => {}
            Self::Takes(context) => varint::encode(*context, output),
            Self::Packet {
                context,
                header,
                packet,
            } => {
                varint::encode(*context, output);
                header.encode(output);
                output.put_slice(packet);
            }
        }
    }
}

/// Passes on the segments of the super-packet in the value of a capsule, or nothing if it has no
/// valid one.
pub fn cut_super(value: &[u8], packet: impl FnMut(&[u8])) {
    if let Some(SuperCapsule::Packet {
        header,
        packet: whole,
        ..
    }) = SuperCapsule::decode(value)
        && let Ok(checked) = header.check(whole)
    {
        segment(&checked, &mut Vec::new(), packet);
    }
}

#[cfg(test)]
mod tests {
    use hermes_proto::capsule::CapsuleDecoder;
    use proptest::prelude::*;

    use super::*;

    fn sent(capsule: &SuperCapsule<'_>) -> Vec<u8> {
        let mut output = BytesMut::new();
        capsule.encode(&mut output);
        let mut decoder = CapsuleDecoder::new(1 << 20);
        decoder.push(output.freeze());
        let found = decoder.next().unwrap().unwrap();
        assert_eq!(found.kind, CapsuleType::SuperPacket);
        assert_eq!(decoder.finish(), Ok(()));
        found.value.to_vec()
    }

    #[test]
    fn an_empty_one_takes_none_and_a_context_alone_takes_some() {
        assert_eq!(SuperCapsule::decode(&[]), Some(SuperCapsule::TakesNone));
        assert_eq!(SuperCapsule::decode(&[2]), Some(SuperCapsule::Takes(2)));
        assert_eq!(SuperCapsule::decode(&[0x40]), None);
        assert_eq!(SuperCapsule::decode(&[2, 1, 1, 0, 0]), None);
        // UDP that is cut in fragments (`VIRTIO_NET_HDR_GSO_UDP`), which no one makes any more.
        assert_eq!(
            SuperCapsule::decode(&[2, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0]),
            None
        );
    }

    proptest! {
        #[test]
        fn what_is_sent_is_read(
            context in 0..=varint::MAX,
            packet in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let header = OffloadHeader::DONE;
            let packet = SuperCapsule::Packet { context, header, packet: &packet };
            for capsule in [SuperCapsule::TakesNone, SuperCapsule::Takes(context), packet] {
                let value = sent(&capsule);
                prop_assert_eq!(SuperCapsule::decode(&value), Some(capsule));
            }
        }
    }
}
