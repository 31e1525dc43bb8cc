//! IP packets on their way: read, judged, routed, cut and merged.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

use hermes_ip::offload::{Coalescer, OffloadHeader, segment};
use hermes_ip::{
    Accepts, FlowCache, InnerMtu, IpRole, IpSession, PacketScope, PrefixTable, RouterAddresses,
    RoutingTable, SessionSettings,
};
use hermes_proto::connect_ip::{AssignedAddress, RouteAdvertisement};
use hermes_proto::ip::checksum::{Sum, checksum};
use hermes_proto::ip::{ANY_PROTOCOL, IcmpLimiter, IpPrefix, IpRange, Packet};
use hermes_rules::Whom;
use hermes_rules::packets::{OpenedBy, PacketPolicy, PacketRule};

const CLIENT: [u8; 4] = [10, 9, 0, 17];
const HOST: [u8; 4] = [198, 51, 100, 7];

/// Segments of one super-packet, and the bytes in each.
const SEGMENTS: usize = 40;
const SEGMENT: [u8; 32] = [7; 32];

/// A segment of TCP with a time stamp, the `index`-th of its stream.
fn segment_of_tcp(index: usize) -> Vec<u8> {
    let mut transport = vec![0x30, 0x39, 1, 0xbb];
    transport.extend(((index * SEGMENT.len()) as u32).to_be_bytes());
    transport.extend([0, 0, 0, 9, 0x80, 0x10, 1, 0, 0, 0, 0, 0]);
    transport.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    transport.extend(SEGMENT);
    let sum = Sum::default()
        .pseudo_header(CLIENT.into(), HOST.into(), 6, transport.len())
        .bytes(&transport);
    transport[16..18].copy_from_slice(&sum.checksum().to_be_bytes());

    let mut packet = vec![0x45, 0];
    packet.extend((20 + transport.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet.extend(CLIENT);
    packet.extend(HOST);
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(transport);
    packet
}

/// The proxy's side of a client with one address that may send anywhere.
fn session() -> IpSession {
    let mut session = IpSession::new(SessionSettings {
        role: IpRole::Proxy,
        scope: PacketScope::any(),
        routers: RouterAddresses::default(),
        mtu: InnerMtu::STREAM,
        accepts_addresses: Accepts::Nothing,
        accepts_routes: Accepts::Nothing,
    });
    let address = AssignedAddress {
        request_id: 0,
        prefix: IpPrefix::host(CLIENT.into()),
    };
    session.assign(vec![address]).unwrap();
    let everywhere = [IpPrefix::ALL_V4, IpPrefix::ALL_V6];
    let ranges = everywhere.map(|prefix| IpRange::of(prefix, ANY_PROTOCOL));
    session.advertise(RouteAdvertisement::new(ranges.to_vec()).unwrap());
    session
}

pub fn read(rounds: usize) {
    let packet = segment_of_tcp(0);
    for _ in 0..rounds {
        black_box(Packet::parse(black_box(&packet)).unwrap());
    }
}

pub fn check_from_peer(rounds: usize) {
    let session = session();
    let packet = segment_of_tcp(0);
    let mut limiter = IcmpLimiter::default();
    let now = Instant::now();
    for _ in 0..rounds {
        let filter = session.filter();
        let verdict = filter.check_from_peer(black_box(&packet), &mut limiter, now);
        assert!(verdict.passes());
    }
}

/// A packet to the client: its hop limit changes and is put back.
pub fn check_to_peer(rounds: usize) {
    let session = session();
    let mut packet = segment_of_tcp(0);
    for at in 0..4 {
        packet.swap(12 + at, 16 + at);
    }
    let head: [u8; 20] = packet[..20].try_into().unwrap();
    let mut limiter = IcmpLimiter::default();
    let now = Instant::now();
    for _ in 0..rounds {
        packet[..20].copy_from_slice(&head);
        let length = packet.len();
        let filter = session.filter();
        let verdict = filter.check_to_peer(black_box(&mut packet), length, &mut limiter, now);
        assert!(verdict.passes());
    }
}

/// The verdict on a flow that is known.
pub fn flow_cache(rounds: usize) {
    let packet = segment_of_tcp(0);
    let flow = Packet::parse(&packet).unwrap().flow();
    let mut cache = FlowCache::new(1024, 7);
    for _ in 0..rounds {
        assert!(cache.verdict(black_box(&flow), |_| true));
    }
}

/// The owners of [`NETWORKS`] destinations, and of one in a network, among ten thousand clients and some networks. One look-up alone would take
/// more or less from process to process, as tables are hashed with a random key.
pub fn route_10000(rounds: usize) {
    let client = |number: u32| {
        let address = (u32::from_be_bytes([10, 9, 0, 0]) + number).to_be_bytes();
        IpAddr::from(address)
    };
    let mut table = RoutingTable::new(false);
    for number in 0..10_000_u32 {
        table
            .insert(IpPrefix::host(client(number)), number)
            .unwrap();
    }
    for (length, owner) in [(8, 10_001), (16, 10_002), (24, 10_003)] {
        let prefix = IpPrefix::around([198, 51, 100, 0].into(), length).unwrap();
        table.insert(prefix, owner).unwrap();
    }
    for _ in 0..rounds {
        for number in (0..NETWORKS).map(|index| 100 * u32::from(index)) {
            assert_eq!(table.owner(black_box(client(number))), Some(number));
        }
        assert_eq!(table.owner(black_box(HOST.into())), Some(10_003));
    }
}

/// The tunnel of a destination among a thousand prefixes of a device.
pub fn split_1000(rounds: usize) {
    let prefix = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let length = 24 + (low % 9);
        IpPrefix::around([198, 50 + high, low, 0].into(), length).unwrap()
    };
    let mut prefixes: Vec<_> = (0..1000).map(|number| (prefix(number), number)).collect();
    prefixes.push((IpPrefix::around([198, 0, 0, 0].into(), 8).unwrap(), 1000));
    let table = PrefixTable::new(&prefixes).unwrap();
    for _ in 0..rounds {
        assert_eq!(table.find(black_box(CLIENT.into())), None);
        assert_eq!(table.find(black_box(HOST.into())), Some(356));
    }
}

/// Networks that are asked about at once.
const NETWORKS: u8 = 64;

/// The rules about new flows to [`NETWORKS`], of which there are ten thousand, each for a network of its own; the last one decides. One look-up
/// alone would take more or less from process to process, as tables are hashed with a random key.
pub fn policy_10000(rounds: usize) {
    let rule = |number: u32| {
        let address = (u32::from_be_bytes([198, 51, 0, 0]) - number * 256).to_be_bytes();
        PacketRule {
            to: vec![IpPrefix::around(address.into(), 24).unwrap()],
            protocols: vec![6],
            ..PacketRule::allow("one")
        }
    };
    let mut rules: Vec<_> = (0..9_999).map(rule).collect();
    rules.push(PacketRule::allow("any"));
    let policy = PacketPolicy::compile(&rules, false, &Whom::default()).unwrap();

    let to_network = |network| {
        let mut packet = segment_of_tcp(0);
        // The source changes against the destination, so that the checksum of the header stays.
        packet[18] -= network;
        packet[14] += network;
        packet
    };
    let packets: Vec<_> = (1..=NETWORKS).map(to_network).collect();
    let packets: Vec<_> = packets
        .iter()
        .map(|packet| Packet::parse(packet).unwrap())
        .collect();
    for _ in 0..rounds {
        for packet in &packets {
            let decision = policy.decide(black_box(packet), OpenedBy::Client);
            assert_eq!(decision.rule, Some(9_999));
        }
    }
}

pub fn merge(rounds: usize) {
    let packets: Vec<_> = (0..SEGMENTS).map(segment_of_tcp).collect();
    let mut coalescer = Coalescer::default();
    for _ in 0..rounds {
        for packet in &packets {
            coalescer.push(black_box(packet), false, |_, packet| {
                black_box(packet);
            });
        }
        coalescer.flush(|header, packet| {
            assert_eq!(usize::from(header.segment_size), SEGMENT.len());
            black_box(packet);
        });
    }
}

pub fn cut(rounds: usize) {
    let mut whole = (OffloadHeader::DONE, Vec::new());
    let mut coalescer = Coalescer::default();
    for index in 0..SEGMENTS {
        coalescer.push(&segment_of_tcp(index), false, |_, _| {});
    }
    coalescer.flush(|header, packet| whole = (header, packet.to_vec()));

    let mut room = Vec::new();
    for _ in 0..rounds {
        let checked = whole.0.check(black_box(&whole.1)).unwrap();
        segment(&checked, &mut room, |packet| {
            black_box(packet);
        });
    }
}
