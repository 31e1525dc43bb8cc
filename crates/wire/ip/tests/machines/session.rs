//! Two ends of a tunnel, and packets between them.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use hermes_ip::{
    Accepts, Ignored, InnerMtu, IpRole, IpSession, MAX_REQUESTS, MtuError, PacketScope, Rejection,
    RouterAddresses, ScopeError, SessionError, SessionEvent, SessionSettings, Verdict,
};
use hermes_proto::capsule::{CapsuleDecoder, CapsuleType};
use hermes_proto::connect_ip::{
    AddressRequest, AssignedAddress, ConnectIpError, IpCapsule, MAX_CAPSULE, RequestedAddress,
    RouteAdvertisement,
};
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::ip::{ICMP_BURST, IcmpLimiter, IpPrefix, IpRange, Packet};
use hermes_proto::ip_template::IpScope;
use proptest::prelude::*;

use super::packets::{packet, ping, udp, with_hops};

const CLIENT: &str = "192.0.2.11";
const CLIENT_6: &str = "2001:db8::11";
const HOST: &str = "198.51.100.7";
const HOST_6: &str = "2001:db8:1::7";

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn assigned(text: &str) -> AssignedAddress {
    AssignedAddress {
        request_id: 0,
        prefix: prefix(text),
    }
}

fn routes(prefixes: &[&str]) -> RouteAdvertisement {
    let ranges = prefixes.iter().map(|text| IpRange::of(prefix(text), 0));
    RouteAdvertisement::of(ranges.collect()).unwrap()
}

fn settings(role: IpRole) -> SessionSettings {
    SessionSettings {
        role,
        scope: PacketScope::any(),
        routers: RouterAddresses {
            v4: Some([192, 0, 2, 1].into()),
            v6: Some("2001:db8::1".parse().unwrap()),
        },
        mtu: InnerMtu::STREAM,
        accepts_addresses: Accepts::All,
        accepts_routes: match role {
            IpRole::Client => Accepts::All,
            IpRole::Proxy => Accepts::Nothing,
        },
    }
}

/// Both ends of a tunnel, with a stream between them.
struct Tunnel {
    client: IpSession,
    proxy: IpSession,
    limiter: IcmpLimiter,
    now: Instant,
}

impl Tunnel {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl Fn(&mut SessionSettings)) -> Self {
        let [client, proxy] = [IpRole::Client, IpRole::Proxy].map(|role| {
            let mut settings = settings(role);
            change(&mut settings);
            IpSession::new(settings)
        });
        Self {
            client,
            proxy,
            limiter: IcmpLimiter::default(),
            now: Instant::now(),
        }
    }

    /// A client with an address of each family, which may send anywhere.
    fn remote_access() -> Self {
        let mut tunnel = Self::new();
        tunnel.open();
        tunnel
    }

    fn open(&mut self) {
        let addresses = [CLIENT, CLIENT_6].map(assigned);
        self.proxy.assign(addresses.to_vec()).unwrap();
        self.proxy.advertise(routes(&["0.0.0.0/0", "::/0"]));
        self.deliver().unwrap();
    }

    /// Delivers all capsules, as bytes.
    fn deliver(&mut self) -> Result<Vec<SessionEvent>, SessionError> {
        let mut events = Vec::new();
        loop {
            let to_proxy = self.client.poll_capsule();
            let to_client = self.proxy.poll_capsule();
            if to_proxy.is_none() && to_client.is_none() {
                return Ok(events);
            }
            for (capsule, receiver) in [(to_proxy, &mut self.proxy), (to_client, &mut self.client)]
            {
                if let Some(capsule) = capsule {
                    events.extend(feed(receiver, &capsule, self.now)?);
                }
            }
        }
    }

    /// Sends a packet of the client; the verdict of the end that stopped it, or of the last.
    fn up(&mut self, packet: &mut [u8]) -> Verdict {
        let filters = [self.client.filter().clone(), self.proxy.filter().clone()];
        match filters[0].check_to_peer(packet, packet.len(), &mut self.limiter, self.now) {
            Verdict::Pass => filters[1].check_from_peer(packet, &mut self.limiter, self.now),
            other => other,
        }
    }

    fn down(&mut self, packet: &mut [u8]) -> Verdict {
        let filters = [self.proxy.filter().clone(), self.client.filter().clone()];
        match filters[0].check_to_peer(packet, packet.len(), &mut self.limiter, self.now) {
            Verdict::Pass => filters[1].check_from_peer(packet, &mut self.limiter, self.now),
            other => other,
        }
    }

    /// The proxy's verdict on a packet that a client sends without asking its own filter.
    fn forged(&mut self, packet: &[u8]) -> Verdict {
        let filter = self.proxy.filter().clone();
        filter.check_from_peer(packet, &mut self.limiter, self.now)
    }
}

