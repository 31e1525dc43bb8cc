//! Two interfaces, and the datagrams between them.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use proptest::prelude::{ProptestConfig, any, prop, proptest};

use super::*;
use crate::message::OVERHEAD;

const MTU: usize = 1420;

/// Two interfaces that are peers, and the datagrams between them.
struct Pair {
    alice: End,
    bob: End,
    now: Instant,
}

struct End {
    interface: Interface,
    peer: PeerId,
    address: SocketAddr,
    /// Packets that came.
    came: Vec<Vec<u8>>,
}

fn address(last: u8) -> SocketAddr {
    ([192, 0, 2, last], 51820).into()
}

fn settings(of: &Interface, endpoint: Option<SocketAddr>, allowed: &str) -> PeerSettings {
    PeerSettings {
        public_key: of.public_key(),
        preshared_key: None,
        endpoint,
        allowed: vec![allowed.parse().unwrap()],
        keepalive: None,
        mtu: MTU,
    }
}

fn packet(source: [u8; 4], destination: [u8; 4], payload: usize) -> Vec<u8> {
    let mut packet = vec![0; 20 + payload];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&((20 + payload) as u16).to_be_bytes());
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&destination);
    packet
}

const ALICE: [u8; 4] = [10, 0, 0, 1];
const BOB: [u8; 4] = [10, 0, 0, 2];

impl Pair {
    /// Alice knows where Bob is, and not the other way round.
    fn new(keepalive: Option<Duration>) -> Self {
        let now = Instant::now();
        let clock = WallClock {
            at: now,
            unix: Duration::from_secs(1_000),
        };
        let interface = || Interface::new(PrivateKey::generate().unwrap(), clock).unwrap();
        let mut alice = interface();
        let mut bob = interface();
        let of_bob = PeerSettings {
            keepalive,
            ..settings(&bob, Some(address(2)), "10.0.0.2/32")
        };
        let of_alice = settings(&alice, None, "10.0.0.1/32");
        let bobs = alice.add_peer(of_bob, now).unwrap();
        let alices = bob.add_peer(of_alice, now).unwrap();
        let end = |interface, peer, last| End {
            interface,
            peer,
            address: address(last),
            came: Vec::new(),
        };
        Self {
            alice: end(alice, bobs, 1),
            bob: end(bob, alices, 2),
            now,
        }
    }

    /// Carries datagrams until no datagram waits.
    fn carry(&mut self) {
        loop {
            let to_bob = self.alice.outgoing();
            let to_alice = self.bob.outgoing();
            if to_bob.is_empty() && to_alice.is_empty() {
                return;
            }
            for payload in to_bob {
                self.bob.take(self.alice.address, &payload, self.now);
            }
            for payload in to_alice {
                self.alice.take(self.bob.address, &payload, self.now);
            }
        }
    }

    fn wait(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            self.alice.interface.handle_timeout(self.now);
            self.bob.interface.handle_timeout(self.now);
            self.carry();
        }
    }

    fn alice_sends(&mut self, payload: usize) -> Option<Vec<u8>> {
        self.alice.send(&packet(ALICE, BOB, payload), self.now)
    }

    fn agree(&mut self) {
        assert!(self.alice_sends(1).is_none());
        self.carry();
        assert_eq!(self.bob.came.len(), 1);
        self.bob.came.clear();
    }
}

impl End {
    fn outgoing(&mut self) -> Vec<Vec<u8>> {
        let interface = &mut self.interface;
        std::iter::from_fn(|| interface.poll_outgoing())
            .map(|outgoing| outgoing.payload)
            .collect()
    }

    fn take(&mut self, from: SocketAddr, payload: &[u8], now: Instant) {
        let mut room = Vec::new();
        if let Some(peer) = self
            .interface
            .handle_datagram(from, payload, &mut room, now)
        {
            assert_eq!(peer, self.peer);
            self.came.push(room);
        }
    }

    fn send(&mut self, packet: &[u8], now: Instant) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.interface.send(self.peer, packet, &mut out, now)?;
        Some(out)
    }

    fn view(&self, now: Instant) -> PeerView {
        self.interface.view(self.peer, now).unwrap()
    }
}

