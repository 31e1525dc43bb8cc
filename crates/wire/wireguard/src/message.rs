//! The four messages of WireGuard (section 5.4 of its paper); the first byte is the type.

pub(crate) use hermes_noise::TAG;

/// Bytes around a packet: the header of its message and the tag.
pub const OVERHEAD: usize = HEADER + TAG;

/// The length of a MAC, in bytes.
pub(crate) const MAC: usize = 16;

/// The header of a message with data: its type, the index of its session, and its number.
pub(crate) const HEADER: usize = 16;

/// The Noise part of an initiation: two keys, one of them sealed, and a sealed timestamp.
pub(crate) const FIRST: usize = 32 + 32 + TAG + 12 + TAG;

/// The Noise part of a response: a key, and an empty sealed payload.
pub(crate) const SECOND: usize = 32 + TAG;

/// The length of an initiation, in bytes.
pub(crate) const INITIATION: usize = 8 + FIRST + 2 * MAC;

/// The length of a response, in bytes.
pub(crate) const RESPONSE: usize = 12 + SECOND + 2 * MAC;

/// The length of a cookie with its tag, in bytes.
pub(crate) const SEALED_COOKIE: usize = 16 + TAG;

/// The length of a cookie reply, in bytes.
pub(crate) const COOKIE_REPLY: usize = 8 + 24 + SEALED_COOKIE;

/// The first byte of each; the three behind it are zero.
const KIND_INITIATION: u8 = 1;
const KIND_RESPONSE: u8 = 2;
const KIND_COOKIE: u8 = 3;
const KIND_DATA: u8 = 4;

/// A message, as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// Someone begins a handshake.
    Initiation(Initiation<'a>),
    /// The answer to one.
    Response(Response<'a>),
    /// Instead of an answer: proof of an address, which the next initiation is to have.
    Cookie(Cookie<'a>),
    /// A packet.
    Data(Data<'a>),
}

/// Someone begins a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Initiation<'a> {
    /// The sender's index of the session.
    pub(crate) sender: u32,
    pub(crate) noise: &'a [u8; FIRST],
    pub(crate) macs: Macs<'a>,
}

/// The answer to an initiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response<'a> {
    pub(crate) sender: u32,
    /// The index that the initiation named.
    pub(crate) receiver: u32,
    pub(crate) noise: &'a [u8; SECOND],
    pub(crate) macs: Macs<'a>,
}

/// The end of a message of a handshake: `first` is over all before it, `second` also over `first`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Macs<'a> {
    pub(crate) covered: &'a [u8],
    pub(crate) first: &'a [u8; MAC],
    pub(crate) second: &'a [u8; MAC],
    /// The bytes that `second` covers.
    pub(crate) covered_by_second: &'a [u8],
}

/// A cookie, sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cookie<'a> {
    pub(crate) receiver: u32,
    pub(crate) nonce: &'a [u8; 24],
    pub(crate) sealed: &'a [u8; SEALED_COOKIE],
}

/// A packet, sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Data<'a> {
    pub(crate) receiver: u32,
    pub(crate) number: u64,
    /// With its tag.
    pub(crate) sealed: &'a [u8],
}

impl<'a> Message<'a> {
    /// Decodes a datagram; `None` if it is not a message, or has a wrong length.
    pub(crate) fn decode(datagram: &'a [u8]) -> Option<Self> {
        // The three bytes behind the type are reserved, and zero.
        let ([kind, 0, 0, 0], rest) = datagram.split_first_chunk()? else {
            return None;
        };
        let (index, rest) = rest.split_first_chunk()?;
        let index = u32::from_le_bytes(*index);

        match (*kind, datagram.len()) {
            (KIND_INITIATION, INITIATION) => Some(Self::Initiation(Initiation {
                sender: index,
                noise: rest.first_chunk()?,
                macs: Macs::of(datagram)?,
            })),
            (KIND_RESPONSE, RESPONSE) => {
                let (receiver, rest) = rest.split_first_chunk()?;
                Some(Self::Response(Response {
                    sender: index,
                    receiver: u32::from_le_bytes(*receiver),
                    noise: rest.first_chunk()?,
                    macs: Macs::of(datagram)?,
                }))
            }
            (KIND_COOKIE, COOKIE_REPLY) => {
                let (nonce, rest) = rest.split_first_chunk()?;
                Some(Self::Cookie(Cookie {
                    receiver: index,
                    nonce,
                    sealed: rest.first_chunk()?,
                }))
            }
            // Data may be empty: a message with nothing but its tag is a keepalive.
            (KIND_DATA, OVERHEAD..) => {
                let (number, sealed) = rest.split_first_chunk()?;
                Some(Self::Data(Data {
                    receiver: index,
                    number: u64::from_le_bytes(*number),
                    sealed,
                }))
            }
            _ => None,
        }
    }
}

