//! Records of TLS beside content, as far as they concern the reader.

use std::io;

use rustls::AlertDescription;

/// A record that is no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlRecord {
    /// The peer has closed its direction.
    CloseNotify,
    /// A record without effect: a session ticket.
    Ignored,
    /// The peer broke off, with this alert.
    Alert(u8),
    /// The peer uses other keys from now on.
    KeyUpdate,
    /// A record that TLS 1.3 does not have at this place.
    Unexpected,
}

impl ControlRecord {
    /// The meaning of a record with an alert (RFC 8446, 6).
    #[must_use]
    pub fn alert(content: &[u8]) -> Self {
        match content {
            [_, 0] => Self::CloseNotify,
            [_, number] => Self::Alert(*number),
            _ => Self::Unexpected,
        }
    }

    /// The meaning of a record with messages of a handshake (RFC 8446, 4): type, length of three bytes, content.
    #[must_use]
    pub fn handshake(mut messages: &[u8]) -> Self {
        /// Numbers of the two that may follow a handshake.
        const NEW_SESSION_TICKET: u8 = 4;
        const KEY_UPDATE: u8 = 24;
        while let [of, a, b, c, rest @ ..] = messages {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            match *of {
                NEW_SESSION_TICKET => {}
                KEY_UPDATE => return Self::KeyUpdate,
                _ => return Self::Unexpected,
            }
            messages = rest.get(length..).unwrap_or_default();
        }
        Self::Ignored
    }

    /// Whether the direction has ended; if not, reading goes on.
    ///
    /// # Errors
    /// The connection is of no more use.
    pub(crate) fn is_end(self) -> io::Result<bool> {
        match self {
            Self::CloseNotify => Ok(true),
            Self::Ignored => Ok(false),
            Self::Alert(number) => {
                let alert = AlertDescription::from(number);
                Err(io::Error::other(rustls::Error::AlertReceived(alert)))
            }
            Self::KeyUpdate => Err(io::Error::other(
                "the peer changes its TLS keys, which a node does not follow where the kernel carries TLS",
            )),
            Self::Unexpected => Err(io::Error::other("a TLS record that has no place there")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_records_say_what_follows() {
        assert_eq!(ControlRecord::alert(&[1, 0]), ControlRecord::CloseNotify);
        assert_eq!(ControlRecord::alert(&[2, 20]), ControlRecord::Alert(20));
        assert_eq!(ControlRecord::alert(&[]), ControlRecord::Unexpected);

        let tickets = [4, 0, 0, 2, 7, 7, 4, 0, 0, 0];
        assert_eq!(ControlRecord::handshake(&tickets), ControlRecord::Ignored);
        let update = [&tickets[..], &[24, 0, 0, 1, 0]].concat();
        assert_eq!(ControlRecord::handshake(&update), ControlRecord::KeyUpdate);
        assert_eq!(
            ControlRecord::handshake(&[1, 0, 0, 0]),
            ControlRecord::Unexpected
        );
        assert_eq!(
            ControlRecord::handshake(&[4, 255, 255, 255]),
            ControlRecord::Ignored
        );
    }
}
