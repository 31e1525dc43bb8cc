//! A neighbour with custody code of its own: it has keys, and says whatever it likes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use hermes_custody::engine::{HELD, Opening};
use hermes_custody::noise::{Initiation, Keys, initiate};
use hermes_custody::receiver::{AHEAD, GUARANTEED};
use hermes_custody::{Engine, Event, ExchangeKey, NeighbourId, PrivateKey, PublicKey, Reading};
use hermes_proto::custody::{
    COOKIE, CustodyFrame, CustodyPacket, CustodyRange, ErrCode, Extent, FinCode,
    MAX_CUSTODY_DATAGRAM, ObjectId, ObjectPart, decode_frames,
};

use crate::pair::KEEP;

/// Exchanges that a neighbour may have open.
const EXCHANGES: u32 = 1024;

/// A neighbour that speaks the protocol, and obeys none of its rules.
pub struct Rogue {
    keys: Keys,
    /// What the node calls the keys.
    epoch: u32,
    number: u64,
    at: SocketAddr,
}

pub fn rogue_at() -> SocketAddr {
    "192.0.2.66:4500".parse().unwrap()
}

/// What a stranger's HELLO leads to, from its first datagram to the answer.
pub fn greet(
    node: &mut Engine,
    message: &Bytes,
    at: SocketAddr,
    now: Instant,
) -> Option<CustodyPacket> {
    let hello = |cookie| CustodyPacket::Hello {
        epoch: 7,
        cookie,
        message: message.clone(),
    };
    node.handle_datagram(&hello([0; COOKIE]).encode(), at, now);
    let mut answer = None;
    for _ in 0..1000 {
        let Some((to, datagram)) = node.poll_transmit(now) else {
            break;
        };
        match CustodyPacket::decode(&datagram) {
            Ok(CustodyPacket::Retry { cookie, .. }) if to == at => {
                node.handle_datagram(&hello(cookie).encode(), at, now);
            }
            Ok(packet @ CustodyPacket::Answer { .. }) if to == at => answer = Some(packet),
            _ => {}
        }
    }
    answer
}

impl Rogue {
    pub fn meet(node: &mut Engine, own: &PrivateKey, node_key: &PublicKey, now: Instant) -> Self {
        let (mut begun, message): (Initiation, Bytes) = initiate(own, node_key, 1).unwrap();
        let answer = greet(node, &message, rogue_at(), now);
        let Some(CustodyPacket::Answer { own, message, .. }) = answer else {
            panic!("no answer");
        };
        begun.read(&message).unwrap();
        Self {
            keys: begun.keys().unwrap(),
            epoch: own,
            number: 0,
            at: rogue_at(),
        }
    }

    /// Says frames, in one datagram.
    pub fn say(&mut self, node: &mut Engine, frames: &[CustodyFrame], now: Instant) {
        let mut plain = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut plain));
        self.say_bytes(node, &plain, now);
    }

    fn say_bytes(&mut self, node: &mut Engine, plain: &[u8], now: Instant) {
        let sealed = self.keys.seal(self.number, plain).unwrap();
        let packet = CustodyPacket::Sealed {
            epoch: self.epoch,
            number: self.number,
            sealed,
        };
        self.number += 1;
        node.handle_datagram(&packet.encode(), self.at, now);
    }

    /// The frames that a datagram holds for it.
    fn hear(&self, datagram: &Bytes) -> Vec<CustodyFrame> {
        match CustodyPacket::decode(datagram) {
            Ok(CustodyPacket::Sealed { number, sealed, .. }) => {
                let plain = self.keys.open(number, &sealed).unwrap();
                decode_frames(&plain).unwrap()
            }
            _ => Vec::new(),
        }
    }
}

/// A node with a rogue neighbour and an honest one.
struct Village {
    now: Instant,
    node: Engine,
    rogue: Rogue,
    rogue_id: NeighbourId,
    honest: Engine,
    to_node: NeighbourId,
}

