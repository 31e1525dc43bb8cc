//! Invariants of arbitrary bytes that decode as a capsule of CONNECT-IP.

use super::{IpCapsule, MAX_ADDRESSES, MAX_CAPSULE, MAX_RANGES, RouteAdvertisement};
use crate::capsule::{Capsule, CapsuleDecoder, CapsuleType};
use crate::ip::IpRange;

/// Reads arbitrary bytes as the value of each capsule: an accepted value is within the bounds and
/// survives a round trip, and routes neither overlap nor change when they are put into order once
/// more.
pub(crate) fn fuzz_one(data: &[u8]) {
    for kind in [
        CapsuleType::AddressAssign,
        CapsuleType::AddressRequest,
        CapsuleType::RouteAdvertisement,
    ] {
        if let Ok(Some(capsule)) = IpCapsule::decode(kind, data) {
            examine(kind, &capsule);
        }
    }
    order_anything(data);
}

fn examine(kind: CapsuleType, capsule: &IpCapsule) {
    let mut decoder = CapsuleDecoder::new(MAX_CAPSULE);
    decoder.push(capsule.to_bytes());
    let Ok(Some(Capsule { kind: again, value })) = decoder.next() else {
        panic!("what is written is a capsule")
    };
    assert_eq!(again, kind);
    assert_eq!(
        IpCapsule::decode(kind, &value).as_ref(),
        Ok(&Some(capsule.clone()))
    );

    match capsule {
        IpCapsule::Assign(assign) => assert!(assign.addresses.len() <= MAX_ADDRESSES),
        IpCapsule::Request(request) => {
            assert!((1..=MAX_ADDRESSES).contains(&request.addresses().len()));
        }
        IpCapsule::Routes(routes) => {
            assert!(routes.ranges().len() <= MAX_RANGES);
            assert!(routes.ranges().is_sorted());
            let ordered = RouteAdvertisement::of(routes.ranges().to_vec());
            let joined = ordered.map(|ordered| ordered.ranges().len());
            assert!(joined.is_ok_and(|count| count <= routes.ranges().len()));
        }
    }
}

/// Takes four bytes for a range each, and puts them into order: the result allows exactly the
/// addresses that any of them allowed.
fn order_anything(data: &[u8]) {
    let (chunks, _) = data.as_chunks::<4>();
    let range = |&[start, end, protocol, _]: &[u8; 4]| {
        let at = |last: u8| [10, 0, 0, last].into();
        IpRange::new(at(start.min(end)), at(start.max(end)), protocol % 4).ok()
    };

    let ranges: Vec<_> = chunks.iter().take(64).filter_map(range).collect();
    let Ok(ordered) = RouteAdvertisement::of(ranges.clone()) else {
        panic!("few ranges are never too many")
    };
    for last in 0..=255 {
        let address = [10, 0, 0, last].into();
        for protocol in 0..4 {
            let allowed = ranges
                .iter()
                .any(|range| range.contains(address) && range.takes(protocol));
            assert_eq!(ordered.allows(address, protocol), allowed);
        }
    }
}
