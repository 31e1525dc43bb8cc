//! UDP in HTTP datagrams (RFC 9298, section 5): a context ID, then a payload. Context 0 carries UDP payloads.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::capsule::{self, CapsuleType};
use crate::varint;

/// The context of UDP payloads.
pub const UDP_CONTEXT: u64 = 0;

/// The longest UDP payload, in bytes (RFC 9298, section 5).
#[doc(alias = "bound")]
pub const MAX_UDP_PAYLOAD: usize = 65_527;

/// The longest IP packet, in bytes: the header of IPv6, and the longest payload that its length
/// field can express (RFC 9484, section 6).
#[doc(alias = "bound")]
pub const MAX_IP_PACKET: usize = 40 + 65_535;

/// The longest value of a DATAGRAM capsule that holds a UDP payload, in bytes, with room for a context ID written at length. Decoders
/// of tunnels are limited by [`DatagramFormat::max_capsule`], which is this for UDP; those of CONNECT-UDP Bind, by this.
#[doc(alias = "bound")]
pub const MAX_UDP_CAPSULE: u64 = (varint::MAX_SIZE + MAX_UDP_PAYLOAD) as u64;

/// Why an HTTP datagram is no good. The stream must be aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The context ID is missing or cut off.
    #[error("an HTTP datagram ends before its context ID does")]
    NoContext,
    /// A UDP payload above [`MAX_UDP_PAYLOAD`].
    #[error("a UDP payload has {0} bytes, above the {MAX_UDP_PAYLOAD} that UDP can carry")]
    TooLong(usize),
    /// The packet is longer than its end can carry.
    #[error("a packet has {0} bytes, above the {1} that can be carried here")]
    TooLarge(usize, usize),
}

/// An HTTP datagram of a CONNECT-UDP session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpDatagram {
    /// The kind of payload: 0 for UDP; drop any other that was not agreed on.
    pub context: u64,
    /// The rest, sharing memory with the datagram.
    pub payload: Bytes,
}

impl UdpDatagram {
    /// Splits the payload of an HTTP datagram, which is also the value of a DATAGRAM capsule.
    ///
    /// # Errors
    /// [`DatagramError`], upon which the stream must be aborted (RFC 9298, section 5).
    pub fn decode(mut datagram: Bytes) -> Result<Self, DatagramError> {
        let mut rest = &datagram[..];
        let context = varint::decode(&mut rest).ok_or(DatagramError::NoContext)?;
        datagram.advance(datagram.len() - rest.len());

        if context == UDP_CONTEXT && datagram.len() > MAX_UDP_PAYLOAD {
            return Err(DatagramError::TooLong(datagram.len()));
        }
        Ok(Self {
            context,
            payload: datagram,
        })
    }
}

/// How an end writes packets into HTTP datagrams: their context ID, and how large they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramFormat {
    context: u64,
    /// The context as it is written, and how long that is.
    written: [u8; varint::MAX_SIZE],
    size: usize,
    largest: usize,
}

impl DatagramFormat {
    /// UDP payloads.
    pub const UDP: Self = Self {
        context: UDP_CONTEXT,
        written: [0; varint::MAX_SIZE],
        size: 1,
        largest: MAX_UDP_PAYLOAD,
    };

    /// IP packets, which have the same context in CONNECT-IP.
    pub const IP: Self = Self {
        largest: MAX_IP_PACKET,
        ..Self::UDP
    };

    /// Packets of up to `largest` bytes in this context. `None` for a number that no context ID can have.
    pub fn new(context: u64, largest: usize) -> Option<Self> {
        if context > varint::MAX {
            return None;
        }
        let mut encoded = BytesMut::new();
        varint::encode(context, &mut encoded);
        let size = encoded.len();
        let mut written = [0; varint::MAX_SIZE];
        written[..size].copy_from_slice(&encoded);

        Some(Self {
            context,
            written,
            size,
            largest,
        })
    }

    /// The context.
    pub fn context(&self) -> u64 {
        self.context
    }

    /// The context as it stands before each packet.
    pub fn prefix(&self) -> &[u8] {
        &self.written[..self.size]
    }

