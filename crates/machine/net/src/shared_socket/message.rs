//! Messages between processes that share a socket.
//!
//! | kind | then |
//! |---|---|
//! | 0, a process introduces itself | its generation (4 bytes) and its tag (3) |
//! | 1, it drains | nothing |
//! | 2, 3, 4, 5: datagrams of one sender, by their [`ForwardKind`] | flags, source (16), port (2), scope (4), our address (16), bytes of each (2), and the datagrams |
//!
//! Flags: 1 the source is IPv4, 2 our address is known, 4 it is IPv4; the two highest bits are the traffic class's ECN.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::process::{self, ProcessId};
use crate::udp_batch::Run;

/// Bytes in front of the datagrams of a message.
pub(super) const HEADER: usize = 42;

const HELLO: u8 = 0;
const DRAINING: u8 = 1;
const FINAL: u8 = 2;
const IF_KNOWN: u8 = 3;
const RETURNED: u8 = 4;
const WHEREABOUTS: u8 = 5;

const SOURCE_IS_V4: u8 = 1;
const HAS_LOCAL: u8 = 2;
const LOCAL_IS_V4: u8 = 4;
const ECN_SHIFT: u32 = 6;

/// The purpose of forwarded datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardKind {
    /// The receiver serves them, or drops them.
    Final,
    /// The receiver returns them if their client has no session there.
    IfKnown,
    /// Datagrams that were returned to their sender.
    Returned,
    /// Not a datagram, but the protocol's name of the party at this address.
    Whereabouts,
}

/// Datagrams of one sender, as the kernel gave them: all of equal size but the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedRun<'a> {
    /// Their source.
    pub source: SocketAddr,
    /// The address of ours that they were sent to, if it is known.
    pub local: Option<IpAddr>,
    /// The ECN bits of their traffic class.
    pub ecn: u8,
    /// Bytes of each; more than 0.
    pub stride: usize,
    /// One behind the other.
    pub bytes: &'a [u8],
}

/// One message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SiblingMessage<'a> {
    Hello(ProcessId),
    Draining,
    Datagrams {
        kind: ForwardKind,
        run: ReceivedRun<'a>,
    },
}

impl<'a> From<&Run<'a>> for ReceivedRun<'a> {
    fn from(run: &Run<'a>) -> Self {
        Self {
            source: run.source,
            local: run.local,
            ecn: 0,
            stride: run.segment.max(1),
            bytes: run.data,
        }
    }
}

impl<'a> ReceivedRun<'a> {
    /// Each datagram. An empty run is one empty datagram.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let empty: Option<&'a [u8]> = self.bytes.is_empty().then_some(&[]);
        self.bytes.chunks(self.stride.max(1)).chain(empty)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.bytes.len().div_ceil(self.stride).max(1) as u64
    }
}

/// A process introduces itself.
pub(super) fn hello(id: ProcessId) -> [u8; 1 + process::LENGTH] {
    let mut message = [HELLO; 1 + process::LENGTH];
    message[1..].copy_from_slice(&id.encode());
    message
}

/// A process takes no new clients any more.
pub(super) fn draining() -> [u8; 1] {
    [DRAINING]
}

/// The header of a run of datagrams.
pub(super) fn header(kind: ForwardKind, run: &ReceivedRun<'_>) -> [u8; HEADER] {
    let mut flags = run.ecn << ECN_SHIFT;
    if run.source.is_ipv4() {
        flags |= SOURCE_IS_V4;
    }
    if let Some(local) = run.local {
        flags |= HAS_LOCAL;
        if local.is_ipv4() {
            flags |= LOCAL_IS_V4;
        }
    }
    let scope = match run.source {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    let local = run.local.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let stride = u16::try_from(run.stride).unwrap_or(u16::MAX);

    let mut header = [0; HEADER];
    header[0] = match kind {
        ForwardKind::Final => FINAL,
        ForwardKind::IfKnown => IF_KNOWN,
        ForwardKind::Returned => RETURNED,
        ForwardKind::Whereabouts => WHEREABOUTS,
    };
    header[1] = flags;
    header[2..18].copy_from_slice(&octets(run.source.ip()));
    header[18..20].copy_from_slice(&run.source.port().to_be_bytes());
    header[20..24].copy_from_slice(&scope.to_be_bytes());
    header[24..40].copy_from_slice(&octets(local));
    header[40..].copy_from_slice(&stride.to_be_bytes());
    header
}

/// Reads a message; `None` for one that no version of ours writes.
pub(super) fn decode(bytes: &[u8]) -> Option<SiblingMessage<'_>> {
    let (kind, rest) = bytes.split_first()?;
    let kind = match *kind {
        HELLO => {
            let id = rest.try_into().ok()?;
            return Some(SiblingMessage::Hello(ProcessId::decode(id)));
        }
        DRAINING => return rest.is_empty().then_some(SiblingMessage::Draining),
        FINAL => ForwardKind::Final,
        IF_KNOWN => ForwardKind::IfKnown,
        RETURNED => ForwardKind::Returned,
        WHEREABOUTS => ForwardKind::Whereabouts,
        _ => return None,
    };

    let run = decode_run(bytes)?;
    Some(SiblingMessage::Datagrams { kind, run })
}

