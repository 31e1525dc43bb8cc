//! Invariants of a session, for any input of its peer.

use std::time::{Duration, Instant};

use hermes_proto::capsule::CapsuleType;
use hermes_proto::connect_ip::{AssignedAddress, IpCapsule, MAX_ADDRESSES, RouteAdvertisement};
use hermes_proto::ip::{ANY_PROTOCOL, IcmpLimiter, IpPrefix, IpRange, Packet};

use super::{Accepts, IpSession, SessionSettings};
use crate::mtu::InnerMtu;
use crate::packet_filter::RouterAddresses;
use crate::role::IpRole;
use crate::scope::PacketScope;

/// Feeds a proxy's session arbitrary capsules and packets, each behind a type and a length of a
/// byte: every request is answered within the bounds, and packets that pass come from addresses
/// that the client was assigned or granted, and go to allowed ones.
pub(crate) fn fuzz_session(data: &[u8], mut now: Instant) {
    let client = IpPrefix::host([192, 0, 2, 11].into());
    let Ok(granted) = IpPrefix::new([10, 7, 0, 0].into(), 16) else {
        return;
    };
    let mut session = IpSession::new(SessionSettings {
        role: IpRole::Proxy,
        scope: PacketScope::any(),
        routers: RouterAddresses::default(),
        mtu: InnerMtu::STREAM,
        accepts_addresses: Accepts::Nothing,
        accepts_routes: Accepts::within([granted]),
    });

    let everywhere = IpRange::of(IpPrefix::ALL_V4, ANY_PROTOCOL);
    if let Ok(routes) = RouteAdvertisement::new(vec![everywhere]) {
        session.advertise(routes);
    }
    let mut limiter = IcmpLimiter::default();
    let mut rest = data;
    while let [kind, length, more @ ..] = rest {
        let (value, after) = more.split_at(usize::from(*length).min(more.len()));
        rest = after;
        now += Duration::from_millis(200);

        if *kind != 0 {
            let kind = CapsuleType::from(u64::from(*kind));
            if session.handle_capsule(kind, value, now).is_err() {
                return;
            }
            let assigned = AssignedAddress {
                request_id: 0,
                prefix: client,
            };
            if session.assign(vec![assigned]).is_err() {
                return;
            }
            drain(&mut session);
            continue;
        }

        let verdict = session.filter().check_from_peer(value, &mut limiter, now);
        if verdict.passes() {
            let packet = Packet::parse(value).map(|packet| packet.source());
            assert!(packet.is_ok_and(|source| client.contains(source) || granted.contains(source)));
        }
        let mut copy = value.to_vec();
        let filter = session.filter();
        if filter
            .check_to_peer(&mut copy, value.len(), &mut limiter, now)
            .passes()
        {
            let packet = Packet::parse(&copy).map(|packet| packet.destination());
            assert!(packet.is_ok_and(|to| client.contains(to) || granted.contains(to)));
        }
    }
}

fn drain(session: &mut IpSession) {
    while let Some(capsule) = session.poll_capsule() {
        if let IpCapsule::Assign(assign) = &capsule {
            assert!(assign.addresses.len() <= MAX_ADDRESSES);
        }
        assert!(!capsule.to_bytes().is_empty());
    }
    assert!(session.requests.peer.is_empty());
}