fn node_at() -> SocketAddr {
    "192.0.2.2:4500".parse().unwrap()
}

fn honest_at() -> SocketAddr {
    "192.0.2.1:4500".parse().unwrap()
}

fn name(number: u32) -> [u8; 16] {
    let mut name = [0; 16];
    name[..4].copy_from_slice(&number.to_be_bytes());
    name
}

fn request(number: u32) -> ObjectId {
    ObjectId {
        exchange: name(number),
        part: ObjectPart::Request,
    }
}

fn response(number: u32) -> ObjectId {
    ObjectId {
        part: ObjectPart::Response,
        ..request(number)
    }
}

fn offer(number: u32) -> CustodyFrame {
    CustodyFrame::Offer {
        exchange: name(number),
        keep: u32::MAX,
        once: false,
        extent: Extent::default(),
    }
}

fn data(object: ObjectId, offset: u64, length: usize) -> CustodyFrame {
    CustodyFrame::Data {
        object,
        serial: 0,
        extent: Extent::default(),
        prompt: false,
        offset,
        bytes: vec![7; length].into(),
    }
}

fn req(object: ObjectId, ranges: Vec<CustodyRange>) -> CustodyFrame {
    CustodyFrame::Req {
        object,
        serial: 1,
        taken: 0,
        limit: u64::from(u32::MAX),
        ranges,
    }
}

impl Village {
    fn new() -> Self {
        let now = Instant::now();
        let keys: Vec<_> = (0..3).map(|_| PrivateKey::generate().unwrap()).collect();
        let mut node = Engine::new(keys[0].clone(), 7, now);
        let rogue_id = node.add_neighbour(keys[1].public(), None, now);
        node.add_neighbour(keys[2].public(), None, now);
        let mut honest = Engine::new(keys[2].clone(), 8, now);
        let to_node = honest.add_neighbour(keys[0].public(), Some(node_at()), now);
        let rogue = Rogue::meet(&mut node, &keys[1], &keys[0].public(), now);
        Self {
            now,
            node,
            rogue,
            rogue_id,
            honest,
            to_node,
        }
    }

    fn say(&mut self, frames: &[CustodyFrame]) {
        self.rogue.say(&mut self.node, frames, self.now);
    }

    /// What the node says now, to the rogue; and how many bytes that are in all.
    fn drain(&mut self) -> (Vec<CustodyFrame>, usize) {
        let mut heard = Vec::new();
        let mut bytes = 0;
        while let Some((to, datagram)) = self.node.poll_transmit(self.now) {
            assert!(datagram.len() <= MAX_CUSTODY_DATAGRAM);
            bytes += datagram.len();
            assert!(bytes < 200_000_000, "it speaks without end");
            if to == rogue_at() {
                heard.extend(self.rogue.hear(&datagram));
            }
        }
        (heard, bytes)
    }

    /// Lets the node work off what has happened.
    fn settle(&mut self) {
        self.drain();
        while self.node.poll_event().is_some() {}
        self.now += Duration::from_millis(1);
        self.node.handle_timeout(self.now);
    }

