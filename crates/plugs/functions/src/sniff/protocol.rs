//! The first bytes of protocols.

use schemars::JsonSchema;
use serde::Deserialize;

/// Bytes of a direction by which its protocol is known.
#[doc(alias = "bound")]
pub(super) const LOOKED_AT: usize = 64;

/// Longest method of HTTP that is known: `UPDATEREDIRECTREF`.
#[doc(alias = "bound")]
const METHOD: usize = 17;

/// A protocol that can be known by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Protocol {
    /// A ClientHello of TLS 1.0 to 1.3 (RFC 8446, 5.1).
    Tls,
    /// A request of HTTP/1, or the preface of HTTP/2 (RFC 9113, 3.4); requests that are no tunnels.
    Http,
    /// The version exchange of SSH (RFC 4253, 4.2).
    Ssh,
    /// The greeting of a server of SMTP (RFC 5321, 4.2).
    Smtp,
    /// An association request of DICOM (PS3.8, 9.3.2).
    Dicom,
    /// A message of HL7 version 2 in MLLP.
    Hl7,
    /// A query of DNS in UDP (RFC 1035, 4.1.1).
    Dns,
    /// The first packet of QUIC, version 1 or 2 (RFC 9000, 17.2; RFC 9369).
    Quic,
}

/// The bytes by which a protocol is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpeaksFirst {
    /// The first from the client.
    Client,
    /// The first from the target.
    Target,
    /// The first datagram from the client.
    Datagrams,
}

/// Whether first bytes are those of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    Yes,
    No,
    /// More bytes will tell.
    Unsure,
}

impl Protocol {
    /// Its name, as settings have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::Smtp => "smtp",
            Self::Dicom => "dicom",
            Self::Hl7 => "hl7",
            Self::Dns => "dns",
            Self::Quic => "quic",
        }
    }

    /// The bytes by which it is known.
    pub(super) fn first(self) -> SpeaksFirst {
        match self {
            Self::Tls | Self::Http | Self::Ssh | Self::Dicom | Self::Hl7 => SpeaksFirst::Client,
            Self::Smtp => SpeaksFirst::Target,
            Self::Dns | Self::Quic => SpeaksFirst::Datagrams,
        }
    }

    /// Whether it is carried by datagrams.
    pub(super) fn is_datagrams(self) -> bool {
        self.first() == SpeaksFirst::Datagrams
    }

    fn likeness(self, bytes: &[u8]) -> Likeness {
        match self {
            // The record's type and version, any length, and the type of its message.
            Self::Tls => like(bytes, &[is(0x16), is(3), at_most(4), ANY, ANY, is(1)]),
            Self::Http => http(bytes),
            Self::Ssh => like_text(bytes, b"SSH-"),
            Self::Smtp => like_text(bytes, b"220"),
            Self::Dicom => like(bytes, &[is(1), is(0), ANY, ANY, ANY, ANY, is(0), is(1)]),
            Self::Hl7 => like_text(bytes, b"\x0bMSH"),
            Self::Dns => dns(bytes),
            Self::Quic => quic(bytes),
        }
    }
}

/// Whether bytes are the first of one of these protocols.
pub(super) fn likeness(protocols: &[Protocol], bytes: &[u8]) -> Likeness {
    let mut found = Likeness::No;
    for protocol in protocols {
        match protocol.likeness(bytes) {
            Likeness::Yes => return Likeness::Yes,
            Likeness::Unsure => found = Likeness::Unsure,
            Likeness::No => {}
        }
    }
    // Nothing that is known needs more.
    if found == Likeness::Unsure && bytes.len() >= LOOKED_AT {
        return Likeness::No;
    }
    found
}

/// The values that a byte may have.
type ByteRange = std::ops::RangeInclusive<u8>;

/// Any byte.
const ANY: ByteRange = 0..=255;

fn is(byte: u8) -> ByteRange {
    byte..=byte
}

fn at_most(byte: u8) -> ByteRange {
    0..=byte
}