fn decode_run(message: &[u8]) -> Option<ReceivedRun<'_>> {
    let (header, bytes) = message.split_first_chunk::<HEADER>()?;
    let flags = header[1];
    let ip = |at: usize, is_v4: bool| -> Option<IpAddr> {
        let octets: [u8; 16] = header[at..at + 16].try_into().ok()?;
        let v6 = Ipv6Addr::from(octets);
        match is_v4 {
            true => v6.to_ipv4_mapped().map(IpAddr::V4),
            false => Some(IpAddr::V6(v6)),
        }
    };

    let port = u16::from_be_bytes([header[18], header[19]]);
    let scope = u32::from_be_bytes([header[20], header[21], header[22], header[23]]);
    let source = match ip(2, flags & SOURCE_IS_V4 != 0)? {
        IpAddr::V4(v4) => SocketAddr::from((v4, port)),
        IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, scope).into(),
    };
    let local = match flags & HAS_LOCAL != 0 {
        true => Some(ip(24, flags & LOCAL_IS_V4 != 0)?),
        false => None,
    };
    let stride = usize::from(u16::from_be_bytes([header[40], header[41]]));

    (stride > 0).then_some(ReceivedRun {
        source,
        local,
        ecn: flags >> ECN_SHIFT,
        stride,
        bytes,
    })
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::ProcessTag;
    use super::*;

    #[test]
    fn datagrams_arrive_as_they_were_sent() {
        let cases = [
            ("192.0.2.1:7", Some("192.0.2.9")),
            ("[fe80::1%3]:65535", None),
            ("[::ffff:192.0.2.1]:7", Some("::ffff:192.0.2.9")),
            ("[2001:db8::1]:443", Some("2001:db8::2")),
        ];
        for (source, local) in cases {
            for kind in [
                ForwardKind::Final,
                ForwardKind::IfKnown,
                ForwardKind::Returned,
                ForwardKind::Whereabouts,
            ] {
                let run = ReceivedRun {
                    source: source.parse().unwrap(),
                    local: local.map(|local| local.parse().unwrap()),
                    ecn: 2,
                    stride: 3,
                    bytes: b"abcde",
                };
                let mut message = header(kind, &run).to_vec();
                message.extend_from_slice(run.bytes);
                assert_eq!(
                    decode(&message),
                    Some(SiblingMessage::Datagrams { kind, run }),
                    "{source}"
                );
                assert_eq!(run.count(), 2);
            }
        }
    }

    #[test]
    fn a_process_introduces_itself_and_says_that_it_drains() {
        let id = ProcessId {
            generation: 7,
            tag: ProcessTag([1, 2, 3]),
        };
        assert_eq!(decode(&hello(id)), Some(SiblingMessage::Hello(id)));
        assert_eq!(decode(&draining()), Some(SiblingMessage::Draining));
    }

    #[test]
    fn refuses_messages_that_no_version_writes() {
        let run = ReceivedRun {
            source: "192.0.2.1:7".parse().unwrap(),
            local: None,
            ecn: 0,
            stride: 1,
            bytes: &[],
        };
        let whole = header(ForwardKind::Final, &run);
        assert!(decode(&whole).is_some(), "a datagram may be empty");
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), None, "{length}");
        }

        let mut no_stride = whole;
        no_stride[40..].fill(0);
        assert_eq!(decode(&no_stride), None);
        let mut no_v4 = whole;
        no_v4[2] = 1;
        assert_eq!(decode(&no_v4), None);
        assert_eq!(decode(&[6; 64]), None);
        assert_eq!(decode(&[HELLO; 9]), None);
        assert_eq!(decode(&[DRAINING, 0]), None);
    }
}