    /// An exchange of the honest neighbour works, with a megabyte each way.
    fn others_are_served(&mut self) {
        let key = ExchangeKey {
            neighbour: self.to_node,
            exchange: [0xaa; 16],
        };
        let opening = Opening {
            keep: KEEP,
            repeatable: true,
            parent: None,
        };
        assert!(self.honest.open(key, opening, self.now));
        let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        self.honest.write(key, content.clone().into());
        self.honest.finish(key);

        let mut asked = None;
        let mut sent = Vec::new();
        let mut received = Vec::new();
        for _ in 0..60_000 {
            while let Some((_, datagram)) = self.honest.poll_transmit(self.now) {
                self.node.handle_datagram(&datagram, honest_at(), self.now);
            }
            while let Some((to, datagram)) = self.node.poll_transmit(self.now) {
                if to == honest_at() {
                    self.honest.handle_datagram(&datagram, node_at(), self.now);
                }
            }
            while let Some(event) = self.node.poll_event() {
                if let Event::Asked(key) = event
                    && key.neighbour != self.rogue_id
                {
                    asked = Some(key);
                }
            }
            while self.honest.poll_event().is_some() {}
            if let Some(asked) = asked {
                self.pass_on(asked, &mut sent, content.len());
            }
            match self.honest.read(key, 1 << 20) {
                Reading::Bytes(bytes) => received.extend_from_slice(&bytes),
                Reading::End => break,
                Reading::Waiting => {}
                Reading::Broken(code) => panic!("{code:?}"),
            }
            self.now += Duration::from_millis(1);
            self.node.handle_timeout(self.now);
            self.honest.handle_timeout(self.now);
        }
        assert!(received == content, "{} bytes came back", received.len());
    }

    /// The node's target says what it hears.
    fn pass_on(&mut self, asked: ExchangeKey, said: &mut Vec<u8>, all: usize) {
        while let Reading::Bytes(bytes) = self.node.read(asked, 1 << 16) {
            said.extend_from_slice(&bytes);
        }
        let written = self.node.written_length(asked) as usize;
        let room = self.node.room(asked).min(said.len() - written);
        if room > 0 {
            let next = Bytes::copy_from_slice(&said[written..written + room]);
            self.node.write(asked, next);
        }
        if written + room == all {
            self.node.finish(asked);
        }
    }
}

/// What one neighbour may have held at most: a share of all, and of each exchange what is guaranteed while there is room for that.
const MOST: u64 = HELD / 2 * 3 + 2 * MAX_CUSTODY_DATAGRAM as u64 * EXCHANGES as u64;

#[test]
fn bytes_that_no_one_asked_for_are_held_within_the_bound() {
    let mut village = Village::new();
    for number in 0..EXCHANGES + 10 {
        village.say(&[offer(number)]);
        village.settle();
    }
    for number in 0..EXCHANGES {
        let mut offset = 1370;
        while offset + 1370 < AHEAD && offset < 4 * GUARANTEED {
            village.say(&[data(request(number), offset, 1370)]);
            offset += 1370;
        }
        assert!(village.node.held() <= MOST, "{}", village.node.held());
    }
    village.settle();
    assert!(village.node.held() <= MOST, "{}", village.node.held());
    village.others_are_served();
}

#[test]
fn a_neighbour_leaves_a_quarter_to_others_before_it_says_who_asks() {
    let mut village = Village::new();
    // Their heads are never whole, so that they are in no one's name.
    for number in 0..16 {
        village.say(&[offer(number)]);
    }
    village.settle();
    for number in 0..16 {
        let mut offset = 1370;
        while offset + 1370 < AHEAD {
            village.say(&[data(request(number), offset, 1370)]);
            offset += 1370;
        }
    }
    let most = HELD / 4 * 3 + 16 * GUARANTEED + AHEAD;
    assert!(village.node.held() <= most, "{}", village.node.held());
    village.others_are_served();
}

#[test]
fn crumbs_count_for_what_they_cost() {
    let mut village = Village::new();
    for number in 0..64 {
        village.say(&[offer(number)]);
    }
    village.settle();
    let mut crumbs: u64 = 0;
    // Every other byte, as many as a datagram holds.
    for round in 0..600_u64 {
        for number in 0..64 {
            let at = |crumb| data(request(number), 1 + 2 * (30 * round + crumb), 1);
            let frames: Vec<_> = (0..30).map(at).collect();
            crumbs += frames.len() as u64;
            village.say(&frames);
        }
        village.settle();
    }
    assert!(crumbs > 1_000_000);
    assert!(village.node.held() <= MOST, "{}", village.node.held());
    assert!(
        village.node.held() > HELD / 2,
        "they count: {}",
        village.node.held()
    );
    village.others_are_served();
}

