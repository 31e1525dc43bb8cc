//! SETTINGS (RFC 9113, section 6.5; RFC 8441, section 3; RFC 9218, section 2.1).

use bytes::{BufMut, BytesMut};

use super::frame::LEAST_FRAME_SIZE;
use super::reason::{ConnectionError, Reason};

/// Bytes of every window before anyone says otherwise (RFC 9113, section 6.9.2).
pub(super) const FIRST_WINDOW: u32 = 65_535;

/// Streams that we open at once before the peer's SETTINGS are here: as many as every server should allow (RFC 9113, section 6.5.2).
const FIRST_STREAMS: u32 = 100;

/// The largest window (RFC 9113, section 6.9.1).
pub(super) const LARGEST_WINDOW: u32 = i32::MAX as u32;

/// The registry "HTTP/2 Settings": `identifier (16), value (32)` each.
mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(super) const ENABLE_PUSH: u16 = 0x2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(super) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    pub(super) const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
}

/// The peer's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSettings {
    /// Bytes of the dynamic table that our encoder may use: the least that was ever said, for a section has to tell of each time that
    /// it got smaller, be it for a moment (RFC 7541, section 4.2).
    pub header_table: u32,
    /// Streams that we may have open at once.
    pub streams: u32,
    /// Bytes that we may send on a new stream.
    pub window: u32,
    /// Bytes of the largest frame that it takes.
    pub frame_size: u32,
    /// Bytes of the largest field section that it takes, if it says so.
    pub header_list: Option<u32>,
    /// Whether it takes extended CONNECT (RFC 8441).
    pub connect_protocol: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            header_table: 4096,
            streams: FIRST_STREAMS,
            window: FIRST_WINDOW,
            frame_size: LEAST_FRAME_SIZE,
            header_list: None,
            connect_protocol: false,
        }
    }
}

impl PeerSettings {
    /// Takes over the content of a SETTINGS frame, one setting after the other; unknown ones are passed over.
    ///
    /// # Errors
    /// A value cannot be, or the length is no multiple of six.
    pub fn apply(&mut self, content: &[u8]) -> Result<(), ConnectionError> {
        let (settings, []) = content.as_chunks::<6>() else {
            return Err(ConnectionError::size("SETTINGS that end within a setting"));
        };
        for [i0, i1, v0, v1, v2, v3] in settings {
            let value = u32::from_be_bytes([*v0, *v1, *v2, *v3]);
            match u16::from_be_bytes([*i0, *i1]) {
                id::HEADER_TABLE_SIZE => self.header_table = self.header_table.min(value),
                // RFC 9113, section 6.5.2: other values than 0 and 1 are an error.
                id::ENABLE_PUSH if value > 1 => {
                    return Err(ConnectionError::protocol("ENABLE_PUSH is neither 0 nor 1"));
                }
                id::MAX_CONCURRENT_STREAMS => self.streams = value,
                // RFC 9113, section 6.5.2: this is FLOW_CONTROL_ERROR, not PROTOCOL_ERROR.
                id::INITIAL_WINDOW_SIZE if value > LARGEST_WINDOW => {
                    return Err(ConnectionError::new(
                        Reason::FLOW_CONTROL_ERROR,
                        "INITIAL_WINDOW_SIZE above the largest window",
                    ));
                }
                id::INITIAL_WINDOW_SIZE => self.window = value,
                id::MAX_FRAME_SIZE if !(LEAST_FRAME_SIZE..1 << 24).contains(&value) => {
                    return Err(ConnectionError::protocol("MAX_FRAME_SIZE out of range"));
                }
                id::MAX_FRAME_SIZE => self.frame_size = value,
                id::MAX_HEADER_LIST_SIZE => self.header_list = Some(value),
                id::ENABLE_CONNECT_PROTOCOL => self.allow_connect_protocol(value)?,
                _ => {}
            }
        }

        Ok(())
    }

    /// RFC 8441, section 3: an offer cannot be taken back.
    fn allow_connect_protocol(&mut self, value: u32) -> Result<(), ConnectionError> {
        match value {
            0 if self.connect_protocol => Err(ConnectionError::protocol(
                "ENABLE_CONNECT_PROTOCOL is taken back",
            )),
            0 | 1 => {
                self.connect_protocol = value == 1;
                Ok(())
            }
            _ => Err(ConnectionError::protocol(
                "ENABLE_CONNECT_PROTOCOL is neither 0 nor 1",
            )),
        }
    }
}