#[test]
fn packets_wait_for_the_handshake_and_both_directions_carry_them() {
    let mut pair = Pair::new(None);
    let sent = packet(ALICE, BOB, 100);
    assert!(pair.alice.send(&sent, pair.now).is_none());
    pair.carry();
    assert_eq!(pair.bob.came, [sent]);

    let answer = packet(BOB, ALICE, 33);
    let datagram = pair.bob.send(&answer, pair.now).unwrap();
    // The packet is padded to a multiple of sixteen bytes.
    assert_eq!(datagram.len(), 64 + OVERHEAD);
    pair.alice.take(address(2), &datagram, pair.now);
    assert_eq!(pair.alice.came, [answer]);
    assert_eq!(pair.bob.view(pair.now).endpoint, Some(address(1)));

    let longest = packet(ALICE, BOB, MTU - 20);
    let datagram = pair.alice.send(&longest, pair.now).unwrap();
    assert_eq!(datagram.len(), MTU + OVERHEAD);
}

#[test]
fn the_return_path_follows_what_is_authenticated_and_nothing_else() {
    let mut pair = Pair::new(None);
    pair.agree();
    let datagram = pair.alice_sends(1).unwrap();
    let mut forged = datagram.clone();
    forged[20] ^= 1;
    pair.bob.take(address(66), &forged, pair.now);
    assert_eq!(pair.bob.view(pair.now).endpoint, Some(address(1)));

    pair.bob.take(address(7), &datagram, pair.now);
    assert_eq!(pair.bob.view(pair.now).endpoint, Some(address(7)));
    // Played again from elsewhere, it moves nothing.
    pair.bob.take(address(66), &datagram, pair.now);
    assert_eq!(pair.bob.view(pair.now).endpoint, Some(address(7)));
    assert_eq!(pair.bob.came.len(), 1);
    assert_eq!(pair.bob.view(pair.now).counters.refused, 2);
}

#[test]
fn a_source_that_is_not_the_peers_does_not_pass() {
    let mut pair = Pair::new(None);
    pair.agree();
    let forged = packet([10, 0, 0, 9], BOB, 1);
    let datagram = pair.alice.send(&forged, pair.now).unwrap();
    pair.bob.take(address(1), &datagram, pair.now);
    assert!(pair.bob.came.is_empty());
    assert_eq!(pair.bob.view(pair.now).counters.forged, 1);
    // Nor does a destination.
    assert!(
        pair.alice
            .send(&packet(ALICE, ALICE, 1), pair.now)
            .is_none()
    );
    assert_eq!(pair.alice.view(pair.now).counters.lost, 1);
}

#[test]
fn an_initiation_played_again_or_of_a_stranger_is_not_answered() {
    let mut pair = Pair::new(None);
    assert!(pair.alice_sends(1).is_none());
    let initiation = pair.alice.outgoing().remove(0);
    pair.bob.take(address(1), &initiation, pair.now);
    assert_eq!(pair.bob.outgoing().len(), 1);

    let later = pair.now + Duration::from_secs(1);
    pair.bob.take(address(66), &initiation, later);
    assert!(pair.bob.outgoing().is_empty());
    assert_eq!(pair.bob.view(later).endpoint, Some(address(1)));
    assert_eq!(pair.bob.interface.refused().of_peers, 1);

    let mut stranger = Pair::new(None);
    let of_bob = settings(&pair.bob.interface, Some(address(2)), "10.0.0.2/32");
    let peer = stranger.alice.interface.add_peer(of_bob, later).unwrap();
    stranger.alice.peer = peer;
    assert!(stranger.alice.send(&packet(ALICE, BOB, 1), later).is_none());
    let initiation = stranger.alice.outgoing().remove(0);
    pair.bob.take(address(1), &initiation, later);
    assert!(pair.bob.outgoing().is_empty());
    assert_eq!(pair.bob.interface.refused().strangers, 1);
}

