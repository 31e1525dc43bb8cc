//! Super-packets: made, checked and cut.

use bytes::BytesMut;
use hermes_ip::offload::{
    Coalescer, HEADER_BYTES, MAX_OPEN, MAX_TCP_SEGMENTS, MAX_UDP_SEGMENTS, OffloadError,
    OffloadHeader, OffloadKind, complete_checksum, segment,
};
use hermes_proto::ip::checksum::Sum;
use hermes_proto::ip::{IpFlow, Packet, TCP, UDP};
use proptest::prelude::*;

use super::packets::packet;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const CWR: u8 = 0x80;

/// One packet of a flow.
#[derive(Debug, Clone)]
struct Piece {
    is_ipv4: bool,
    protocol: u8,
    port: u16,
    sequence: u32,
    flags: u8,
    payload: Vec<u8>,
}

impl Piece {
    fn tcp(is_ipv4: bool, sequence: u32, flags: u8, payload: &[u8]) -> Self {
        Self {
            is_ipv4,
            protocol: TCP,
            port: 1000,
            sequence,
            flags,
            payload: payload.to_vec(),
        }
    }

    fn udp(is_ipv4: bool, payload: &[u8]) -> Self {
        Self {
            protocol: UDP,
            ..Self::tcp(is_ipv4, 0, 0, payload)
        }
    }