#[test]
fn an_answer_in_crumbs_costs_the_node_no_list_without_end() {
    let mut village = Village::new();
    let key = ExchangeKey {
        neighbour: village.rogue_id,
        exchange: name(1),
    };
    let opening = Opening {
        keep: KEEP,
        repeatable: true,
        parent: None,
    };
    assert!(village.node.open(key, opening, village.now));
    village.node.write(key, Bytes::from_static(b"request"));
    village.node.finish(key);
    for round in 0..20_000_u64 {
        let at = |crumb| data(response(1), 1 + 2 * (30 * round + crumb), 1);
        let frames: Vec<_> = (0..30).map(at).collect();
        village.say(&frames);
        if round % 100 == 0 {
            village.settle();
        }
    }
    assert!(village.node.held() <= MOST);
    village.others_are_served();
}

#[test]
fn what_is_asked_for_again_and_again_is_due_once() {
    let mut village = Village::new();
    village.say(&[offer(1), data(request(1), 0, 7)]);
    village.settle();
    let key = ExchangeKey {
        neighbour: village.rogue_id,
        exchange: name(1),
    };
    while village.node.room(key) > 0 {
        let room = village.node.room(key);
        village.node.write(key, vec![7; room].into());
    }
    village.now += Duration::from_millis(1);
    let everything = CustodyRange {
        offset: 0,
        length: AHEAD,
    };
    // From an address that it has shown to be its own.
    for _ in 0..4000 {
        village.say(&[req(response(1), vec![everything])]);
    }
    let (_, bytes) = village.drain();
    assert!(
        bytes < 3 * AHEAD as usize,
        "{bytes} bytes for 4000 questions"
    );
    village.others_are_served();
}

#[test]
fn exchanges_of_one_neighbour_that_end_do_not_let_those_of_others_begin_again() {
    let mut village = Village::new();
    village.others_are_served();
    for number in 0..20_000 {
        let fin = CustodyFrame::Fin {
            object: response(number),
            code: FinCode::Cancelled,
        };
        village.say(&[offer(number), fin]);
        if number % 64 == 0 {
            village.settle();
        }
    }
    village.settle();
    assert!(village.node.poll_event().is_none());
    // Its own last ones are remembered as well.
    village.say(&[offer(19_999)]);
    assert!(village.node.poll_event().is_none());
}

#[test]
fn a_neighbour_that_leaves_holds_nothing_for_longer_than_a_day() {
    let mut village = Village::new();
    village.say(&[offer(1), data(request(1), 0, 1000)]);
    village.settle();
    assert!(village.node.held() > 0);

    village.now += Duration::from_secs(23 * 3600);
    village.settle();
    assert!(!village.node.is_idle(), "a link may be down for long");
    village.now += Duration::from_secs(2 * 3600);
    village.settle();
    assert!(village.node.is_idle());
    assert_eq!(village.node.held(), 0);
}

#[test]
fn a_node_that_keeps_for_longer_lets_its_neighbours_keep_for_as_long() {
    let mut village = Village::new();
    village.node.keep_for(Duration::from_secs(48 * 3600));
    village.say(&[offer(1)]);
    village.settle();
    for (hours, is_over) in [(47, false), (2, true)] {
        village.now += Duration::from_secs(hours * 3600);
        village.settle();
        assert_eq!(village.node.is_idle(), is_over);
    }
}

#[test]
fn frames_with_any_numbers_harm_no_one() {
    for seed in 0..8 {
        let mut rng = Rng::with_seed(seed);
        let mut village = Village::new();
        for number in 0..8 {
            let key = ExchangeKey {
                neighbour: village.rogue_id,
                exchange: name(100 + number),
            };
            let opening = Opening {
                keep: KEEP,
                repeatable: number % 2 == 0,
                parent: None,
            };
            assert!(village.node.open(key, opening, village.now));
            village.node.write(key, vec![7; 5000].into());
            village.node.finish(key);
        }
        for _ in 0..20_000 {
            let count = rng.usize(1..6);
            let frames: Vec<_> = (0..count).map(|_| any_frame(&mut rng)).collect();
            village.say(&frames);
            if rng.u8(..10) == 0 {
                village.settle();
            }
        }
        assert!(village.node.held() <= MOST);
        village.others_are_served();
    }
}