fn feed(
    receiver: &mut IpSession,
    capsule: &IpCapsule,
    now: Instant,
) -> Result<Option<SessionEvent>, SessionError> {
    let mut decoder = CapsuleDecoder::new(MAX_CAPSULE);
    decoder.push(capsule.to_bytes());
    let capsule = decoder.next().unwrap().unwrap();
    receiver.handle_capsule(capsule.kind, &capsule.value, now)
}

fn reason(verdict: &Verdict) -> Option<Rejection> {
    match verdict {
        Verdict::Reject { reason, .. } => Some(*reason),
        Verdict::Pass | Verdict::Answer(_) => None,
    }
}

/// An error of this type about a packet.
fn error_about(kind: u8, about: &[u8]) -> Vec<u8> {
    [&[kind, 1, 0, 0, 0, 0, 0, 0], about].concat()
}

/// Type and code of the error.
fn error(verdict: &Verdict) -> Option<[u8; 2]> {
    match verdict {
        Verdict::Reject {
            error: Some(error), ..
        } => {
            let message = Packet::parse(error).unwrap().payload();
            Some([message[0], message[1]])
        }
        _ => None,
    }
}

#[test]
fn a_client_that_asks_gets_addresses_and_sends() {
    let mut tunnel = Tunnel::new();
    assert_eq!(
        reason(&tunnel.up(&mut udp(CLIENT, HOST))),
        Some(Rejection::Source)
    );

    let any = [true, false].map(|is_ipv4| RequestedAddress::any(1, is_ipv4).prefix);
    let wanted = tunnel.client.request(&any);
    assert_eq!(wanted.len(), 2);
    let events = tunnel.deliver().unwrap();
    assert_eq!(events, [SessionEvent::Requested(wanted.clone())]);

    let answers = wanted
        .iter()
        .zip([CLIENT, CLIENT_6])
        .map(|(request, address)| AssignedAddress {
            request_id: request.request_id,
            prefix: prefix(address),
        });
    tunnel.proxy.assign(answers.collect()).unwrap();
    tunnel.proxy.advertise(routes(&["0.0.0.0/0", "::/0"]));
    tunnel.deliver().unwrap();
    assert!(tunnel.client.unanswered().is_empty());
    assert_eq!(
        tunnel.client.own_addresses(),
        [CLIENT, CLIENT_6].map(prefix)
    );

    for [from, to] in [[CLIENT, HOST], [CLIENT_6, HOST_6]] {
        for packet in [udp, ping] {
            let mut sent = packet(from, to);
            assert_eq!(tunnel.up(&mut sent), Verdict::Pass);
            assert_eq!(
                Packet::parse(&sent).unwrap().hop_limit(),
                63,
                "one hop a tunnel"
            );
            assert_eq!(tunnel.down(&mut packet(to, from)), Verdict::Pass);
        }
    }
    assert!(tunnel.client.filter().carries(true) && tunnel.client.filter().carries(false));
}