    fn packet(&self) -> Vec<u8> {
        let mut transport = self.port.to_be_bytes().to_vec();
        transport.extend([1, 0xbb]);
        let checksum = match self.protocol {
            TCP => {
                transport.extend(self.sequence.to_be_bytes());
                transport.extend([0, 0, 0, 9, 0x80, self.flags, 1, 0, 0, 0, 0, 0]);
                // A time stamp, as almost all segments have.
                transport.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
                16
            }
            _ => {
                transport.extend((8 + self.payload.len() as u16).to_be_bytes());
                transport.extend([0, 0]);
                6
            }
        };
        transport.extend(&self.payload);

        let [from, to] = match self.is_ipv4 {
            true => ["192.0.2.1", "198.51.100.2"],
            false => ["2001:db8::1", "2001:db8:1::2"],
        };
        let sum = Sum::default()
            .pseudo_header(
                from.parse().unwrap(),
                to.parse().unwrap(),
                self.protocol,
                transport.len(),
            )
            .bytes(&transport)
            .checksum();
        let sum = if sum == 0 && self.protocol == UDP {
            0xffff
        } else {
            sum
        };
        transport[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
        packet(from, to, self.protocol, &transport)
    }
}

/// A stream of full segments and a last one, each of which follows the one before.
fn stream(is_ipv4: bool, size: usize, count: usize, last: usize) -> Vec<Vec<u8>> {
    let sizes = std::iter::repeat_n(size, count - 1).chain([last]);
    let mut sequence = u32::MAX - 1000;
    let segments = sizes.enumerate().map(|(index, size)| {
        let flags = if index == count - 1 { ACK | PSH } else { ACK };
        let segment = Piece::tcp(is_ipv4, sequence, flags, &vec![index as u8; size]);
        sequence = sequence.wrapping_add(size as u32);
        segment.packet()
    });
    segments.collect()
}

/// A packet with its header.
type Made = (OffloadHeader, Vec<u8>);

fn coalesced(packets: &[Vec<u8>]) -> Vec<Made> {
    let mut made = Vec::new();
    let mut coalescer = Coalescer::default();
    for packet in packets {
        coalescer.push(packet, false, |header, packet| {
            made.push((header, packet.to_vec()))
        });
    }
    coalescer.flush(|header, packet| made.push((header, packet.to_vec())));
    made
}

fn cut(made: &[Made]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    let mut room = Vec::new();
    for (header, packet) in made {
        let checked = header.check(packet).unwrap();
        segment(&checked, &mut room, |packet| packets.push(packet.to_vec()));
    }
    packets
}

/// The compared form: without the identification of IPv4 packets that are never cut.
fn compared(packets: &[Vec<u8>]) -> Vec<(IpFlow, Vec<u8>)> {
    let one = |bytes: &Vec<u8>| {
        let packet = Packet::parse(bytes).unwrap();
        let mut rest = bytes.clone();
        if packet.is_ipv4() && packet.keeps_whole() {
            rest[4..6].fill(0);
            rest[10..12].fill(0);
        }
        (packet.flow(), rest)
    };
    packets.iter().map(one).collect()
}

#[test]
fn a_stream_becomes_one_super_packet_and_comes_back() {
    for is_ipv4 in [true, false] {
        let packets = stream(is_ipv4, 1200, 40, 700);
        let made = coalesced(&packets);
        assert_eq!(made.len(), 1);
        let (header, whole) = &made[0];
        let headers = if is_ipv4 { 52 } else { 72 };
        let kind = if is_ipv4 {
            OffloadKind::TcpV4
        } else {
            OffloadKind::TcpV6
        };
        assert_eq!(
            *header,
            OffloadHeader {
                kind,
                needs_checksum: true,
                header_length: headers,
                segment_size: 1200,
                checksum_start: headers - 32,
                checksum_offset: 16,
                ..OffloadHeader::DONE
            }
        );
        let checked = header.check(whole).unwrap();
        assert_eq!(checked.segments(), 40);
        assert_eq!(checked.longest(), usize::from(headers) + 1200);
        assert_eq!(compared(&cut(&made)), compared(&packets));
        for packet in cut(&made) {
            let parsed = Packet::parse(&packet).unwrap();
            let sum = Sum::default()
                .pseudo_header(
                    parsed.source(),
                    parsed.destination(),
                    TCP,
                    parsed.payload().len(),
                )
                .bytes(parsed.payload());
            assert_eq!(sum.checksum(), 0);
        }
    }
}

#[test]
fn the_answer_to_congestion_is_given_once() {
    let (mut header, mut whole) = coalesced(&stream(true, 100, 3, 100)).remove(0);
    header.has_cwr = true;
    whole[33] |= CWR;
    let flags: Vec<_> = cut(&[(header, whole)])
        .iter()
        .map(|packet| packet[33])
        .collect();
    assert_eq!(flags, [ACK | CWR, ACK, ACK | PSH]);
}

#[test]
fn datagrams_of_one_size_become_one_super_packet() {
    for is_ipv4 in [true, false] {
        let sizes = std::iter::repeat_n(300, 100).chain([10]);
        let packets: Vec<_> = sizes
            .map(|size| Piece::udp(is_ipv4, &vec![7; size]).packet())
            .collect();
        let made = coalesced(&packets);
        assert_eq!(made.len(), 1);
        assert_eq!(made[0].0.kind, OffloadKind::Udp);
        assert_eq!(compared(&cut(&made)), compared(&packets));
    }
}

#[test]
fn a_super_packet_ends_at_what_a_device_takes() {
    let datagrams = vec![Piece::udp(true, &[7; 20]).packet(); 3 * MAX_UDP_SEGMENTS];
    assert_eq!(coalesced(&datagrams).len(), 3);
    let segments = stream(true, 20, 3 * MAX_TCP_SEGMENTS, 20);
    assert_eq!(coalesced(&segments).len(), 3);
    let long = coalesced(&stream(false, 1400, 100, 1400));
    assert!(long.len() >= 3 && long.iter().all(|(_, packet)| packet.len() <= 65_535));
}

#[test]
fn what_stands_for_itself_is_not_merged_and_not_overtaken() {
    let data = |sequence| Piece::tcp(true, sequence, ACK, &[1; 100]);
    for (name, second) in [
        ("another opens", Piece::tcp(true, 200, SYN, &[2; 100])),
        ("one is missing", data(300)),
        ("one comes again", data(0)),
        ("no payload", Piece::tcp(true, 100, ACK, &[])),
        (
            "it answers congestion",
            Piece::tcp(true, 100, ACK | CWR, &[2; 100]),
        ),
        ("it is longer", Piece::tcp(true, 100, ACK, &[2; 101])),
    ] {
        let packets = [data(0).packet(), second.packet()];
        let made = coalesced(&packets);
        assert_eq!(made.len(), 2, "{name}");
        assert!(
            made.iter()
                .all(|(header, _)| *header == OffloadHeader::DONE)
        );
        assert_eq!(cut(&made), packets, "{name}");
    }

    // Behind the end of a push, a stream begins anew.
    let pushed = Piece::tcp(true, 100, ACK | PSH, &[1; 100]);
    let ended = Piece::tcp(true, 400, ACK | FIN, &[1; 100]);
    let packets = [data(0), pushed, data(200), data(300), ended].map(|piece| piece.packet());
    let made = coalesced(&packets);
    assert_eq!(made.len(), 2);
    assert_eq!(compared(&cut(&made)), compared(&packets));
}

#[test]
fn a_damaged_packet_is_not_mended_by_merging() {
    let mut packets = stream(true, 500, 5, 500);
    packets[2][100] ^= 1;
    let made = coalesced(&packets);
    assert_eq!(compared(&cut(&made)), compared(&packets));
    assert!(
        made.iter()
            .any(|(header, packet)| *header == OffloadHeader::DONE && *packet == packets[2])
    );

    // A datagram without a checksum stays without.
    let mut plain = Piece::udp(true, &[7; 100]).packet();
    plain[26..28].fill(0);
    let packets = [plain.clone(), plain];
    assert_eq!(cut(&coalesced(&packets)), packets);
}

#[test]
fn a_checksum_in_its_other_form_is_kept() {
    // The 29th of these has a checksum of zero, which TCP writes so and other stacks may write as all ones.
    let mut packets = stream(true, 641, 30, 1);
    assert_eq!(packets[28][36..38], [0, 0]);
    assert_eq!(compared(&cut(&coalesced(&packets))), compared(&packets));
    packets[28][36..38].fill(0xff);
    assert_eq!(compared(&cut(&coalesced(&packets))), compared(&packets));
}

#[test]
fn packets_that_may_be_cut_keep_their_identification() {
    let with = |number: u16| {
        let mut packet = Piece::udp(true, &[7; 100]).packet();
        packet[4..6].copy_from_slice(&number.to_be_bytes());
        packet[6] = 0;
        packet[10..12].fill(0);
        let sum = hermes_proto::ip::checksum::checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    let counted = [with(65_535), with(0), with(1)];
    let made = coalesced(&counted);
    assert_eq!(made.len(), 1);
    assert_eq!(cut(&made), counted);
    let others = [with(5), with(5), with(7)];
    assert_eq!(coalesced(&others).len(), 3);
}

#[test]
fn flows_by_turns_are_merged_each_and_few_at_once() {
    let datagram = |port: u16| {
        let mut piece = Piece::udp(false, &[7; 100]);
        piece.port = port;
        piece.packet()
    };
    let by_turns =
        |flows: u16| -> Vec<_> { (0..10).flat_map(|_| (0..flows).map(datagram)).collect() };
    assert_eq!(coalesced(&by_turns(MAX_OPEN as u16)).len(), MAX_OPEN);
    let many = by_turns(MAX_OPEN as u16 + 1);
    assert_eq!(coalesced(&many).len(), many.len());
}

#[test]
fn a_header_is_written_as_the_specification_draws_it() {
    let (header, _) = coalesced(&stream(true, 1200, 3, 700)).remove(0);
    let mut wire = BytesMut::new();
    header.encode(&mut wire);
    assert_eq!(wire[..], [1, 1, 0, 52, 4, 176, 0, 20, 0, 16]);
    wire.extend_from_slice(b"packet");
    assert_eq!(OffloadHeader::decode(&wire), Some((header, &b"packet"[..])));
    let device = header.to_device();
    assert_eq!(u16::from_ne_bytes([device[4], device[5]]), 1200);
    assert_eq!(OffloadHeader::from_device(&device), Some(header));
    assert_eq!(OffloadHeader::decode(&wire[..HEADER_BYTES - 1]), None);
    for unknown in [2, 3, 6, 0x80, 0x83] {
        wire[1] = unknown;
        assert_eq!(OffloadHeader::decode(&wire), None, "{unknown}");
    }
}

#[test]
fn hostile_super_packets_are_refused() {
    let (header, whole) = coalesced(&stream(true, 1200, 40, 700)).remove(0);
    let check = |change: &dyn Fn(&mut OffloadHeader, &mut Vec<u8>)| {
        let mut header = header;
        let mut packet = whole.clone();
        change(&mut header, &mut packet);
        header.check(&packet).map(|_| ()).unwrap_err()
    };

    assert_eq!(
        check(&|header, _| header.checksum_start = 60_000),
        OffloadError::Checksum
    );
    assert_eq!(
        check(&|header, _| header.checksum_offset = 65_535),
        OffloadError::Checksum
    );
    assert_eq!(
        check(&|header, _| header.needs_checksum = false),
        OffloadError::Checksum
    );
    assert_eq!(
        check(&|header, _| header.kind = OffloadKind::TcpV6),
        OffloadError::Kind
    );
    assert_eq!(
        check(&|header, _| header.kind = OffloadKind::Udp),
        OffloadError::Kind
    );
    for said in [0, 40, 51, 53, 65_535] {
        let error = check(&|header, _| header.header_length = said);
        assert!(matches!(
            error,
            OffloadError::HeaderLength { actual: 52, .. }
        ));
    }
    for size in [0, 1, 100] {
        let error = check(&|header, _| header.segment_size = size);
        assert!(matches!(error, OffloadError::SegmentSize { .. }), "{size}");
    }
    for flag in [SYN, 0x04, 0x20] {
        let error = check(&|_, packet| packet[33] |= flag);
        assert_eq!(error, OffloadError::Flags);
    }
    assert!(matches!(
        check(&|_, packet| packet.truncate(1000)),
        OffloadError::Packet(_)
    ));

    let (header, mut datagrams) =
        coalesced(&vec![Piece::udp(false, &[7; 100]).packet(); 5]).remove(0);
    datagrams[45] ^= 1;
    assert_eq!(
        header.check(&datagrams).map(|_| ()).unwrap_err(),
        OffloadError::UdpLength
    );
    let echo = packet("192.0.2.1", "198.51.100.2", 1, &[8, 0, 0, 0, 0, 1, 0, 1]);
    assert_eq!(
        header.check(&echo).map(|_| ()).unwrap_err(),
        OffloadError::Checksum
    );
}

#[test]
fn what_a_device_says_of_headers_is_put_right() {
    let (header, whole) = coalesced(&stream(true, 1200, 40, 700)).remove(0);
    // Linux says how much lies in one piece of memory.
    for said in [0, 52, 256] {
        let mut given = header;
        given.header_length = said;
        assert_eq!(given.check_device(&whole).unwrap().header(), header);
    }
}

#[test]
fn numbers_that_mean_nothing_do_not_reach_a_device() {
    let odd = OffloadHeader {
        header_length: 60_000,
        segment_size: 7,
        checksum_start: 9,
        checksum_offset: 9,
        ..OffloadHeader::DONE
    };
    let packet = Piece::udp(true, b"x").packet();
    assert_eq!(odd.check(&packet).unwrap().header(), OffloadHeader::DONE);
}

#[test]
fn a_checksum_is_completed_where_nothing_is_cut() {
    let complete = Piece::udp(true, b"hello").packet();
    let mut partial = complete.clone();
    let sum = Sum::default()
        .pseudo_header([192, 0, 2, 1].into(), [198, 51, 100, 2].into(), UDP, 13)
        .folded();
    partial[26..28].copy_from_slice(&sum.to_be_bytes());
    let header = OffloadHeader {
        needs_checksum: true,
        checksum_start: 20,
        checksum_offset: 6,
        ..OffloadHeader::DONE
    };
    let made = vec![(header, partial.clone())];
    assert_eq!(cut(&made), std::slice::from_ref(&complete));
    complete_checksum(header, &mut partial);
    assert_eq!(partial, complete);
    complete_checksum(OffloadHeader::DONE, &mut partial);
    assert_eq!(partial, complete);
}

/// Pieces of some flows, which mostly go on where the one before ended.
fn any_pieces() -> impl Strategy<Value = Vec<Piece>> {
    let piece = (
        any::<bool>(),
        any::<bool>(),
        0_u16..3,
        0_usize..40,
        0_u8..16,
        0_u8..12,
    );
    prop::collection::vec(piece, 0..60).prop_map(|pieces| {
        let mut next = std::collections::HashMap::new();
        let made = pieces
            .into_iter()
            .map(|(is_ipv4, is_tcp, port, size, flags, jump)| {
                let sequence = next.entry((is_ipv4, port)).or_insert(u32::MAX - 50);
                if jump == 0 {
                    *sequence = sequence.wrapping_add(7);
                }
                let size = if size > 20 { 20 } else { size };
                let flags = match flags {
                    0 => SYN,
                    1 => ACK | PSH,
                    2 => ACK | FIN,
                    3 => ACK | CWR,
                    _ => ACK,
                };
                let piece = Piece {
                    is_ipv4,
                    protocol: if is_tcp { TCP } else { UDP },
                    port,
                    sequence: *sequence,
                    flags,
                    payload: vec![size as u8; size],
                };
                if is_tcp {
                    *sequence = sequence.wrapping_add(size as u32);
                }
                piece
            });
        made.collect()
    })
}

proptest! {
    #[test]
    fn what_is_merged_comes_back_in_the_order_of_each_flow(pieces in any_pieces()) {
        let packets: Vec<_> = pieces.iter().map(Piece::packet).collect();
        let made = coalesced(&packets);
        prop_assert!(made.len() <= packets.len());
        let mut expected = compared(&packets);
        let mut found = compared(&cut(&made));
        // Stable: only the order among flows may differ.
        let key = |(flow, _): &(IpFlow, Vec<u8>)| (flow.source, flow.protocol, flow.source_port);
        expected.sort_by_key(key);
        found.sort_by_key(key);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_stream_of_any_size_comes_back(is_ipv4: bool, size in 1_usize..1400, count in 1_usize..80, last in 1_usize..1400) {
        let packets = stream(is_ipv4, size, count, last.min(size));
        prop_assert_eq!(compared(&cut(&coalesced(&packets))), compared(&packets));
    }
}
