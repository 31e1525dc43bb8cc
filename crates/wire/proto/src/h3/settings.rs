//! Settings (RFC 9114, section 7.2.4; RFC 9204, section 5; RFC 9220, section 3; RFC 9297, section 2.1.1).

use bytes::BytesMut;

use super::code::{Code, Fault};
use super::frame::{FrameType, encode};
use crate::varint;

const QPACK_CAPACITY: u64 = 0x01;
const FIELD_SECTION: u64 = 0x06;
const QPACK_BLOCKED: u64 = 0x07;
const CONNECT_PROTOCOL: u64 = 0x08;
const DATAGRAM: u64 = 0x33;

/// Of ours: [groups of datagrams](super::datagram_group) are understood. The number is also that of their streams.
pub(super) const DATAGRAM_GROUPS: u64 = 0x6867_7270;

/// Identifiers of HTTP/2 that must not be sent (RFC 9114, section 7.2.4.1).
const FORBIDDEN: [u64; 5] = [0x00, 0x02, 0x03, 0x04, 0x05];

/// An identifier of the form 0x1f * N + 0x21, which peers must pass over (RFC 9114, section 7.2.4.1). One is sent, so that they
/// do not forget to.
const RESERVED: u64 = 0x1f * 1_000_003 + 0x21;

/// Settings that are read: there are six, and a few that others have added.
#[doc(alias = "bound")]
const MOST: usize = 64;

/// The settings of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// SETTINGS_MAX_FIELD_SECTION_SIZE, in bytes: the largest field section that it takes; `None`
    /// for no bound.
    pub max_field_section: Option<u64>,
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL: extended CONNECT is understood.
    pub connect_protocol: bool,
    /// SETTINGS_H3_DATAGRAM: HTTP datagrams in QUIC datagrams are understood.
    pub datagrams: bool,
    /// [Groups of datagrams](super::datagram_group) in streams are understood.
    pub datagram_groups: bool,
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY, in bytes.
    pub qpack_capacity: u64,
    /// SETTINGS_QPACK_BLOCKED_STREAMS. We send 0.
    pub qpack_blocked: u64,
}

impl Settings {
    /// Reads the payload of a SETTINGS frame.
    ///
    /// # Errors
    /// A setting is cut off, appears twice, is forbidden or has a forbidden value, or there are too many.
    pub fn decode(mut payload: &[u8]) -> Result<Self, Fault> {
        let mut settings = Self::default();
        let mut seen = Vec::new();
        while !payload.is_empty() {
            let setting = varint::decode(&mut payload).zip(varint::decode(&mut payload));
            let (id, value) = setting.ok_or(Fault::connection(
                Code::FrameError,
                "SETTINGS ends within a setting",
            ))?;
            if seen.len() == MOST {
                return Err(Fault::connection(Code::ExcessiveLoad, "too many settings"));
            }

            if seen.contains(&id) {
                return Err(wrong("a setting appears twice"));
            }
            seen.push(id);
            settings.set(id, value)?;
        }

        Ok(settings)
    }

    fn set(&mut self, id: u64, value: u64) -> Result<(), Fault> {
        match id {
            QPACK_CAPACITY => self.qpack_capacity = value,
            FIELD_SECTION => self.max_field_section = Some(value),
            QPACK_BLOCKED => self.qpack_blocked = value,
            CONNECT_PROTOCOL => self.connect_protocol = flag(value)?,
            DATAGRAM => self.datagrams = flag(value)?,
            DATAGRAM_GROUPS => self.datagram_groups = value == 1,
            id if FORBIDDEN.contains(&id) => return Err(wrong("a setting of HTTP/2")),
            // RFC 9114, section 7.2.4: unknown settings are ignored.
            _ => {}
        }
        Ok(())
    }

    /// Appends a SETTINGS frame; settings with their default are left out.
    pub fn encode(&self, output: &mut BytesMut) {
        let settings = [
            (
                QPACK_CAPACITY,
                Some(self.qpack_capacity).filter(|value| *value > 0),
            ),
            (FIELD_SECTION, self.max_field_section),
            (
                QPACK_BLOCKED,
                Some(self.qpack_blocked).filter(|value| *value > 0),
            ),
            (CONNECT_PROTOCOL, self.connect_protocol.then_some(1)),
            (DATAGRAM, self.datagrams.then_some(1)),
            (DATAGRAM_GROUPS, self.datagram_groups.then_some(1)),
            (RESERVED, Some(0)),
        ];

        let mut payload = BytesMut::new();
        for (id, value) in settings {
            if let Some(value) = value {
                varint::encode(id, &mut payload);
                varint::encode(value.min(varint::MAX), &mut payload);
            }
        }

        encode(FrameType::Settings, &payload, output);
    }
}