#[test]
fn every_request_is_answered_if_only_with_a_refusal() {
    let mut tunnel = Tunnel::new();
    let wishes = ["10.0.0.1/32", "10.0.0.2/32", "2001:db8::/64"].map(prefix);
    let wanted = tunnel.client.request(&wishes);
    tunnel.deliver().unwrap();
    let granted = AssignedAddress {
        request_id: wanted[1].request_id,
        prefix: wishes[1],
    };
    tunnel.proxy.assign(vec![granted]).unwrap();

    let events = tunnel.deliver().unwrap();
    let [
        SessionEvent::Assigned {
            taken,
            refused,
            ignored,
        },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(taken[..], wishes[1..2]);
    assert_eq!(refused[..], [wanted[0], wanted[2]]);
    assert!(ignored.is_empty());

    // A refused request is not answered again.
    tunnel
        .proxy
        .assign(vec![granted, assigned("10.0.0.3")])
        .unwrap();
    let Some(IpCapsule::Assign(again)) = tunnel.proxy.poll_capsule() else {
        panic!("the assignment changed")
    };
    assert_eq!(again.addresses, [granted, assigned("10.0.0.3")]);
}

#[test]
fn many_refusals_take_several_capsules() {
    let mut tunnel = Tunnel::new();
    for _ in 0..3 {
        tunnel.client.request(&[prefix("10.0.0.1/32"); 100]);
    }
    tunnel.deliver().unwrap();
    tunnel.proxy.assign(vec![assigned(CLIENT)]).unwrap();
    let refused: usize = tunnel
        .deliver()
        .unwrap()
        .iter()
        .map(|event| match event {
            SessionEvent::Assigned { refused, .. } => refused.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(refused, 300);
    assert!(tunnel.client.unanswered().is_empty());
    assert_eq!(tunnel.client.own_addresses(), [prefix(CLIENT)]);
}

#[test]
fn each_capsule_replaces_the_one_before() {
    let mut tunnel = Tunnel::remote_access();
    tunnel.proxy.assign(vec![assigned("192.0.2.12")]).unwrap();
    tunnel.proxy.advertise(routes(&["203.0.113.0/24"]));
    tunnel.deliver().unwrap();

    assert_eq!(
        reason(&tunnel.up(&mut udp(CLIENT, "203.0.113.1"))),
        Some(Rejection::Source)
    );
    let old = tunnel.up(&mut udp("192.0.2.12", HOST));
    assert_eq!(reason(&old), Some(Rejection::Destination));
    assert_eq!(error(&old), Some([3, 0]));
    assert_eq!(
        tunnel.up(&mut udp("192.0.2.12", "203.0.113.1")),
        Verdict::Pass
    );

    tunnel.proxy.assign(Vec::new()).unwrap();
    tunnel.deliver().unwrap();
    assert!(tunnel.client.own_addresses().is_empty());
    let gone = tunnel.up(&mut udp("192.0.2.12", "203.0.113.1"));
    assert_eq!(reason(&gone), Some(Rejection::Source));
}

#[test]
fn a_peer_that_reads_slowly_is_told_the_last_state_only() {
    let mut tunnel = Tunnel::new();
    for last in 0..=255_u8 {
        tunnel
            .proxy
            .assign(vec![assigned(&format!("10.0.0.{last}"))])
            .unwrap();
        tunnel
            .proxy
            .advertise(routes(&[&format!("10.1.{last}.0/24")]));
    }
    let capsules: Vec<_> = std::iter::from_fn(|| tunnel.proxy.poll_capsule()).collect();
    assert_eq!(capsules.len(), 2);
    assert!(matches!(&capsules[0], IpCapsule::Assign(assign)
        if assign.addresses == [assigned("10.0.0.255")]));
    assert_eq!(capsules[1], IpCapsule::Routes(routes(&["10.1.255.0/24"])));
    // The same again is no news.
    tunnel.proxy.advertise(routes(&["10.1.255.0/24"]));
    assert_eq!(tunnel.proxy.poll_capsule(), None);
}

#[test]
fn a_forged_source_is_refused_with_the_error_for_that() {
    let mut tunnel = Tunnel::remote_access();
    for (packet, expected) in [
        (udp("192.0.2.12", HOST), [3, 13]),
        (udp("2001:db8::12", HOST_6), [1, 5]),
    ] {
        let verdict = tunnel.forged(&packet);
        assert_eq!(reason(&verdict), Some(Rejection::Source));
        assert_eq!(error(&verdict), Some(expected));
    }
    // Nor may it forge errors, which a client takes from anyone.
    let unreachable = packet("203.0.113.1", HOST, 1, &[3, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        reason(&tunnel.forged(&unreachable)),
        Some(Rejection::Source)
    );
}

#[test]
fn errors_reach_the_client_from_any_router() {
    let mut tunnel = Tunnel::with(|settings| {
        settings.scope = PacketScope::of(
            &IpScope::parse("/.well-known/masque/ip/198.51.100.7/17/").unwrap(),
            &[],
        )
        .unwrap();
    });
    tunnel.proxy.assign(vec![assigned(CLIENT)]).unwrap();
    tunnel.proxy.advertise(routes(&[HOST]));
    tunnel.deliver().unwrap();
    let from_router = |kind| {
        packet(
            "203.0.113.1",
            CLIENT,
            1,
            &error_about(kind, &udp(CLIENT, HOST)),
        )
    };
    assert_eq!(tunnel.down(&mut from_router(3)), Verdict::Pass);
    assert_eq!(tunnel.down(&mut from_router(11)), Verdict::Pass);
    // Not an echo request.
    assert_eq!(
        reason(&tunnel.down(&mut from_router(8))),
        Some(Rejection::Source)
    );
}

#[test]
fn errors_pass_only_about_what_went_the_other_way() {
    let mut tunnel = Tunnel::remote_access();
    let other = "192.0.2.12";
    let reasons = |tunnel: &mut Tunnel, about: &[u8]| {
        let mut up = packet(CLIENT, HOST, 1, &error_about(3, about));
        let mut down = packet(HOST, CLIENT, 1, &error_about(3, about));
        [tunnel.up(&mut up), tunnel.down(&mut down)].map(|verdict| reason(&verdict))
    };
    let forged = Some(Rejection::Quotation);
    assert_eq!(reasons(&mut tunnel, &udp(HOST, CLIENT)), [None, forged]);
    assert_eq!(reasons(&mut tunnel, &udp(CLIENT, HOST)), [forged, None]);
    for about in [
        udp(HOST, other),
        udp(other, CLIENT),
        udp(other, HOST),
        Vec::new(),
    ] {
        assert_eq!(reasons(&mut tunnel, &about), [forged, forged]);
    }

    // A client that does not keep to it itself gets no further.
    let forged = packet(CLIENT, HOST, 1, &error_about(3, &udp(HOST, other)));
    assert_eq!(reason(&tunnel.forged(&forged)), Some(Rejection::Quotation));
}

#[test]
fn a_scoped_tunnel_passes_its_target_its_protocol_and_icmp() {
    let scope = IpScope::parse("/.well-known/masque/ip/198.51.100.0%2F24/17/").unwrap();
    let scope = PacketScope::of(&scope, &[]).unwrap();
    // Only the proxy keeps to it here, as a client might not.
    let mut tunnel = Tunnel::with(|settings| {
        if settings.role == IpRole::Proxy {
            settings.scope = scope.clone();
        }
    });
    tunnel.open();
    assert_eq!(tunnel.up(&mut udp(CLIENT, HOST)), Verdict::Pass);
    assert_eq!(tunnel.up(&mut ping(CLIENT, HOST)), Verdict::Pass);
    let tcp = packet(CLIENT, HOST, 6, &[0; 20]);
    let other_protocol = tunnel.forged(&tcp);
    assert_eq!(reason(&other_protocol), Some(Rejection::Scope));
    assert_eq!(error(&other_protocol), Some([3, 13]));
    for packet in [udp(CLIENT, "203.0.113.1"), ping(CLIENT, "203.0.113.1")] {
        assert_eq!(reason(&tunnel.forged(&packet)), Some(Rejection::Scope));
    }
    assert_eq!(
        reason(&tunnel.down(&mut udp("203.0.113.1", CLIENT))),
        Some(Rejection::Scope)
    );
}

#[test]
fn scopes_that_no_tunnel_can_have_say_why() {
    let scope = |path: &str| IpScope::parse(&format!("/.well-known/masque/ip/{path}/")).unwrap();
    let host = "198.51.100.7".parse().unwrap();
    assert_eq!(
        PacketScope::of(&scope("*/44"), &[]),
        Err(ScopeError::ExtensionHeader(44))
    );
    let name = PacketScope::of(&scope("host.example/*"), &[]).unwrap_err();
    assert_eq!(name.to_string(), "host.example has no address");
    let resolved = PacketScope::of(&scope("host.example/*"), &[host]).unwrap();
    assert!(resolved.takes_to(host, 6) && !resolved.takes_to([198, 51, 100, 8].into(), 6));
}

#[test]
fn what_is_not_for_a_client_does_not_reach_it() {
    let mut tunnel = Tunnel::remote_access();
    let stray = tunnel.down(&mut udp(HOST, "192.0.2.99"));
    assert_eq!(reason(&stray), Some(Rejection::Destination));
    let mut forged = udp(HOST, "192.0.2.99");
    let filter = tunnel.client.filter().clone();
    let verdict = filter.check_from_peer(&forged, &mut tunnel.limiter, tunnel.now);
    assert_eq!(reason(&verdict), Some(Rejection::Destination));
    forged[12] = 127;
    let verdict = filter.check_from_peer(&forged, &mut tunnel.limiter, tunnel.now);
    assert!(matches!(reason(&verdict), Some(Rejection::Malformed(_))));
}

#[test]
fn addresses_of_a_link_or_of_many_hosts_stay_there() {
    let mut tunnel = Tunnel::remote_access();
    for [from, to] in [
        [CLIENT, "224.0.0.251"],
        [CLIENT, "255.255.255.255"],
        [CLIENT, "127.0.0.1"],
        [CLIENT, "169.254.169.254"],
        [CLIENT, "0.0.0.0"],
        ["127.0.0.1", HOST],
        [CLIENT_6, "ff02::2"],
        [CLIENT_6, "fe80::1"],
        [CLIENT_6, "::1"],
        [CLIENT_6, "::ffff:10.0.0.1"],
        ["fe80::7", HOST_6],
    ] {
        for verdict in [tunnel.forged(&udp(from, to)), tunnel.up(&mut udp(from, to))] {
            assert_eq!(
                reason(&verdict),
                Some(Rejection::NotForwarded),
                "{from} to {to}"
            );
            assert_eq!(error(&verdict), None);
        }
    }
}

#[test]
fn no_peer_changes_the_routes_of_a_host() {
    let mut tunnel = Tunnel::remote_access();
    for kind in [5, 9, 10] {
        let mut from_above = packet(HOST, CLIENT, 1, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            reason(&tunnel.down(&mut from_above)),
            Some(Rejection::NotForwarded)
        );
    }
    for kind in 133..=137 {
        let from_below = packet(CLIENT_6, HOST_6, 58, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            reason(&tunnel.forged(&from_below)),
            Some(Rejection::NotForwarded)
        );
    }
}

#[test]
fn a_packet_of_any_length_fits_a_capsule() {
    let longest = packet(CLIENT_6, HOST_6, 50, &vec![7; 65_535]);
    let mut stream = BytesMut::new();
    DatagramFormat::IP
        .encode_capsule(&longest, &mut stream)
        .unwrap();
    let mut decoder = CapsuleDecoder::new(DatagramFormat::IP.max_capsule());
    decoder.push(stream.freeze());
    let capsule = decoder.next().unwrap().unwrap();
    let found = DatagramFormat::IP.decode(capsule.value).unwrap().unwrap();
    assert_eq!(found, longest);
    let mut tunnel = Tunnel::remote_access();
    assert_eq!(tunnel.forged(&found), Verdict::Pass);
}

#[test]
fn malformed_packets_are_dropped_without_a_word() {
    let mut tunnel = Tunnel::remote_access();
    let mut cut = udp(CLIENT, HOST);
    cut.pop();
    for bytes in [&cut[..], &[], &[0x45; 19], &[0xff; 64]] {
        let verdict = tunnel.forged(bytes);
        assert!(matches!(reason(&verdict), Some(Rejection::Malformed(_))));
        assert_eq!(error(&verdict), None);
    }
}

#[test]
fn a_packet_that_is_too_long_tells_its_sender() {
    let mut tunnel = Tunnel::with(|settings| settings.mtu = InnerMtu::new(1300).unwrap());
    tunnel.open();
    let long = vec![0; 1300];
    for (packet, kind) in [
        (packet(CLIENT, HOST, 50, &long), [3, 4]),
        (packet(CLIENT_6, HOST_6, 50, &long), [2, 0]),
    ] {
        let length = packet.len();
        let verdict = tunnel.up(&mut packet.clone());
        assert_eq!(
            reason(&verdict),
            Some(Rejection::TooBig { length, mtu: 1300 })
        );
        assert_eq!(error(&verdict), Some(kind));

        // A super-packet counts by its segments.
        let filter = tunnel.client.filter().clone();
        let mut whole = packet.clone();
        let verdict = filter.check_to_peer(&mut whole, 1300, &mut tunnel.limiter, tunnel.now);
        assert_eq!(verdict, Verdict::Pass);
    }
}

#[test]
fn connections_ask_for_segments_that_the_tunnel_carries() {
    let mut tunnel = Tunnel::with(|settings| settings.mtu = InnerMtu::new(1300).unwrap());
    tunnel.open();
    let opening = |from: &str, to: &str, flags: u8| {
        let mut segment = [0; 24];
        segment[12..14].copy_from_slice(&[0x60, flags]);
        segment[20..].copy_from_slice(&[2, 4, 0x05, 0xb4]);
        packet(from, to, 6, &segment)
    };
    let filter = tunnel.client.filter().clone();
    for ([from, to], header) in [([CLIENT, HOST], 20), ([CLIENT_6, HOST_6], 40)] {
        for flags in [0x02, 0x12] {
            let mut packet = opening(from, to, flags);
            assert!(filter.clamp_tcp(&mut packet, true));
            let size = u16::from_be_bytes([packet[header + 22], packet[header + 23]]);
            assert_eq!(usize::from(size), 1300 - header - 20);
            assert!(!filter.clamp_tcp(&mut packet, true));
        }
        let mut later = opening(from, to, 0x10);
        assert!(!filter.clamp_tcp(&mut later, true));
    }
    for other in [
        &mut [][..],
        &mut [0x45],
        &mut [0x60; 50],
        &mut udp(CLIENT, HOST),
    ] {
        assert!(!filter.clamp_tcp(other, true));
    }
    let wide = Tunnel::remote_access();
    assert!(
        !wide
            .client
            .filter()
            .clamp_tcp(&mut opening(CLIENT, HOST, 0x02), true)
    );
}

#[test]
fn the_last_hop_is_not_passed_on() {
    let mut tunnel = Tunnel::remote_access();
    for [from, to, kind] in [[CLIENT, HOST, "v4"], [CLIENT_6, HOST_6, "v6"]] {
        let mut last = with_hops(from, to, 17, &[0; 8], 1);
        let before = last.clone();
        let verdict = tunnel.up(&mut last);
        assert_eq!(reason(&verdict), Some(Rejection::HopLimit));
        assert_eq!(
            error(&verdict),
            Some(if kind == "v4" { [11, 0] } else { [3, 0] })
        );
        assert_eq!(last, before);

        let mut next = with_hops(from, to, 17, &[0; 8], 2);
        assert_eq!(tunnel.up(&mut next), Verdict::Pass);
        assert_eq!(Packet::parse(&next).unwrap().hop_limit(), 1);
    }
}

#[test]
fn a_flood_is_not_answered_with_a_flood() {
    let mut tunnel = Tunnel::remote_access();
    let forged = udp("192.0.2.12", HOST);
    let errors = (0..10_000).filter(|_| error(&tunnel.forged(&forged)).is_some());
    assert_eq!(errors.count(), ICMP_BURST as usize);
    tunnel.now += Duration::from_secs(60);
    assert!(error(&tunnel.forged(&forged)).is_some());
}

#[test]
fn a_client_routes_only_what_it_was_granted() {
    let mut tunnel = Tunnel::with(|settings| {
        if settings.role == IpRole::Proxy {
            settings.accepts_routes = Accepts::within([prefix("10.7.0.0/16")]);
        }
    });
    tunnel.open();
    tunnel
        .client
        .advertise(routes(&["10.7.1.0/24", "10.8.0.0/16"]));
    let events = tunnel.deliver().unwrap();
    let range = |text: &str| IpRange::of(prefix(text), 0);
    assert_eq!(
        events,
        [SessionEvent::Routed {
            taken: vec![range("10.7.1.0/24")],
            ignored: vec![range("10.8.0.0/16")]
        }]
    );
    assert_eq!(tunnel.forged(&udp("10.7.1.5", HOST)), Verdict::Pass);
    assert_eq!(
        reason(&tunnel.forged(&udp("10.8.0.5", HOST))),
        Some(Rejection::Source)
    );
    assert_eq!(tunnel.down(&mut udp(HOST, "10.7.1.5")), Verdict::Pass);
}

#[test]
fn a_route_that_is_granted_in_part_is_taken_in_part() {
    let mut tunnel = Tunnel::with(|settings| {
        if settings.role == IpRole::Proxy {
            settings.accepts_routes = Accepts::within(["10.7.0.0/16", "10.9.0.0/16"].map(prefix));
        }
    });
    tunnel
        .client
        .advertise(routes(&["10.0.0.0/8", "2001:db8::/32"]));
    let events = tunnel.deliver().unwrap();
    let [SessionEvent::Routed { taken, ignored }] = &events[..] else {
        panic!("{events:?}")
    };
    let written: Vec<_> = taken.iter().map(ToString::to_string).collect();
    assert_eq!(written, ["10.7.0.0-10.7.255.255", "10.9.0.0-10.9.255.255"]);
    assert_eq!(ignored.len(), 2);
}

#[test]
fn an_address_that_is_not_accepted_is_not_used() {
    let mut tunnel = Tunnel::with(|settings| {
        settings.accepts_addresses = Accepts::within([prefix("192.0.2.0/24")]);
    });
    let addresses = ["192.0.2.5", "10.0.0.5", "192.0.0.0/16"].map(assigned);
    tunnel.proxy.assign(addresses.to_vec()).unwrap();
    let events = tunnel.deliver().unwrap();
    let ignored = ["10.0.0.5", "192.0.0.0/16"].map(|text| (prefix(text), Ignored::NotAccepted));
    assert_eq!(
        events,
        [SessionEvent::Assigned {
            taken: vec![prefix("192.0.2.5")],
            ignored: ignored.to_vec(),
            refused: vec![]
        }]
    );
}

#[test]
fn a_narrow_tunnel_has_no_ipv6_and_says_why() {
    let narrow = InnerMtu::of_datagrams(1200, 1).unwrap();
    let mut tunnel = Tunnel::with(|settings| settings.mtu = narrow);
    let wanted = tunnel
        .client
        .request(&[RequestedAddress::any(1, false).prefix]);
    tunnel.deliver().unwrap();
    let answer = AssignedAddress {
        request_id: wanted[0].request_id,
        prefix: prefix(CLIENT_6),
    };
    let refused = tunnel
        .proxy
        .assign(vec![answer, assigned(CLIENT)])
        .unwrap_err();
    assert_eq!(refused, MtuError::BelowIpv6(1199));
    assert_eq!(
        refused.to_string(),
        "the tunnel carries 1199 bytes, fewer than the 1280 that every link of IPv6 must"
    );
    let events = tunnel.deliver().unwrap();
    assert_eq!(
        events,
        [SessionEvent::Assigned {
            taken: vec![prefix(CLIENT)],
            ignored: vec![],
            refused: wanted
        }]
    );

    // A peer that assigns it nevertheless is not believed.
    let capsule = b"\0\x06\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x11\x80";
    let event = tunnel
        .client
        .handle_capsule(CapsuleType::AddressAssign, capsule, tunnel.now);
    let ignored = vec![(prefix(CLIENT_6), Ignored::Mtu(refused))];
    assert_eq!(
        event,
        Ok(Some(SessionEvent::Assigned {
            taken: vec![],
            ignored,
            refused: vec![]
        }))
    );
    assert!(InnerMtu::new(67).is_err());
}

#[test]
fn a_path_that_becomes_too_narrow_for_ipv6_is_an_error() {
    let mut tunnel = Tunnel::remote_access();
    let narrow = InnerMtu::new(1279).unwrap();
    for session in [&mut tunnel.client, &mut tunnel.proxy] {
        assert_eq!(session.set_mtu(narrow), Err(MtuError::BelowIpv6(1279)));
        assert_eq!(session.set_mtu(InnerMtu::new(1280).unwrap()), Ok(()));
        assert_eq!(session.filter().mtu().bytes(), 1280);
    }
    tunnel.proxy.assign(vec![assigned(CLIENT)]).unwrap();
    tunnel.deliver().unwrap();
    assert_eq!(tunnel.client.set_mtu(narrow), Ok(()));
}

#[test]
fn request_ids_are_not_used_again() {
    let mut tunnel = Tunnel::new();
    let request = |id| {
        let request = AddressRequest::new(vec![RequestedAddress::any(id, true)]).unwrap();
        IpCapsule::Request(request)
    };
    assert!(feed(&mut tunnel.proxy, &request(7), tunnel.now).is_ok());
    assert_eq!(
        feed(&mut tunnel.proxy, &request(7), tunnel.now),
        Err(SessionError::Capsule(ConnectIpError::IdTwice(7)))
    );
}

#[test]
fn a_device_that_asks_for_its_address_for_years_is_answered() {
    let mut tunnel = Tunnel::new();
    let mut now = tunnel.now;
    let mut ask = |id: u64| {
        now += Duration::from_secs(3600);
        let request = AddressRequest::new(vec![RequestedAddress::any(id, true)]).unwrap();
        let fed = feed(&mut tunnel.proxy, &IpCapsule::Request(request), now);
        tunnel.proxy.assign(vec![assigned(CLIENT)]).unwrap();
        while tunnel.proxy.poll_capsule().is_some() {}
        fed.map(drop)
    };
    for id in 1..=20 * MAX_REQUESTS as u64 {
        assert_eq!(ask(id), Ok(()), "{id}");
    }
    // No ID can be used again, although not all are remembered.
    for id in [1, 19 * MAX_REQUESTS as u64, 20 * MAX_REQUESTS as u64] {
        let twice = SessionError::Capsule(ConnectIpError::IdTwice(id));
        assert_eq!(ask(id), Err(twice));
    }
}

#[test]
fn a_peer_may_not_request_without_end() {
    let mut tunnel = Tunnel::new();
    let mut now = tunnel.now;
    let mut feed_more = |first: usize| {
        now += Duration::from_secs(1);
        let requests = (first..first + 128).map(|id| RequestedAddress::any(id as u64 + 1, true));
        let request = IpCapsule::Request(AddressRequest::new(requests.collect()).unwrap());
        feed(&mut tunnel.proxy, &request, now)
    };
    for round in 0..MAX_REQUESTS / 128 {
        assert!(feed_more(128 * round).is_ok());
    }
    assert_eq!(feed_more(MAX_REQUESTS), Err(SessionError::TooManyRequests));
}

#[test]
fn a_peer_that_reads_nothing_is_not_answered_without_end() {
    let mut tunnel = Tunnel::new();
    let mut now = tunnel.now;
    let mut asks = 0;
    loop {
        now += Duration::from_secs(1);
        let first = 128 * asks + 1;
        let requests = (first..first + 128).map(|id| RequestedAddress::any(id, true));
        let request = IpCapsule::Request(AddressRequest::new(requests.collect()).unwrap());
        let fed = feed(&mut tunnel.proxy, &request, now);
        if let Err(error) = fed {
            assert_eq!(error, SessionError::TooManyRequests);
            break;
        }
        // The request is answered at once.
        tunnel.proxy.assign(vec![assigned(CLIENT)]).unwrap();
        asks += 1;
        assert!(asks <= MAX_REQUESTS as u64 / 128, "refusals without end");
    }
}

#[test]
fn capsules_that_come_too_often_end_the_session() {
    let mut tunnel = Tunnel::new();
    let nothing = IpCapsule::Routes(RouteAdvertisement::default());
    let mut taken = 0;
    while feed(&mut tunnel.client, &nothing, tunnel.now).is_ok() {
        taken += 1;
        assert!(taken < 1000);
    }
    let later = tunnel.now + Duration::from_secs(3600);
    assert!(feed(&mut tunnel.client, &nothing, later).is_ok());
    // Capsules of other protocols are ignored.
    let other = tunnel
        .client
        .handle_capsule(CapsuleType::Other(99), b"", tunnel.now);
    assert_eq!(other, Ok(None));
}

/// Addresses of which some are assigned, some routed, and some neither.
fn any_address() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        CLIENT,
        HOST,
        "192.0.2.12",
        "10.7.1.5",
        "10.8.1.5",
        "127.0.0.1",
        "224.0.0.1",
    ])
}

proptest! {
    #[test]
    fn only_what_may_pass_does(
        from in any_address(), to in any_address(), quoted in any_address(), protocol in prop::sample::select(vec![1_u8, 6, 17, 132]),
        kind in prop::sample::select(vec![0_u8, 3, 8, 11]), hops in 0_u8..4,
    ) {
        let mut tunnel = Tunnel::with(|settings| {
            if settings.role == IpRole::Proxy {
                settings.accepts_routes = Accepts::within([prefix("10.7.0.0/16")]);
            }
        });
        tunnel.proxy.assign(vec![assigned(CLIENT)]).unwrap();
        tunnel.proxy.advertise(routes(&["198.51.100.0/24"]));
        tunnel.client.advertise(routes(&["10.7.0.0/16"]));
        tunnel.deliver().unwrap();

        let is_theirs = |address: &str| address == CLIENT || address.starts_with("10.7.");
        let is_ours = |address: &str| address == HOST;
        let is_error = protocol == 1 && (kind == 3 || kind == 11);
        let payload = match is_error {
            true => error_about(kind, &udp(to, quoted)),
            false => [&[kind][..], &[0; 19]].concat(),
        };
        let mut up = with_hops(from, to, protocol, &payload, hops);
        let is_forged = is_error && !is_theirs(quoted);
        let passes = is_theirs(from) && is_ours(to) && hops > 1 && !is_forged;
        prop_assert_eq!(tunnel.up(&mut up).passes(), passes);

        let is_one_host = !from.starts_with("127.") && !from.starts_with("224.");
        let may_send = match is_error {
            true => is_one_host && is_ours(quoted),
            false => is_ours(from),
        };
        let mut down = with_hops(from, to, protocol, &payload, hops);
        prop_assert_eq!(tunnel.down(&mut down).passes(), may_send && is_theirs(to) && hops > 1);
    }

    #[test]
    fn capsules_of_chance_change_no_one_elses_addresses(
        capsules in prop::collection::vec((1_u64..4, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
    ) {
        let mut tunnel = Tunnel::remote_access();
        for (kind, value) in capsules {
            let _ = tunnel.proxy.handle_capsule(CapsuleType::from(kind), &value, tunnel.now);
        }
        // Neither routes nor assignments of a client make it someone else.
        prop_assert_eq!(reason(&tunnel.forged(&udp("192.0.2.12", HOST))), Some(Rejection::Source));
        prop_assert_eq!(tunnel.forged(&udp(CLIENT, HOST)), Verdict::Pass);
    }
}