#[test]
fn keys_are_renewed_while_packets_go_on_and_forgotten_when_they_do_not() {
    let mut pair = Pair::new(None);
    pair.agree();
    for _ in 0..400 {
        pair.wait(1);
        let datagram = pair.alice_sends(1).unwrap();
        pair.bob.take(address(1), &datagram, pair.now);
        let answer = pair.bob.send(&packet(BOB, ALICE, 1), pair.now).unwrap();
        pair.alice.take(address(2), &answer, pair.now);
        pair.carry();
    }
    assert_eq!(pair.bob.came.len(), 400);
    let age = pair.alice.view(pair.now).last_handshake.unwrap();
    assert!(age < Duration::from_secs(125), "{age:?}");

    pair.wait(600);
    assert_eq!(pair.alice.interface.indices(), 0);
    assert_eq!(pair.bob.interface.indices(), 0);
    assert_eq!(pair.alice.interface.poll_timeout(), None);
    assert_eq!(pair.bob.interface.poll_timeout(), None);
}

#[test]
fn a_handshake_is_repeated_for_a_while_and_then_given_up() {
    let mut pair = Pair::new(None);
    assert!(pair.alice_sends(1).is_none());
    let mut initiations = pair.alice.outgoing().len();
    for _ in 0..100 {
        pair.now += Duration::from_secs(1);
        pair.alice.interface.handle_timeout(pair.now);
        initiations += pair.alice.outgoing().len();
    }
    assert!((14..=18).contains(&initiations), "{initiations}");
    assert_eq!(pair.alice.interface.poll_timeout(), None);
    assert_eq!(pair.alice.interface.indices(), 0);
    assert_eq!(pair.alice.view(pair.now).counters.lost, 1);
}

#[test]
fn a_peer_that_has_nothing_to_say_says_that_it_is_there() {
    let mut pair = Pair::new(Some(Duration::from_secs(25)));
    pair.alice.interface.handle_timeout(pair.now);
    pair.carry();
    assert_eq!(pair.bob.view(pair.now).endpoint, Some(address(1)));
    let agreed = pair.bob.view(pair.now).last_handshake;
    assert_eq!(agreed, Some(Duration::ZERO));

    // Bob has no interval of his own: he answers received packets.
    let datagram = pair.alice_sends(1).unwrap();
    pair.bob.take(address(1), &datagram, pair.now);
    pair.now += Duration::from_secs(10);
    pair.bob.interface.handle_timeout(pair.now);
    let answer = pair.bob.outgoing();
    assert_eq!(answer.len(), 1);
    pair.alice.take(address(2), &answer[0], pair.now);
    assert!(pair.alice.came.is_empty());
    pair.now += Duration::from_secs(25);
    pair.alice.interface.handle_timeout(pair.now);
    assert_eq!(pair.alice.outgoing().len(), 1);
}

#[test]
fn a_flood_of_handshakes_leaves_sessions_alone_and_peers_get_through_by_a_cookie() {
    let mut pair = Pair::new(None);
    pair.agree();
    let of_bob = settings(&pair.bob.interface, None, "10.0.0.2/32");
    let keys = crate::macs::MacKeys::of(&of_bob.public_key);
    for at in 0..2_000_u32 {
        let mut message = crate::message::encode_initiation(at, &[at as u8; 108]);
        keys.complete(&mut message, None);
        pair.bob.take(address(66), &message, pair.now);
        pair.bob.outgoing();
    }
    let refused = pair.bob.interface.refused();
    assert!(
        refused.strangers <= 50 && refused.cookies >= 1_950,
        "{refused:?}"
    );
    assert_eq!(pair.bob.interface.indices(), 1);

    let datagram = pair.alice_sends(1).unwrap();
    pair.bob.take(address(1), &datagram, pair.now);
    assert_eq!(pair.bob.came.len(), 1);

    // A handshake meanwhile is told to prove its address, and does.
    let clock = pair.alice.interface.own.clock;
    let key = pair.alice.interface.own.key.clone();
    pair.alice.interface = Interface::new(key, clock).unwrap();
    let of_bob = settings(&pair.bob.interface, Some(address(2)), "10.0.0.2/32");
    pair.alice.peer = pair.alice.interface.add_peer(of_bob, pair.now).unwrap();
    pair.now += Duration::from_millis(500);
    assert!(pair.alice_sends(1).is_none());
    pair.carry();
    assert_eq!(pair.bob.came.len(), 1);
    for at in 0..60_u32 {
        let mut message = crate::message::encode_initiation(at, &[at as u8; 108]);
        keys.complete(&mut message, None);
        pair.bob
            .take(address(66), &message, pair.now + Duration::from_secs(5));
        pair.bob.outgoing();
    }
    pair.now += Duration::from_millis(5_400);
    pair.alice.interface.handle_timeout(pair.now);
    pair.carry();
    assert_eq!(pair.bob.came.len(), 2);
}

