//! Invariants of arbitrary bytes that are accepted as a super-packet.

use hermes_proto::ip::Packet;

use super::check::Offloaded;
use super::{Coalescer, HEADER_BYTES, OffloadHeader, OffloadKind, SuperCapsule, segment};

/// Reads arbitrary bytes as a super-packet of a peer, unchanged and with corrected lengths: an
/// accepted one can be cut into valid packets within the bounds, which survive merging and cutting.
pub(crate) fn fuzz_one(data: &[u8]) {
    read_capsule(data);
    let Some((header, packet)) = OffloadHeader::decode(data) else {
        return;
    };
    let mut written = bytes::BytesMut::new();
    header.encode(&mut written);
    assert_eq!(written.len(), HEADER_BYTES);
    assert_eq!(OffloadHeader::decode(&written), Some((header, &[][..])));
    assert_eq!(
        OffloadHeader::from_device(&header.to_device()),
        Some(header)
    );

    if let Ok(checked) = header.check(packet) {
        examine(&checked);
    }
    if let Ok(checked) = header.check_device(packet) {
        examine(&checked);
    }
}

/// A capsule round-trips, except for non-minimal context IDs and rejected values.
fn read_capsule(value: &[u8]) {
    let Some(capsule) = SuperCapsule::decode(value) else {
        return;
    };
    assert!(capsule.length() <= value.len());
    if let SuperCapsule::Packet { header, packet, .. } = capsule {
        assert!(value.ends_with(packet) && !header.is_verified);
    }

    let mut written = bytes::BytesMut::new();
    capsule.encode(&mut written);
    let again = &written[written.len() - capsule.length()..];
    assert_eq!(SuperCapsule::decode(again), Some(capsule));
}

fn examine(checked: &Offloaded<'_>) {
    let mut packets = Vec::new();
    segment(checked, &mut Vec::new(), |packet| {
        packets.push(packet.to_vec())
    });
    assert_eq!(packets.len(), checked.segments());

    let longest = packets.iter().map(Vec::len).max();
    assert_eq!(longest, Some(checked.longest()));
    for packet in &packets {
        let parsed = Packet::parse(packet);
        let Ok(parsed) = parsed else {
            panic!("a segment is a packet: {parsed:?}");
        };
        assert_eq!(parsed.flow(), checked.packet().flow());
    }
    if checked.header().kind != OffloadKind::Whole {
        merge(&packets);
    }
}

fn merge(packets: &[Vec<u8>]) {
    let mut again = Vec::new();
    let mut room = Vec::new();
    let mut take = |header: OffloadHeader, packet: &[u8]| {
        let checked = header.check(packet);
        let Ok(checked) = checked else {
            panic!("what is merged passes the check: {checked:?}");
        };
        segment(&checked, &mut room, |packet| again.push(packet.to_vec()));
    };

    let mut coalescer = Coalescer::default();
    for packet in packets {
        coalescer.push(packet, false, &mut take);
    }
    coalescer.flush(&mut take);
    assert_eq!(again, packets);
}
