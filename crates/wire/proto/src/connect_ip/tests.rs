//! The capsules as RFC 9484 draws them, its rules, and chance.

use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::ip::{IpPrefix, IpRange, PrefixError, RangeError};

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn range(text: &str, protocol: u8) -> IpRange {
    IpRange::of(prefix(text), protocol)
}

fn assign(value: &[u8]) -> Result<AddressAssign, ConnectIpError> {
    AddressAssign::decode(value)
}

fn routes(value: &[u8]) -> Result<RouteAdvertisement, ConnectIpError> {
    RouteAdvertisement::decode(value)
}

#[test]
fn the_remote_access_of_the_rfc_reads_and_is_written_the_same() {
    // RFC 9484, section 8.1: a request, its answer, and all of IPv4.
    let request = AddressRequest::new(vec![RequestedAddress::any(1, true)]).unwrap();
    let answer = AddressAssign {
        addresses: vec![AssignedAddress {
            request_id: 1,
            prefix: prefix("192.0.2.11"),
        }],
    };
    let everywhere = RouteAdvertisement::new(vec![IpRange::of(IpPrefix::ALL_V4, 0)]).unwrap();

    for (capsule, bytes) in [
        (
            IpCapsule::Request(request),
            &b"\x02\x07\x01\x04\0\0\0\0\x20"[..],
        ),
        (
            IpCapsule::Assign(answer),
            b"\x01\x07\x01\x04\xc0\0\x02\x0b\x20",
        ),
        (
            IpCapsule::Routes(everywhere),
            b"\x03\x0a\x04\0\0\0\0\xff\xff\xff\xff\0",
        ),
    ] {
        assert_eq!(capsule.to_bytes()[..], bytes[..]);
        let kind = CapsuleType::from(u64::from(bytes[0]));
        assert_eq!(IpCapsule::decode(kind, &bytes[2..]), Ok(Some(capsule)));
    }
}

#[test]
fn other_capsules_are_none_of_these() {
    for kind in [CapsuleType::Datagram, CapsuleType::Other(4)] {
        assert_eq!(IpCapsule::decode(kind, b"anything"), Ok(None));
    }
}

#[test]
fn an_empty_capsule_takes_everything_back_and_requests_nothing() {
    assert_eq!(assign(b""), Ok(AddressAssign::default()));
    assert_eq!(routes(b""), Ok(RouteAdvertisement::default()));
    assert_eq!(AddressRequest::decode(b""), Err(ConnectIpError::Empty));
}

#[test]
fn a_refusal_is_the_zero_address_of_the_family() {
    for (is_ipv4, expected) in [(true, "0.0.0.0/32"), (false, "::/128")] {
        let request = RequestedAddress::any(7, is_ipv4);
        assert!(request.is_any());
        let refusal = AssignedAddress::refusal(request);
        assert_eq!(refusal.request_id, 7);
        assert_eq!(refusal.prefix.to_string(), expected);
        assert!(refusal.is_refusal());
    }
    let everything = AssignedAddress {
        request_id: 0,
        prefix: IpPrefix::ALL_V4,
    };
    assert!(!everything.is_refusal());
}

#[test]
fn malformed_addresses_are_errors() {
    for cut in [
        &b"\x01"[..],
        b"\x01\x04",
        b"\x01\x04\xc0\0\x02",
        b"\x01\x04\xc0\0\x02\x0b",
        b"\x40",
    ] {
        assert_eq!(assign(cut), Err(ConnectIpError::Truncated), "{cut:?}");
    }
    assert_eq!(
        assign(b"\0\x05\0\0\0\0\x20"),
        Err(ConnectIpError::Version(5))
    );
    assert!(matches!(
        assign(b"\0\x04\xc0\0\x02\x0b\x21"),
        Err(ConnectIpError::Prefix(PrefixError::Length { .. }))
    ));
    assert!(matches!(
        assign(b"\0\x04\xc0\0\x02\x0b\x18"),
        Err(ConnectIpError::Prefix(PrefixError::HostBits { .. }))
    ));
}

#[test]
fn request_ids_are_unique_and_not_zero() {
    let any = |ids: &[u64]| {
        let requests = ids.iter().map(|id| RequestedAddress::any(*id, true));
        AddressRequest::new(requests.collect()).map(|request| request.addresses().len())
    };
    assert_eq!(any(&[1, 2]), Ok(2));
    assert_eq!(any(&[1, 0]), Err(ConnectIpError::IdZero));
    assert_eq!(any(&[3, 3]), Err(ConnectIpError::IdTwice(3)));
}