#[test]
fn handshakes_of_many_addresses_leave_a_known_peer_its_own() {
    let mut pair = Pair::new(None);
    pair.agree();
    let keys = crate::macs::MacKeys::of(&pair.bob.interface.public_key());
    let message = |index: u32, cookie| {
        let mut message = crate::message::encode_initiation(index, &[index as u8; 108]);
        let first = keys.complete(&mut message, cookie);
        (message, first)
    };
    // Everyone has a cookie, the known peer as well.
    for index in 0..50 {
        pair.bob
            .take(address(99), &message(index, None).0, pair.now);
    }
    pair.bob.outgoing();
    let mut told = |last| {
        let (asking, first) = message(0, None);
        pair.bob.take(address(last), &asking, pair.now);
        let reply = pair.bob.outgoing().pop().unwrap();
        let Some(Message::Cookie(reply)) = Message::decode(&reply) else {
            panic!("no cookie");
        };
        keys.open_cookie(&reply, &first).unwrap()
    };
    let cookies: Vec<_> = (100..160).map(&mut told).collect();
    let known = told(1);

    for second in 1..=10_u32 {
        pair.now += Duration::from_secs(1);
        for attempt in 0..3_000_u32 {
            let who = (attempt % 60) as usize;
            let (flood, _) = message(attempt, Some(&cookies[who]));
            pair.bob.take(address(100 + who as u8), &flood, pair.now);
        }
        // The initiation is read to its end, and is not the peer's.
        let before = pair.bob.interface.refused().strangers;
        let (asking, _) = message(second, Some(&known));
        pair.bob.take(address(1), &asking, pair.now);
        assert_eq!(pair.bob.interface.refused().strangers, before + 1);
        pair.bob.outgoing();
    }
    let refused = pair.bob.interface.refused();
    assert!(refused.too_many > 25_000, "{refused:?}");
}

#[test]
fn after_days_of_keepalives_and_renewed_keys_nothing_has_grown() {
    let mut pair = Pair::new(Some(Duration::from_secs(25)));
    pair.agree();
    let end = pair.now + Duration::from_secs(10 * 86_400);
    let mut talk = pair.now;
    let mut said = 0;
    while pair.now < end {
        let due = [&pair.alice, &pair.bob].map(|end| end.interface.poll_timeout());
        let due = due.into_iter().flatten().min().unwrap_or(end);
        pair.now = due
            .max(pair.now + Duration::from_millis(1))
            .min(talk + Duration::from_secs(600));
        pair.alice.interface.handle_timeout(pair.now);
        pair.bob.interface.handle_timeout(pair.now);
        pair.carry();
        if pair.now >= talk + Duration::from_secs(600) {
            talk = pair.now;
            said += 1;
            let datagram = pair.alice_sends(20).expect("there are always keys");
            pair.bob.take(address(1), &datagram, pair.now);
            pair.carry();
        }
        assert!(pair.alice.interface.indices() <= 4);
        assert!(pair.bob.interface.indices() <= 4);
    }
    assert_eq!(pair.bob.came.len(), said);
    assert_eq!(pair.bob.view(pair.now).counters.refused, 0);
    assert_eq!(pair.alice.view(pair.now).counters.lost, 0);
}