/// RFC 9297, section 2.1.1, and RFC 9220, section 3 with RFC 8441, section 3: 0 or 1.
fn flag(value: u64) -> Result<bool, Fault> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(wrong("a setting that is neither 0 nor 1")),
    }
}

fn wrong(reason: &'static str) -> Fault {
    Fault::connection(Code::SettingsError, reason)
}

/// Decodes arbitrary bytes: settings that hold survive a round trip.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    if let Ok(settings) = Settings::decode(data) {
        let mut output = BytesMut::new();
        settings.encode(&mut output);
        let mut rest = &output[..];
        assert_eq!(varint::decode(&mut rest), Some(0x04));
        assert_eq!(varint::decode(&mut rest), Some(rest.len() as u64));
        assert_eq!(Settings::decode(rest), Ok(settings));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pairs: &[(u64, u64)]) -> Result<Settings, Code> {
        let mut payload = BytesMut::new();
        for (id, value) in pairs {
            varint::encode(*id, &mut payload);
            varint::encode(*value, &mut payload);
        }
        Settings::decode(&payload).map_err(|fault| fault.code)
    }

    #[test]
    fn nothing_said_is_every_default() {
        assert_eq!(decode(&[]), Ok(Settings::default()));
        let zeros = decode(&[
            (DATAGRAM, 0),
            (CONNECT_PROTOCOL, 0),
            (QPACK_CAPACITY, 0),
            (0x21, 77),
        ]);
        assert_eq!(zeros, Ok(Settings::default()));
    }

    #[test]
    fn refuses_settings_of_http2() {
        for id in FORBIDDEN {
            assert_eq!(decode(&[(id, 0)]), Err(Code::SettingsError), "{id:#x}");
        }
    }

    #[test]
    fn refuses_a_flag_that_is_none() {
        for id in [DATAGRAM, CONNECT_PROTOCOL] {
            assert_eq!(decode(&[(id, 2)]), Err(Code::SettingsError));
            assert_eq!(decode(&[(id, varint::MAX)]), Err(Code::SettingsError));
        }
    }

    #[test]
    fn refuses_a_setting_that_appears_twice_known_or_not() {
        for id in [DATAGRAM, FIELD_SECTION, 0x21] {
            assert_eq!(
                decode(&[(id, 1), (0x40, 1), (id, 1)]),
                Err(Code::SettingsError),
                "{id:#x}"
            );
        }
    }

    #[test]
    fn refuses_a_setting_that_is_cut_off_and_more_than_it_reads() {
        assert_eq!(
            Settings::decode(&[0x33]).unwrap_err().code,
            Code::FrameError
        );
        assert_eq!(
            Settings::decode(&[0x33, 0x40]).unwrap_err().code,
            Code::FrameError
        );
        let many: Vec<_> = (0x100..0x100 + MOST as u64).map(|id| (id, 0)).collect();
        assert!(decode(&many).is_ok());
        assert_eq!(
            decode(&[&many[..], &[(0x21, 0)]].concat()),
            Err(Code::ExcessiveLoad)
        );
    }

    proptest! {
        #[test]
        fn survives_a_round_trip(
            section in proptest::option::of(0..=varint::MAX),
            flags in any::<(bool, bool, bool)>(),
            qpack in (0..=varint::MAX, 0..=varint::MAX),
        ) {
            let settings = Settings {
                max_field_section: section,
                connect_protocol: flags.0,
                datagrams: flags.1,
                datagram_groups: flags.2,
                qpack_capacity: qpack.0,
                qpack_blocked: qpack.1,
            };
            let mut output = BytesMut::new();
            settings.encode(&mut output);
            let mut rest = &output[..];
            prop_assert_eq!(varint::decode(&mut rest), Some(4));
            prop_assert_eq!(varint::decode(&mut rest), Some(rest.len() as u64));
            prop_assert_eq!(Settings::decode(rest), Ok(settings));
        }
    }
}