fn like(bytes: &[u8], wanted: &[ByteRange]) -> Likeness {
    let differs = wanted
        .iter()
        .zip(bytes)
        .any(|(range, byte)| !range.contains(byte));
    match differs {
        true => Likeness::No,
        false if bytes.len() < wanted.len() => Likeness::Unsure,
        false => Likeness::Yes,
    }
}

fn like_text(bytes: &[u8], wanted: &[u8]) -> Likeness {
    let length = bytes.len().min(wanted.len());
    match bytes[..length] == wanted[..length] {
        false => Likeness::No,
        true if length < wanted.len() => Likeness::Unsure,
        true => Likeness::Yes,
    }
}

/// A method in capitals, a space, and the beginning of a target. The preface of HTTP/2 looks so, too.
fn http(bytes: &[u8]) -> Likeness {
    let is_method = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'-';
    let method = bytes.iter().take_while(|byte| is_method(byte)).count();
    if method > METHOD {
        return Likeness::No;
    }
    match (bytes.get(method), bytes.get(method + 1)) {
        (None, _) => Likeness::Unsure,
        (Some(b' '), _) if method == 0 => Likeness::No,
        (Some(b' '), None) => Likeness::Unsure,
        (Some(b' '), Some(first)) if first.is_ascii_graphic() => Likeness::Yes,
        _ => Likeness::No,
    }
}

/// A query with one question, and no answers.
fn dns(bytes: &[u8]) -> Likeness {
    let Some(head) = bytes.get(..12) else {
        return Likeness::No;
    };
    let is_query = head[2] & 0xf8 == 0;
    let is_one = head[4..8] == [0, 1, 0, 0];
    match is_query && is_one {
        true => Likeness::Yes,
        false => Likeness::No,
    }
}

/// A long header of a known version, in a datagram that is as large as a first one has to be (RFC 9000, 14.1).
fn quic(bytes: &[u8]) -> Likeness {
    let version = bytes.get(1..5);
    let is_known = version == Some(&[0, 0, 0, 1]) || version == Some(&[0x6b, 0x33, 0x43, 0xcf]);
    let is_long = bytes.first().is_some_and(|byte| byte & 0xc0 == 0xc0);
    match is_known && is_long && bytes.len() >= 1200 {
        true => Likeness::Yes,
        false => Likeness::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &[(Protocol, &[u8])] = &[
        (Protocol::Tls, &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
        (Protocol::Http, b"GET / HTTP/1.1\r\n"),
        (Protocol::Http, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (Protocol::Ssh, b"SSH-2.0-OpenSSH_9.2\r\n"),
        (Protocol::Smtp, b"220 mail.example.org ESMTP\r\n"),
        (Protocol::Dicom, &[1, 0, 0, 0, 0, 0xd0, 0, 1, 0, 0]),
        (Protocol::Hl7, b"\x0bMSH|^~\\&|"),
    ];

    #[test]
    fn each_protocol_is_known_by_its_first_bytes_and_not_by_others() {
        for (protocol, bytes) in FIRST {
            for (other, _) in FIRST {
                let expected = match other == protocol {
                    true => Likeness::Yes,
                    false => Likeness::No,
                };
                assert_eq!(likeness(&[*other], bytes), expected, "{other:?} {bytes:?}");
            }
        }
    }

    #[test]
    fn a_prefix_never_says_no_to_its_protocol() {
        for (protocol, bytes) in FIRST {
            for end in 0..bytes.len() {
                assert_ne!(likeness(&[*protocol], &bytes[..end]), Likeness::No);
            }
        }
    }

    #[test]
    fn datagrams_are_known_whole() {
        let query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01";
        assert_eq!(likeness(&[Protocol::Dns], query), Likeness::Yes);
        assert_eq!(likeness(&[Protocol::Dns], &query[..11]), Likeness::No);
        let mut initial = vec![0; 1200];
        initial[..5].copy_from_slice(&[0xc3, 0, 0, 0, 1]);
        assert_eq!(likeness(&[Protocol::Quic], &initial), Likeness::Yes);
        assert_eq!(likeness(&[Protocol::Quic], &initial[..600]), Likeness::No);
    }
}