#[test]
fn a_peer_that_is_removed_is_a_stranger() {
    let mut pair = Pair::new(None);
    pair.agree();
    let datagram = pair.alice_sends(1).unwrap();
    pair.bob.interface.remove_peer(pair.bob.peer);
    pair.bob.take(address(1), &datagram, pair.now);
    assert!(pair.bob.came.is_empty());
    assert_eq!(pair.bob.interface.indices(), 0);
    assert_eq!(pair.bob.interface.refused().unknown_sessions, 1);
    let again = settings(&pair.alice.interface, None, "10.0.0.1/32");
    assert!(pair.bob.interface.add_peer(again.clone(), pair.now).is_ok());
    assert!(pair.bob.interface.add_peer(again, pair.now).is_err());
}

#[test]
fn packets_of_both_families_are_read() {
    let net: ipnet::IpNet = "2001:db8::/64".parse().unwrap();
    let mut packet = vec![0; 44];
    packet[0] = 0x60;
    packet[5] = 4;
    packet[8..24].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet[24..40].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    let mut pair = Pair::new(None);
    let now = pair.now;
    for end in [&mut pair.alice, &mut pair.bob] {
        end.interface.remove_peer(end.peer);
    }
    let of = |interface: &Interface, endpoint| PeerSettings {
        allowed: vec![net],
        ..settings(interface, endpoint, "10.0.0.0/8")
    };
    let of_bob = of(&pair.bob.interface, Some(address(2)));
    let of_alice = of(&pair.alice.interface, None);
    pair.alice.peer = pair.alice.interface.add_peer(of_bob, now).unwrap();
    pair.bob.peer = pair.bob.interface.add_peer(of_alice, now).unwrap();
    assert!(pair.alice.send(&packet, now).is_none());
    pair.carry();
    assert_eq!(pair.bob.came, [packet]);
    assert!(net.contains(&IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Each step is the fate of the datagrams on their way, and the time until the next packet.
    #[test]
    fn whatever_is_lost_doubled_and_late_no_packet_comes_twice_or_changed(
        steps in prop::collection::vec((any::<u8>(), 0..40_u64), 1..60),
    ) {
        let mut pair = Pair::new(None);
        let mut on_the_way: Vec<(bool, Vec<u8>)> = Vec::new();
        for (number, (fate, seconds)) in (0..).zip(steps) {
            let mut sent = packet(ALICE, BOB, 8);
            sent[20..24].copy_from_slice(&u32::to_be_bytes(number));
            let sealed = pair.alice.send(&sent, pair.now);
            on_the_way.extend(sealed.map(|sealed| (true, sealed)));
            pair.now += Duration::from_secs(seconds);
            pair.alice.interface.handle_timeout(pair.now);
            pair.bob.interface.handle_timeout(pair.now);
            on_the_way.extend(pair.alice.outgoing().into_iter().map(|one| (true, one)));
            on_the_way.extend(pair.bob.outgoing().into_iter().map(|one| (false, one)));

            if fate % 4 == 0 {
                on_the_way.pop();
            }
            if fate % 4 == 1 {
                on_the_way.extend(on_the_way.last().cloned());
            }
            if fate % 4 == 2 {
                on_the_way.reverse();
            }
            for (is_to_bob, payload) in on_the_way.drain(usize::from(fate % 8 == 3).min(on_the_way.len())..) {
                match is_to_bob {
                    true => pair.bob.take(address(1), &payload, pair.now),
                    false => pair.alice.take(address(2), &payload, pair.now),
                }
            }
            assert!(pair.alice.interface.indices() <= 4 && pair.bob.interface.indices() <= 4);
        }

        let mut seen = HashSet::new();
        for came in &pair.bob.came {
            let number = u32::from_be_bytes(came[20..24].try_into().unwrap());
            let mut expected = packet(ALICE, BOB, 8);
            expected[20..24].copy_from_slice(&number.to_be_bytes());
            assert_eq!(came, &expected);
            assert!(seen.insert(number), "{number} twice");
        }
    }
}