#[test]
fn bytes_that_are_no_frames_harm_no_one() {
    let mut rng = Rng::with_seed(9);
    let mut village = Village::new();
    for _ in 0..50_000 {
        let length = rng.usize(..1400);
        let mut plain: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
        if let Some(first) = plain.first_mut() {
            *first %= 9;
        }
        village
            .rogue
            .say_bytes(&mut village.node, &plain, village.now);
    }
    village.settle();
    village.others_are_served();
}

/// Numbers at the edges of what a field holds, and some within.
fn any_number(rng: &mut Rng) -> u64 {
    let largest = (1 << 62) - 1;
    match rng.u8(..10) {
        0 => 0,
        1 => largest,
        2 => largest - rng.u64(..5000),
        3 => AHEAD + rng.u64(..3),
        4 => u64::from(u32::MAX) + rng.u64(..3),
        _ => rng.u64(..20_000),
    }
}

fn any_object(rng: &mut Rng) -> ObjectId {
    let number = match rng.bool() {
        true => rng.u32(..40),
        false => 100 + rng.u32(..10),
    };
    match rng.bool() {
        true => request(number),
        false => response(number),
    }
}

fn any_extent(rng: &mut Rng) -> Extent {
    let available = any_number(rng);
    let more = (1_u64 << 62) - 1 - available;
    let total = rng.bool().then(|| available + any_number(rng).min(more));
    Extent { total, available }
}

fn any_frame(rng: &mut Rng) -> CustodyFrame {
    let object = any_object(rng);
    let serial = any_number(rng);
    match rng.u8(..9) {
        0 | 1 => {
            let mut ranges: Vec<CustodyRange> = Vec::new();
            for _ in 0..rng.usize(1..4) {
                let before = ranges.last().map_or(0, |range| range.end() + 1);
                let offset = before.saturating_add(any_number(rng));
                let length = any_number(rng).max(1);
                if offset + length < 1 << 62 {
                    ranges.push(CustodyRange { offset, length });
                }
            }
            if ranges.is_empty() {
                ranges.push(CustodyRange {
                    offset: 0,
                    length: 1,
                });
            }
            CustodyFrame::Req {
                object,
                serial,
                taken: any_number(rng),
                limit: any_number(rng),
                ranges,
            }
        }
        2 | 3 => {
            let length = rng.usize(1..200);
            let offset = any_number(rng).min((1 << 62) - 1000);
            let extent = Extent {
                total: None,
                ..any_extent(rng)
            };
            CustodyFrame::Data {
                object,
                serial,
                extent,
                prompt: rng.bool(),
                offset,
                bytes: vec![rng.u8(..); length].into(),
            }
        }
        4 => CustodyFrame::Status {
            object,
            serial,
            extent: any_extent(rng),
        },
        5 => CustodyFrame::Err {
            object,
            code: [
                ErrCode::Unknown,
                ErrCode::Refused,
                ErrCode::Broken,
                ErrCode::Expired,
            ][rng.usize(..4)],
        },
        6 => CustodyFrame::Fin {
            object,
            code: [FinCode::Complete, FinCode::Cancelled][rng.usize(..2)],
        },
        7 => CustodyFrame::Challenge([rng.u8(..); 8]),
        _ => CustodyFrame::Offer {
            exchange: object.exchange,
            keep: [0, 1, 60, u32::MAX][rng.usize(..4)],
            once: rng.bool(),
            extent: any_extent(rng),
        },
    }
}