    /// The largest packet, in bytes.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// The longest value of a DATAGRAM capsule with such a packet, in bytes, with room for a context ID written at length.
    pub fn max_capsule(&self) -> u64 {
        (varint::MAX_SIZE + self.largest) as u64
    }

    /// Splits the payload of an HTTP datagram, which is also the value of a DATAGRAM capsule; `None` for one of another context,
    /// which is to be dropped (RFC 9298, 4).
    ///
    /// # Errors
    /// [`DatagramError`], upon which the stream must be aborted.
    pub fn decode(&self, mut datagram: Bytes) -> Result<Option<Bytes>, DatagramError> {
        let mut rest = &datagram[..];
        let context = varint::decode(&mut rest).ok_or(DatagramError::NoContext)?;
        datagram.advance(datagram.len() - rest.len());

        if context != self.context {
            return Ok(None);
        }
        match datagram.len() {
            size if size <= self.largest => Ok(Some(datagram)),
            size if *self == Self::UDP => Err(DatagramError::TooLong(size)),
            size => Err(DatagramError::TooLarge(size, self.largest)),
        }
    }

    /// Appends a DATAGRAM capsule with a packet.
    ///
    /// # Errors
    /// The packet is too large, with `output` untouched: the peer would have to abort the stream.
    pub fn encode_capsule(
        &self,
        packet: &[u8],
        output: &mut BytesMut,
    ) -> Result<(), DatagramError> {
        if packet.len() > self.largest {
            return Err(DatagramError::TooLarge(packet.len(), self.largest));
        }
        let length = self.size + packet.len();
        output.reserve(capsule::MAX_HEADER + length);
        capsule::encode_header(CapsuleType::Datagram, length as u64, output);
        output.put_slice(self.prefix());
        output.put_slice(packet);

        Ok(())
    }
}

/// Appends a DATAGRAM capsule with context 0 and `payload`: capsule header, context, payload.
///
/// # Errors
/// [`DatagramError::TooLong`], with `output` untouched: the peer would have to abort the stream.
pub fn encode_udp_capsule(payload: &[u8], output: &mut BytesMut) -> Result<(), DatagramError> {
    if payload.len() > MAX_UDP_PAYLOAD {
        return Err(DatagramError::TooLong(payload.len()));
    }
    output.reserve(capsule::MAX_HEADER + 1 + payload.len());
    capsule::encode_header(CapsuleType::Datagram, 1 + payload.len() as u64, output);
    output.put_u8(UDP_CONTEXT as u8);
    output.put_slice(payload);

    Ok(())
}

