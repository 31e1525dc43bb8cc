//! Unidirectional streams: their types, and which of them a peer may open (RFC 9114, section 6.2; RFC 9204, section 4.2).

use super::code::{Code, Fault};
use super::control::Role;
use super::settings::DATAGRAM_GROUPS;
use crate::varint;

/// Types of unidirectional streams, from the registry "HTTP/3 Stream Types".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamType {
    /// `0x00`: settings and other frames about the whole connection.
    Control,
    /// `0x01`: a push.
    Push,
    /// `0x02`: instructions of a QPACK encoder.
    QpackEncoder,
    /// `0x03`: instructions of a QPACK decoder.
    QpackDecoder,
    /// `0x68677270`, of ours: [a group of datagrams](super::datagram_group).
    DatagramGroup,
    /// A type without a name here; those of the form 0x1f * N + 0x21 never mean anything.
    Other(u64),
}

impl From<u64> for StreamType {
    fn from(number: u64) -> Self {
        match number {
            0x00 => Self::Control,
            0x01 => Self::Push,
            0x02 => Self::QpackEncoder,
            0x03 => Self::QpackDecoder,
            DATAGRAM_GROUPS => Self::DatagramGroup,
            _ => Self::Other(number),
        }
    }
}

impl StreamType {
    /// The number on the wire.
    pub fn number(self) -> u64 {
        match self {
            Self::Control => 0x00,
            Self::Push => 0x01,
            Self::QpackEncoder => 0x02,
            Self::QpackDecoder => 0x03,
            Self::DatagramGroup => DATAGRAM_GROUPS,
            Self::Other(number) => number,
        }
    }
}

/// Reads the type that a stream begins with, byte by byte.
#[derive(Debug, Default)]
pub struct TypeDecoder {
    held: [u8; varint::MAX_SIZE],
    length: usize,
}

impl TypeDecoder {
    /// Takes bytes off the front of `input` until the type is complete; `None` when more are needed.
    pub fn handle(&mut self, input: &mut &[u8]) -> Option<StreamType> {
        // Byte by byte: the bytes behind the type belong to the stream.
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            self.held[self.length] = byte;
            self.length += 1;
            if let Some(number) = varint::decode(&mut &self.held[..self.length]) {
                self.length = 0;
                return Some(StreamType::from(number));
            }
        }
        None
    }
}

/// The peer's unidirectional streams.
#[derive(Debug)]
pub struct PeerStreams {
    /// Our role.
    role: Role,
    open: Vec<StreamType>,
}

impl PeerStreams {
    /// No streams are open yet; `role` is ours.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            // Control, QPACK encoder, QPACK decoder.
            open: Vec::with_capacity(3),
        }
    }

    /// The peer has opened a stream of this type; false if its type is unknown, and the stream is to be stopped unread.
    ///
    /// # Errors
    /// A second stream of a critical type, or a push.
    pub fn handle_open(&mut self, kind: StreamType) -> Result<bool, Fault> {
        match kind {
            StreamType::Other(_) => Ok(false),
            StreamType::DatagramGroup => Ok(true),
            StreamType::Push => Err(match self.role {
                // RFC 9114, section 6.2.2: only servers push.
                Role::Server => {
                    Fault::connection(Code::StreamCreationError, "a client opened a push stream")
                }
                // RFC 9114, section 4.6: we never sent MAX_PUSH_ID.
                Role::Client => Fault::connection(Code::IdError, "a push that was not allowed"),
            }),
            // RFC 9114, section 6.2.1; RFC 9204, section 4.2: at most one.
            critical if self.open.contains(&critical) => Err(Fault::connection(
                Code::StreamCreationError,
                "a second stream of a type that there is one of",
            )),
            critical => {
                self.open.push(critical);
                Ok(true)
            }
        }
    }

    /// One of the streams that were taken has ended (RFC 9114, section 6.2.1; RFC 9204, section 4.2).
    pub fn handle_end(&self) -> Fault {
        Fault::connection(
            Code::ClosedCriticalStream,
            "a control or QPACK stream was closed",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_types_lead_to_each_other() {
        for number in 0..70 {
            assert_eq!(StreamType::from(number).number(), number);
        }
        assert_eq!(StreamType::from(2), StreamType::QpackEncoder);
        assert_eq!(StreamType::from(0x54), StreamType::Other(0x54));
        let group = StreamType::DatagramGroup;
        assert_eq!(StreamType::from(group.number()), group);
    }

    #[test]
    fn reads_a_type_in_pieces_and_leaves_what_follows() {
        let mut decoder = TypeDecoder::default();
        assert_eq!(decoder.handle(&mut &[0x40][..]), None);
        let mut rest = &[0x54, 9, 9][..];
        assert_eq!(decoder.handle(&mut rest), Some(StreamType::Other(0x54)));
        assert_eq!(rest, [9, 9]);
        assert_eq!(decoder.handle(&mut &[0][..]), Some(StreamType::Control));
    }

    #[test]
    fn there_is_one_stream_of_each_critical_type() {
        for kind in [
            StreamType::Control,
            StreamType::QpackEncoder,
            StreamType::QpackDecoder,
        ] {
            let mut streams = PeerStreams::new(Role::Server);
            assert_eq!(streams.handle_open(kind), Ok(true));
            assert_eq!(
                streams.handle_open(kind).unwrap_err().code,
                Code::StreamCreationError
            );
        }
    }

    #[test]
    fn unknown_types_are_not_read_however_many_there_are() {
        let mut streams = PeerStreams::new(Role::Client);
        assert!((0..100).all(|_| streams.handle_open(StreamType::Other(0x21)) == Ok(false)));
        assert!(streams.open.is_empty());
    }

    #[test]
    fn no_one_pushes() {
        let refused = |role| {
            PeerStreams::new(role)
                .handle_open(StreamType::Push)
                .unwrap_err()
                .code
        };
        assert_eq!(refused(Role::Server), Code::StreamCreationError);
        assert_eq!(refused(Role::Client), Code::IdError);
    }
}
