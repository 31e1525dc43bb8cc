//! The content of a UDP datagram of custody.

use bytes::{BufMut, Bytes, BytesMut};

use super::CustodyError;

/// The longest datagram, in bytes: the most that fits an Ethernet frame under IPv6 and UDP.
#[doc(alias = "bound")]
pub const MAX_CUSTODY_DATAGRAM: usize = 1452;

/// The length of a cookie, in bytes.
pub const COOKIE: usize = 16;

/// The length of the header before the sealed part of a datagram, in bytes.
pub const PACKET_HEADER: usize = 1 + 4 + 8;

/// Version 1, in the high half of the first byte.
const VERSION: u8 = 0x10;

/// A datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CustodyPacket {
    /// Asks for keys.
    Hello {
        /// The sender's name for the keys.
        epoch: u32,
        /// The cookie of the other side's RETRY; zero if there was no RETRY yet.
        cookie: [u8; COOKIE],
        /// The first message of the handshake.
        message: Bytes,
    },
    /// Asks for the HELLO again, with a cookie that shows that its sender receives at its address.
    Retry {
        /// The epoch of the HELLO.
        epoch: u32,
        /// The cookie to repeat.
        cookie: [u8; COOKIE],
    },
    /// Answers a HELLO.
    Answer {
        /// The epoch of the HELLO.
        epoch: u32,
        /// The answering side's name for the keys.
        own: u32,
        /// The second message of the handshake.
        message: Bytes,
    },
    /// Carries frames.
    Sealed {
        /// The receiver's name for the keys.
        epoch: u32,
        /// The number of the packet under these keys, never used twice.
        number: u64,
        /// The frames, sealed.
        sealed: Bytes,
    },
}

impl CustodyPacket {
    /// Takes a datagram apart.
    ///
    /// # Errors
    /// The datagram is not custody's, or is cut off; drop it.
    pub fn decode(datagram: &Bytes) -> Result<Self, CustodyError> {
        let mut rest = &datagram[..];
        let [kind] = take(&mut rest)?;
        let epoch = u32::from_be_bytes(take(&mut rest)?);

        let packet = match kind.checked_sub(VERSION) {
            Some(1) => Self::Hello {
                epoch,
                cookie: take(&mut rest)?,
                message: datagram.slice_ref(rest),
            },
            Some(2) => {
                let cookie = take(&mut rest)?;
                if !rest.is_empty() {
                    return Err(CustodyError::Invalid("the length of RETRY"));
                }
                Self::Retry { epoch, cookie }
            }
            Some(3) => Self::Answer {
                epoch,
                own: u32::from_be_bytes(take(&mut rest)?),
                message: datagram.slice_ref(rest),
            },
            Some(4) => Self::Sealed {
                epoch,
                number: u64::from_be_bytes(take(&mut rest)?),
                sealed: datagram.slice_ref(rest),
            },
            _ => return Err(CustodyError::Unknown),
        };

        Ok(packet)
    }

    /// The datagram.
    pub fn encode(&self) -> Bytes {
        let mut output = BytesMut::with_capacity(MAX_CUSTODY_DATAGRAM);
        match self {
            Self::Hello {
                epoch,
                cookie,
                message,
            } => {
                output.put_u8(VERSION + 1);
                output.put_u32(*epoch);
                output.put_slice(cookie);
                output.put_slice(message);
            }
            Self::Retry { epoch, cookie } => {
                output.put_u8(VERSION + 2);
                output.put_u32(*epoch);
                output.put_slice(cookie);
            }
            Self::Answer {
                epoch,
                own,
                message,
            } => {
                output.put_u8(VERSION + 3);
                output.put_u32(*epoch);
                output.put_u32(*own);
                output.put_slice(message);
            }
            Self::Sealed {
                epoch,
                number,
                sealed,
            } => {
                output.put_u8(VERSION + 4);
                output.put_u32(*epoch);
                output.put_u64(*number);
                output.put_slice(sealed);
            }
        }

        output.freeze()
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], CustodyError> {
    let (taken, after) = rest.split_first_chunk().ok_or(CustodyError::Truncated)?;
    *rest = after;
    Ok(*taken)
}

/// A datagram that decodes encodes to the same bytes.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let datagram = Bytes::copy_from_slice(data);
    if let Ok(packet) = CustodyPacket::decode(&datagram) {
        assert_eq!(packet.encode(), datagram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_layout() {
        let cookie = [7; COOKIE];
        let message = Bytes::from_static(b"message");
        let hello = CustodyPacket::Hello {
            epoch: 1,
            cookie,
            message: message.clone(),
        };
        assert_eq!(hello.encode()[..6], [0x11, 0, 0, 0, 1, 7]);
        assert_eq!(&hello.encode()[21..], b"message");

        let retry = CustodyPacket::Retry { epoch: 1, cookie };
        assert_eq!(retry.encode().len(), 21);
        let answer = CustodyPacket::Answer {
            epoch: 1,
            own: 2,
            message: message.clone(),
        };
        assert_eq!(answer.encode()[..9], [0x13, 0, 0, 0, 1, 0, 0, 0, 2]);

        let sealed = CustodyPacket::Sealed {
            epoch: 1,
            number: 3,
            sealed: message,
        };
        assert_eq!(sealed.encode().len(), PACKET_HEADER + 7);
        for packet in [hello, retry, answer, sealed] {
            assert_eq!(CustodyPacket::decode(&packet.encode()), Ok(packet));
        }
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_refused() {
        let decode = |bytes: &'static [u8]| CustodyPacket::decode(&Bytes::from_static(bytes));
        assert_eq!(decode(b""), Err(CustodyError::Truncated));
        assert_eq!(decode(b"\x14\0\0\0\0\0\0"), Err(CustodyError::Truncated));
        for unknown in [b"\x10\0\0\0\0", b"\x15\0\0\0\0", b"\x21\0\0\0\0"] {
            assert_eq!(decode(unknown), Err(CustodyError::Unknown));
        }
        let long = [b"\x12\0\0\0\0".to_vec(), vec![0; COOKIE + 1]].concat();
        assert!(CustodyPacket::decode(&long.into()).is_err());
    }

    #[test]
    fn a_retry_is_shorter_than_any_hello() {
        let hello = CustodyPacket::Hello {
            epoch: 0,
            cookie: [0; COOKIE],
            message: Bytes::new(),
        };
        let retry = CustodyPacket::Retry {
            epoch: 0,
            cookie: [0; COOKIE],
        };
        assert!(retry.encode().len() <= hello.encode().len());
    }
}