impl<'a> Macs<'a> {
    fn of(datagram: &'a [u8]) -> Option<Self> {
        let (covered_by_second, second) = datagram.split_last_chunk()?;
        let (covered, first) = covered_by_second.split_last_chunk()?;
        Some(Self {
            covered,
            first,
            second,
            covered_by_second,
        })
    }
}

/// An initiation without its MACs.
pub(crate) fn encode_initiation(sender: u32, noise: &[u8; FIRST]) -> Vec<u8> {
    let mut message = Vec::with_capacity(INITIATION);
    begin(&mut message, KIND_INITIATION, sender);
    message.extend_from_slice(noise);
    message
}

/// A response without its MACs.
pub(crate) fn encode_response(sender: u32, receiver: u32, noise: &[u8; SECOND]) -> Vec<u8> {
    let mut message = Vec::with_capacity(RESPONSE);
    begin(&mut message, KIND_RESPONSE, sender);
    message.extend_from_slice(&receiver.to_le_bytes());
    message.extend_from_slice(noise);
    message
}

/// A cookie reply.
pub(crate) fn encode_cookie(cookie: &Cookie<'_>) -> Vec<u8> {
    let mut message = Vec::with_capacity(COOKIE_REPLY);
    begin(&mut message, KIND_COOKIE, cookie.receiver);
    message.extend_from_slice(cookie.nonce);
    message.extend_from_slice(cookie.sealed);
    message
}

/// The header of a message with data.
pub(crate) fn data_header(receiver: u32, number: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = KIND_DATA;
    header[4..8].copy_from_slice(&receiver.to_le_bytes());
    header[8..].copy_from_slice(&number.to_le_bytes());
    header
}

fn begin(message: &mut Vec<u8>, kind: u8, index: u32) {
    message.extend_from_slice(&[kind, 0, 0, 0]);
    message.extend_from_slice(&index.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lengths_are_those_of_the_paper() {
        assert_eq!(
            [INITIATION, RESPONSE, COOKIE_REPLY, OVERHEAD],
            [148, 92, 64, 32]
        );
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut message = encode_initiation(7, &[1; FIRST]);
        message.extend_from_slice(&[2; MAC]);
        message.extend_from_slice(&[3; MAC]);
        let Some(Message::Initiation(initiation)) = Message::decode(&message) else {
            panic!("{message:?}");
        };
        assert_eq!((initiation.sender, initiation.noise), (7, &[1; FIRST]));
        assert_eq!(initiation.macs.first, &[2; MAC]);
        assert_eq!(initiation.macs.second, &[3; MAC]);
        assert_eq!(initiation.macs.covered, &message[..INITIATION - 32]);

        let header = data_header(9, 1 << 40);
        let message = [&header[..], &[5; TAG][..]].concat();
        let expected = Data {
            receiver: 9,
            number: 1 << 40,
            sealed: &[5; TAG],
        };
        assert_eq!(Message::decode(&message), Some(Message::Data(expected)));
    }

    #[test]
    fn other_lengths_and_reserved_bytes_are_refused() {
        let mut message = encode_response(7, 8, &[1; SECOND]);
        message.extend_from_slice(&[0; 2 * MAC]);
        assert!(Message::decode(&message).is_some());
        assert!(Message::decode(&message[1..]).is_none());
        message[2] = 1;
        assert!(Message::decode(&message).is_none());
        assert!(Message::decode(&[4, 0, 0, 0]).is_none());
    }
}