/// Our own settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnSettings {
    /// Bytes that the peer's dynamic table may have.
    pub(super) header_table: u32,
    pub(super) streams: Option<u32>,
    pub(super) window: u32,
    pub(super) frame_size: u32,
    pub(super) header_list: u32,
    /// A server's offer of extended CONNECT; a client forbids pushes instead.
    pub(super) connect_protocol: bool,
}

impl OwnSettings {
    /// The content of the first SETTINGS frame.
    pub(super) fn encode(&self) -> BytesMut {
        let mut output = BytesMut::new();
        if self.connect_protocol {
            put(&mut output, id::ENABLE_CONNECT_PROTOCOL, 1);
        } else {
            put(&mut output, id::ENABLE_PUSH, 0);
        }

        if self.header_table != PeerSettings::default().header_table {
            put(&mut output, id::HEADER_TABLE_SIZE, self.header_table);
        }
        if let Some(streams) = self.streams {
            put(&mut output, id::MAX_CONCURRENT_STREAMS, streams);
        }
        put(&mut output, id::INITIAL_WINDOW_SIZE, self.window);
        if self.frame_size != LEAST_FRAME_SIZE {
            put(&mut output, id::MAX_FRAME_SIZE, self.frame_size);
        }

        put(&mut output, id::MAX_HEADER_LIST_SIZE, self.header_list);
        output
    }
}

/// The content of a SETTINGS frame that changes the window of streams.
pub(super) fn window(size: u32) -> BytesMut {
    let mut output = BytesMut::new();
    put(&mut output, id::INITIAL_WINDOW_SIZE, size);
    output
}

fn put(output: &mut BytesMut, id: u16, value: u32) {
    output.put_u16(id);
    output.put_u32(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(settings: &[(u16, u32)]) -> Result<PeerSettings, Reason> {
        let mut content = BytesMut::new();
        for (id, value) in settings {
            put(&mut content, *id, *value);
        }
        let mut peer = PeerSettings::default();
        peer.apply(&content)
            .map(|()| peer)
            .map_err(|error| error.reason)
    }

    #[test]
    fn what_we_say_is_read_as_it_is_meant() {
        let own = OwnSettings {
            header_table: 0,
            streams: Some(7),
            window: 9,
            frame_size: 20_000,
            header_list: 11,
            connect_protocol: true,
        };
        let mut peer = PeerSettings::default();
        peer.apply(&own.encode()).unwrap();
        assert_eq!(
            peer,
            PeerSettings {
                header_table: 0,
                streams: 7,
                window: 9,
                frame_size: 20_000,
                header_list: Some(11),
                connect_protocol: true
            }
        );
    }

    #[test]
    fn a_table_that_was_small_for_a_moment_stays_small() {
        let moment = [(id::HEADER_TABLE_SIZE, 0), (id::HEADER_TABLE_SIZE, 4096)];
        assert_eq!(applied(&moment).unwrap().header_table, 0);
        assert_eq!(applied(&moment[1..]).unwrap().header_table, 4096);
    }

    #[test]
    fn values_that_cannot_be_are_refused_with_their_code() {
        for (id, value, reason) in [
            (id::ENABLE_PUSH, 2, Reason::PROTOCOL_ERROR),
            (id::INITIAL_WINDOW_SIZE, 1 << 31, Reason::FLOW_CONTROL_ERROR),
            (id::MAX_FRAME_SIZE, 16_383, Reason::PROTOCOL_ERROR),
            (id::MAX_FRAME_SIZE, 1 << 24, Reason::PROTOCOL_ERROR),
            (id::ENABLE_CONNECT_PROTOCOL, 2, Reason::PROTOCOL_ERROR),
        ] {
            assert_eq!(applied(&[(id, value)]), Err(reason), "{id} {value}");
        }
        let back = [
            (id::ENABLE_CONNECT_PROTOCOL, 1),
            (id::ENABLE_CONNECT_PROTOCOL, 0),
        ];
        assert_eq!(applied(&back), Err(Reason::PROTOCOL_ERROR));
        assert_eq!(applied(&[(0x99, 5)]), Ok(PeerSettings::default()));
        assert_eq!(
            PeerSettings::default().apply(&[0; 5]).unwrap_err().reason,
            Reason::FRAME_SIZE_ERROR
        );
    }
}