#[test]
fn too_many_entries_are_errors() {
    let many = (0..=MAX_ADDRESSES as u64).map(|id| RequestedAddress::any(id + 1, true));
    assert_eq!(
        AddressRequest::new(many.collect()),
        Err(ConnectIpError::TooManyAddresses)
    );
    let assigned = b"\0\x04\xc0\0\x02\x0b\x20".repeat(MAX_ADDRESSES + 1);
    assert_eq!(assign(&assigned), Err(ConnectIpError::TooManyAddresses));

    let host = |number: u32| IpRange::of(IpPrefix::host(IpAddr::V4((2 * number).into())), 0);
    let full: Vec<_> = (0..MAX_RANGES as u32).map(host).collect();
    let mut value = BytesMut::new();
    RouteAdvertisement::new(full.clone())
        .unwrap()
        .encode_value(&mut value);
    assert!(routes(&value).is_ok());
    value.extend_from_slice(&[6; 34]);
    assert_eq!(routes(&value), Err(ConnectIpError::TooManyRanges));
    let more: Vec<_> = (0..=MAX_RANGES as u32).map(host).collect();
    assert_eq!(
        RouteAdvertisement::of(more),
        Err(ConnectIpError::TooManyRanges)
    );
}

#[test]
fn ranges_are_ordered_by_version_protocol_and_address() {
    let ordered = vec![
        range("10.0.0.0/24", 0),
        range("10.0.2.0/24", 0),
        range("192.0.2.0/24", 6),
        range("192.0.2.0/24", 17),
        range("2001:db8::/32", 0),
    ];
    assert!(RouteAdvertisement::new(ordered.clone()).is_ok());
    for at in 1..ordered.len() {
        let mut swapped = ordered.clone();
        swapped.swap(at - 1, at);
        let [first, second] = [swapped[at - 1], swapped[at]];
        assert_eq!(
            RouteAdvertisement::new(swapped),
            Err(ConnectIpError::Order { first, second })
        );
    }
    let mut shuffled = ordered.clone();
    shuffled.reverse();
    assert_eq!(RouteAdvertisement::of(shuffled).unwrap().ranges(), ordered);
}

#[test]
fn ranges_that_overlap_are_errors() {
    let twice = vec![range("10.0.0.0/8", 0), range("10.0.0.0/24", 0)];
    assert!(matches!(
        RouteAdvertisement::new(twice),
        Err(ConnectIpError::Order { .. })
    ));
    let first = range("10.0.0.0/8", 0);
    let second = range("10.1.0.0/16", 6);
    let all_and_one = vec![range("9.0.0.0/8", 0), first, range("11.0.0.0/8", 0), second];
    let error = RouteAdvertisement::new(all_and_one).unwrap_err();
    assert_eq!(error, ConnectIpError::Overlap { first, second });
    assert_eq!(
        error.to_string(),
        "10.0.0.0-10.255.255.255 is for all protocols and overlaps 10.1.0.0-10.1.255.255 of protocol 6"
    );
}

#[test]
fn ranges_are_joined_and_not_said_twice() {
    let ranges = vec![
        range("10.0.1.0/24", 0),
        range("10.0.0.0/24", 0),
        range("10.0.0.0/16", 6),
        range("10.0.1.128/25", 17),
    ];
    let ordered = RouteAdvertisement::of(ranges).unwrap();
    let written: Vec<_> = ordered.ranges().iter().map(ToString::to_string).collect();
    assert_eq!(
        written,
        ["10.0.0.0-10.0.1.255", "10.0.2.0-10.0.255.255 of protocol 6"]
    );
}

#[test]
fn a_range_that_ends_before_it_starts_is_an_error() {
    let value = b"\x04\x0a\0\0\x02\x0a\0\0\x01\0";
    assert!(matches!(
        routes(value),
        Err(ConnectIpError::Range(RangeError { .. }))
    ));
    assert_eq!(routes(&value[..6]), Err(ConnectIpError::Truncated));
    assert_eq!(routes(b"\x07"), Err(ConnectIpError::Version(7)));
}

fn any_prefix() -> impl Strategy<Value = IpPrefix> {
    let v4 = (any::<u32>(), 0_u8..=32).prop_map(|(bits, length)| (IpAddr::V4(bits.into()), length));
    let v6 =
        (any::<u128>(), 0_u8..=128).prop_map(|(bits, length)| (IpAddr::V6(bits.into()), length));
    prop_oneof![v4, v6].prop_map(|(address, length)| IpPrefix::around(address, length).unwrap())
}

proptest! {
    #[test]
    fn assignments_come_back(entries in prop::collection::vec((0..=varint::MAX, any_prefix()), 0..20)) {
        let entries = entries.into_iter();
        let assigned = |(request_id, prefix)| AssignedAddress { request_id, prefix };
        let assign = AddressAssign { addresses: entries.map(assigned).collect() };
        let mut value = BytesMut::new();
        assign.encode_value(&mut value);
        prop_assert_eq!(AddressAssign::decode(&value), Ok(assign));
        fuzz_one(&value);
    }

    #[test]
    fn routes_come_back(entries in prop::collection::vec((any_prefix(), 0_u8..3), 0..20)) {
        let ranges = entries.into_iter().map(|(prefix, protocol)| IpRange::of(prefix, protocol));
        let routes = RouteAdvertisement::of(ranges.collect()).unwrap();
        let mut value = BytesMut::new();
        routes.encode_value(&mut value);
        prop_assert_eq!(RouteAdvertisement::decode(&value), Ok(routes));
        fuzz_one(&value);
    }
}