/// Decodes arbitrary bytes as an HTTP datagram: the payload is its tail, and a UDP payload survives a round trip.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Ok(datagram) = UdpDatagram::decode(Bytes::copy_from_slice(data)) else {
        return;
    };
    assert!(data.ends_with(&datagram.payload));
    assert_eq!(data.len() - datagram.payload.len(), 1 << (data[0] >> 6));

    if datagram.context != UDP_CONTEXT {
        return;
    }
    let mut output = BytesMut::new();
    assert_eq!(encode_udp_capsule(&datagram.payload, &mut output), Ok(()));
    let mut decoder = capsule::CapsuleDecoder::new(MAX_UDP_CAPSULE);
    decoder.push(output.freeze());
    let Ok(Some(found)) = decoder.next() else {
        panic!("an encoded capsule is decoded")
    };

    assert_eq!(found.kind, CapsuleType::Datagram);
    assert_eq!(UdpDatagram::decode(found.value), Ok(datagram));
    assert_eq!(decoder.finish(), Ok(()));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn splits_context_and_payload() {
        let decode = |bytes: &'static [u8]| UdpDatagram::decode(Bytes::from_static(bytes));
        assert_eq!(
            decode(b"\0abc"),
            Ok(UdpDatagram {
                context: 0,
                payload: Bytes::from_static(b"abc")
            })
        );
        assert_eq!(
            decode(b"\x44\xd2x"),
            Ok(UdpDatagram {
                context: 1234,
                payload: Bytes::from_static(b"x")
            })
        );
        assert_eq!(
            decode(b"\0"),
            Ok(UdpDatagram {
                context: 0,
                payload: Bytes::new()
            })
        );
    }

    #[test]
    fn refuses_a_datagram_without_a_whole_context_id() {
        assert_eq!(
            UdpDatagram::decode(Bytes::new()),
            Err(DatagramError::NoContext)
        );
        assert_eq!(
            UdpDatagram::decode(Bytes::from_static(&[0xc0, 0, 0])),
            Err(DatagramError::NoContext)
        );
    }

    #[test]
    fn refuses_a_udp_payload_above_65527_bytes() {
        let longest = vec![0; 1 + MAX_UDP_PAYLOAD];
        assert!(UdpDatagram::decode(longest.into()).is_ok());
        let longer = vec![0; 2 + MAX_UDP_PAYLOAD];
        assert_eq!(
            UdpDatagram::decode(longer.into()),
            Err(DatagramError::TooLong(65_528))
        );
    }

    #[test]
    fn leaves_the_length_of_other_contexts_alone() {
        assert!(UdpDatagram::decode(vec![2; 70_000].into()).is_ok());
    }

    #[test]
    fn writes_type_0_length_and_context_0() {
        let mut output = BytesMut::from("before");
        encode_udp_capsule(b"ab", &mut output).unwrap();
        encode_udp_capsule(&[7; 63], &mut output).unwrap();
        assert_eq!(output[..11], *b"before\0\x03\0ab");
        assert_eq!(output[11..15], [0, 0x40, 0x40, 0]);
    }

    #[test]
    fn writes_nothing_of_a_payload_that_is_too_long() {
        let mut output = BytesMut::new();
        assert!(encode_udp_capsule(&vec![0; MAX_UDP_PAYLOAD + 1], &mut output).is_err());
        assert!(output.is_empty());
        assert!(encode_udp_capsule(&vec![0; MAX_UDP_PAYLOAD], &mut output).is_ok());
    }

    #[test]
    fn the_format_of_udp_is_what_a_udp_capsule_has() {
        let mut one = BytesMut::new();
        let mut other = BytesMut::new();
        encode_udp_capsule(b"abc", &mut one).unwrap();
        DatagramFormat::UDP
            .encode_capsule(b"abc", &mut other)
            .unwrap();
        assert_eq!(one, other);
        assert_eq!(DatagramFormat::UDP.max_capsule(), MAX_UDP_CAPSULE);
        assert_eq!(
            DatagramFormat::new(UDP_CONTEXT, MAX_UDP_PAYLOAD),
            Some(DatagramFormat::UDP)
        );
        let long = vec![0; MAX_UDP_PAYLOAD + 2];
        assert_eq!(
            DatagramFormat::UDP.decode(Bytes::from(long)),
            Err(DatagramError::TooLong(MAX_UDP_PAYLOAD + 1))
        );
    }

    #[test]
    fn no_context_is_above_what_a_varint_holds() {
        assert!(DatagramFormat::new(varint::MAX, 1).is_some());
        assert!(DatagramFormat::new(varint::MAX + 1, 1).is_none());
    }

    proptest! {
        #[test]
        fn packets_of_any_format_survive_a_round_trip(
            context in prop_oneof![0..70_u64, 0..=varint::MAX],
            packet in proptest::collection::vec(any::<u8>(), 0..300),
            largest in 200_usize..300,
        ) {
            let format = DatagramFormat::new(context, largest).unwrap();
            let mut output = BytesMut::new();
            let encoded = format.encode_capsule(&packet, &mut output);
            if packet.len() > largest {
                prop_assert_eq!(encoded, Err(DatagramError::TooLarge(packet.len(), largest)));
                prop_assert!(output.is_empty());
                return Ok(());
            }
            let mut decoder = capsule::CapsuleDecoder::new(format.max_capsule());
            decoder.push(output.freeze());
            let value = decoder.next().unwrap().unwrap().value;
            prop_assert!(value.starts_with(format.prefix()));
            prop_assert_eq!(format.decode(value.clone()), Ok(Some(Bytes::from(packet))));
            let other = DatagramFormat::new(context ^ 1, largest).unwrap();
            prop_assert_eq!(other.decode(value), Ok(None));
        }

        #[test]
        fn survives_a_round_trip(payload in proptest::collection::vec(any::<u8>(), 0..3000)) {
            let mut datagram = vec![0];
            datagram.extend_from_slice(&payload);
            fuzz_one(&datagram);
        }
    }
}
