//! Two stacks that talk to each other, and one that strangers send packets to.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_proto::ip::{Fragment, IcmpError, Packet};
use proptest::prelude::*;

use super::*;

/// Turns before a test gives up.
const TURNS: usize = 200_000;

/// How long packets are lost. Chance alone can keep a peer silent until it is given up, and each retry waits twice as long as the last.
const LOSSES: Duration = Duration::from_secs(30);

/// A client that opens flows, and the stack that intercepts them.
struct Pair {
    near: Stack,
    far: Stack,
    now: Instant,
    /// Of a hundred packets, so many are lost; which, is as good as random.
    loss: u64,
    /// When the last is lost.
    heals: Instant,
    chance: u64,
}

impl Pair {
    fn new(loss: u64, seed: u64) -> Self {
        let now = Instant::now();
        let near = StackSettings {
            intercepts: false,
            mtu: 1400,
            ..StackSettings::default()
        };
        Self {
            near: Stack::new(near, now),
            far: Stack::new(StackSettings::default(), now),
            now,
            loss,
            heals: now + LOSSES,
            chance: seed,
        }
    }

    fn is_lost(&mut self) -> bool {
        // Of a linear congruential generator, the upper bits.
        let next = self.chance.wrapping_mul(6_364_136_223_846_793_005);
        self.chance = next.wrapping_add(1_442_695_040_888_963_407);
        self.now < self.heals && (self.chance >> 33) % 100 < self.loss
    }

    /// Moves packets until no packet waits.
    fn settle(&mut self) {
        self.turn();
        while self.near.has_transmit() || self.far.has_transmit() {
            self.turn();
        }
    }

    /// Moves all waiting packets; if there were none, moves time to the next timer.
    fn turn(&mut self) {
        let mut moved = false;
        while let Some(packet) = self.near.poll_transmit() {
            moved = true;
            if !self.is_lost() {
                self.far.handle_packet(&packet, Checksums::Verify, self.now);
            }
        }
        while let Some(packet) = self.far.poll_transmit() {
            moved = true;
            if !self.is_lost() {
                self.near
                    .handle_packet(&packet, Checksums::Verify, self.now);
            }
        }
        if moved {
            return;
        }

        let due = [self.near.poll_timeout(), self.far.poll_timeout()];
        if let Some(due) = due.into_iter().flatten().min() {
            self.now = self.now.max(due);
            self.near.handle_timeout(self.now);
            self.far.handle_timeout(self.now);
        }
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// One end of a connection that sends something, and collects the bytes it receives.
struct Talker {
    flow: FlowId,
    to_send: VecDeque<u8>,
    finished: bool,
    came: Vec<u8>,
    ended: bool,
    broken: bool,
}

impl Talker {
    fn new(flow: FlowId, says: &[u8]) -> Self {
        Self {
            flow,
            to_send: says.iter().copied().collect(),
            finished: false,
            came: Vec::new(),
            ended: false,
            broken: false,
        }
    }

    fn act(&mut self, stack: &mut Stack, now: Instant) {
        if stack.is_open(self.flow) && !self.to_send.is_empty() {
            let bytes = self.to_send.make_contiguous();
            let sent = stack.send(self.flow, bytes, now);
            self.to_send.drain(..sent);
        }
        if stack.is_open(self.flow) && self.to_send.is_empty() && !self.finished {
            stack.finish(self.flow, now);
            self.finished = true;
        }

        let mut room = [0; 4096];
        loop {
            match stack.receive(self.flow, &mut room, now) {
                Received::Bytes(length) => self.came.extend_from_slice(&room[..length]),
                Received::Nothing => break,
                Received::End => {
                    self.ended = true;
                    break;
                }
                Received::Broken => {
                    self.broken = true;
                    break;
                }
            }
        }
    }
}

/// Opens a connection that is accepted, has both sides send, and returns the received bytes: at the
/// far side, and at the near one.
fn talk(pair: &mut Pair, target: SocketAddr, says: [&[u8]; 2]) -> [Vec<u8>; 2] {
    let from = match target {
        SocketAddr::V4(_) => ip("10.7.0.2"),
        SocketAddr::V6(_) => ip("fd07::2"),
    };
    let flow = pair.near.open_tcp(from, target, 7, pair.now).unwrap();
    let mut near = Talker::new(flow, says[0]);
    let mut far: Option<Talker> = None;

    for _ in 0..TURNS {
        while let Some(event) = pair.far.poll_event() {
            if let StackEvent::TcpAsked {
                flow,
                client,
                target: asked,
            } = event
            {
                assert_eq!((client.ip(), asked), (from, target));
                pair.far.accept(flow, 64 << 10, 8, pair.now);
                far = Some(Talker::new(flow, says[1]));
            }
        }
        while pair.near.poll_event().is_some() {}

        near.act(&mut pair.near, pair.now);
        if let Some(far) = &mut far {
            far.act(&mut pair.far, pair.now);
            assert!(!far.broken && !near.broken);
            if far.ended && near.ended && far.finished && near.finished {
                pair.near.release(near.flow, pair.now);
                pair.far.release(far.flow, pair.now);
                return [std::mem::take(&mut far.came), near.came];
            }
        }
        pair.turn();
    }
    panic!("they do not come to an end");
}

#[test]
fn a_connection_carries_bytes_both_ways_and_ends_in_order() {
    for target in ["192.0.2.7:443", "[2001:db8::7]:443"] {
        let mut pair = Pair::new(0, 0);
        let long: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let came = talk(&mut pair, address(target), [&long, b"an answer"]);
        assert!(came[0] == long && came[1] == b"an answer");

        // Finished connections go by themselves, with their last timers.
        for _ in 0..TURNS {
            pair.turn();
        }
        assert_eq!((pair.near.flows(), pair.far.flows()), ([0, 0], [0, 0]));
        assert_eq!(pair.far.poll_timeout(), None);
    }
}

#[test]
fn a_client_is_connected_only_when_its_target_is() {
    let mut pair = Pair::new(0, 0);
    let target = address("192.0.2.7:443");
    let flow = pair.near.open_tcp(ip("10.7.0.2"), target, 1, pair.now);
    let flow = flow.unwrap();
    let before = pair.now + tcp::ASKING / 2;
    while pair.now < before {
        pair.turn();
        assert!(!pair.near.is_open(flow));
    }

    let Some(StackEvent::TcpAsked { flow: asked, .. }) = pair.far.poll_event() else {
        panic!("no one asks")
    };
    assert_eq!(pair.far.poll_event(), None, "repetitions say nothing new");
    pair.far.refuse(asked, FlowRefusal::Reset, pair.now);
    for _ in 0..20 {
        pair.turn();
    }
    let mut room = [0; 1];
    let received = pair.near.receive(flow, &mut room, pair.now);
    assert_eq!(received, Received::Broken);
    assert_eq!(pair.far.flows(), [0, 0]);
}

/// The answer to the first segment or datagram of a flow that is refused so.
fn answer_to_refused(flow: [&str; 2], protocol: u8, refusal: FlowRefusal) -> Option<Vec<u8>> {
    let mut pair = Pair::new(0, 0);
    let [from, target] = flow;
    if protocol == hermes_proto::ip::TCP {
        let opened = pair.near.open_tcp(ip(from), address(target), 1, pair.now);
        opened.unwrap();
    } else {
        let opened = pair.near.open_udp(ip(from), address(target), 1, pair.now);
        pair.near
            .send_datagram(opened.unwrap(), b"anyone?", pair.now);
    }
    pair.turn();
    let (StackEvent::TcpAsked { flow, .. } | StackEvent::UdpAsked { flow, .. }) =
        pair.far.poll_event().unwrap()
    else {
        panic!("no one asks")
    };
    pair.far.refuse(flow, refusal, pair.now);
    let answer = pair.far.poll_transmit();
    assert_eq!(pair.far.poll_transmit(), None, "one answer to one packet");
    answer
}

#[test]
fn a_flow_is_refused_in_the_way_of_its_target() {
    const TCP: u8 = hermes_proto::ip::TCP;
    const UDP: u8 = hermes_proto::ip::UDP;
    let v4 = ["10.7.0.2", "192.0.2.7:443"];
    let v6 = ["fd07::2", "[2001:db8::7]:443"];
    let prohibited = FlowRefusal::Error(IcmpError::Prohibited);
    let unreachable = FlowRefusal::Error(IcmpError::HostUnreachable);
    // Type and code of ICMP (RFC 792, RFC 4443); none: a reset.
    let cases = [
        (v4, TCP, FlowRefusal::Reset, None),
        (v6, TCP, FlowRefusal::Reset, None),
        (v4, TCP, unreachable, Some([3, 1])),
        (v6, TCP, unreachable, Some([1, 3])),
        (v4, TCP, prohibited, Some([3, 13])),
        (v6, TCP, prohibited, Some([1, 1])),
        (v4, UDP, FlowRefusal::Reset, Some([3, 3])),
        (v6, UDP, FlowRefusal::Reset, Some([1, 4])),
        (v4, UDP, prohibited, Some([3, 13])),
        (v6, UDP, unreachable, Some([1, 3])),
    ];
    for (flow, protocol, refusal, code) in cases {
        let answer = answer_to_refused(flow, protocol, refusal).unwrap();
        let answer = Packet::parse(&answer).unwrap();
        let said = answer.is_icmp_error().then(|| answer.payload());
        let said = said.map(|message| [message[0], message[1]]);
        assert_eq!(said, code, "{flow:?} {protocol} {refusal:?}");
        assert_eq!(answer.resets_tcp(), code.is_none());
    }
    for (flow, protocol) in [(v4, TCP), (v6, TCP), (v4, UDP), (v6, UDP)] {
        assert_eq!(
            answer_to_refused(flow, protocol, FlowRefusal::Silence),
            None
        );
    }
}

#[test]
fn a_client_hears_the_error_of_its_refused_flow() {
    let mut pair = Pair::new(0, 0);
    let target = address("192.0.2.7:53");
    let flow = pair.near.open_udp(ip("10.7.0.2"), target, 1, pair.now);
    let flow = flow.unwrap();
    pair.near.send_datagram(flow, b"anyone?", pair.now);
    pair.turn();
    let Some(StackEvent::UdpAsked { flow: asked, .. }) = pair.far.poll_event() else {
        panic!("no one asks")
    };
    pair.far.refuse(asked, FlowRefusal::Reset, pair.now);
    pair.turn();
    let error = IcmpError::PortUnreachable;
    assert_eq!(
        pair.near.poll_event(),
        Some(StackEvent::Unreachable { flow, error })
    );
    // What waits is forgotten, and more of the same draws errors, as many as there may be.
    while pair.far.poll_event().is_some() {}
    let packet = build::udp(address("10.7.0.2:49152"), target, b"again");
    for _ in 0..1000 {
        pair.far.handle_packet(&packet, Checksums::Verify, pair.now);
    }
    let errors = std::iter::from_fn(|| pair.far.poll_transmit()).count();
    assert!(errors < 200, "{errors}");
}

#[test]
fn limits_of_flows_are_those_of_the_settings() {
    let now = Instant::now();
    let limits = StackLimits {
        tcp: 1000,
        half_open: 300,
        udp: 2,
    };
    let settings = StackSettings {
        limits,
        ..StackSettings::default()
    };
    let mut stack = Stack::new(settings, now);
    for segment in first_segments(400) {
        stack.handle_packet(&segment, Checksums::Verify, now);
    }
    assert_eq!(stack.flows(), [300, 0]);
    for port in 1..9 {
        let from = SocketAddr::new(ip("10.7.0.2"), port);
        let packet = build::udp(from, address("192.0.2.7:53"), b"?");
        stack.handle_packet(&packet, Checksums::Verify, now);
    }
    assert_eq!(stack.flows(), [300, 2]);
}

#[test]
fn a_question_that_no_one_answers_is_given_up() {
    let mut pair = Pair::new(0, 0);
    let target = address("192.0.2.7:443");
    let first = pair.near.open_tcp(ip("10.7.0.2"), target, 1, pair.now);
    first.unwrap();
    pair.turn();
    let Some(StackEvent::TcpAsked { flow, .. }) = pair.far.poll_event() else {
        panic!("no one asks")
    };

    pair.far.handle_timeout(pair.now + tcp::ASKING);
    assert_eq!(pair.far.poll_event(), Some(StackEvent::Gone { flow }));
    assert_eq!(pair.far.flows(), [0, 0]);
    pair.far.accept(flow, 64 << 10, 1, pair.now);
    assert_eq!(pair.far.flows(), [0, 0], "too late");
}

#[test]
fn datagrams_keep_their_flows_and_are_forgotten_after_silence() {
    for (from, target) in [
        ("10.7.0.2", "192.0.2.7:53"),
        ("fd07::2", "[2001:db8::7]:53"),
    ] {
        let mut pair = Pair::new(0, 0);
        let target = address(target);
        let near = pair.near.open_udp(ip(from), target, 3, pair.now).unwrap();
        for payload in [&b"one"[..], b"", b"three"] {
            assert!(pair.near.send_datagram(near, payload, pair.now));
        }
        pair.turn();

        let Some(StackEvent::UdpAsked {
            flow,
            client,
            target: asked,
        }) = pair.far.poll_event()
        else {
            panic!("no one asks")
        };
        assert_eq!((client.ip(), asked), (ip(from), target));
        for payload in [&b"one"[..], b"", b"three"] {
            let payload = Bytes::copy_from_slice(payload);
            assert_eq!(
                pair.far.poll_event(),
                Some(StackEvent::Datagram { flow, payload })
            );
        }

        assert!(pair.far.send_datagram(flow, b"answer", pair.now));
        pair.turn();
        let payload = Bytes::from_static(b"answer");
        assert_eq!(
            pair.near.poll_event(),
            Some(StackEvent::Datagram {
                flow: near,
                payload
            })
        );
        assert!(!pair.near.send_datagram(near, &[0; 1400], pair.now));

        let hours = Duration::from_secs(7200);
        pair.far.outlast(flow, hours);
        pair.far
            .handle_timeout(pair.now + udp::UDP_SILENCE + Duration::from_secs(1));
        assert_eq!(pair.far.poll_event(), None);
        pair.far
            .handle_timeout(pair.now + hours + Duration::from_secs(1));
        assert_eq!(pair.far.poll_event(), Some(StackEvent::Gone { flow }));
        assert_eq!((pair.far.flows(), pair.far.poll_timeout()), ([0, 0], None));
    }
}

/// A request for an echo of "hello!!!" from 10.7.0.2 to 192.0.2.7, with this number.
fn echo_request(number: u16) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    // Checksums as computed by hand of RFC 1071's rule.
    let mut request = vec![
        0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, 1, 0, 0, 10, 7, 0, 2, 192, 0, 2, 7, 8, 0, 0, 0, 1, 2,
        high, low, b'h', b'e', b'l', b'l', b'o', b'!', b'!', b'!',
    ];
    let sum = hermes_proto::ip::checksum::checksum(&request[..20]);
    request[10..12].copy_from_slice(&sum.to_be_bytes());
    let sum = hermes_proto::ip::checksum::checksum(&request[20..]);
    request[22..24].copy_from_slice(&sum.to_be_bytes());
    request
}

fn stack(echo: EchoHandling) -> (Stack, Instant) {
    let now = Instant::now();
    let settings = StackSettings {
        echo,
        ..StackSettings::default()
    };
    (Stack::new(settings, now), now)
}

#[test]
fn an_echo_is_answered_or_handed_on() {
    let (mut answers, now) = stack(EchoHandling::Answer);
    let request = echo_request(9);
    answers.handle_packet(&request, Checksums::Verify, now);
    let answer = answers.poll_transmit().unwrap();
    let packet = Packet::parse(&answer).unwrap();
    assert_eq!(
        (packet.source(), packet.destination()),
        (ip("192.0.2.7"), ip("10.7.0.2"))
    );
    assert!(build::is_sound(&packet));
    assert_eq!(packet.payload()[0], 0);
    assert_eq!(packet.payload()[4..], request[24..]);

    let (mut hands_on, now) = stack(EchoHandling::HandOn);
    hands_on.handle_packet(&request, Checksums::Verify, now);
    let other = Some(StackEvent::Other(Bytes::from(request)));
    assert_eq!(hands_on.poll_event(), other);
    assert_eq!(hands_on.poll_transmit(), None);
}

/// The echo that a client asks for.
fn asked(stack: &mut Stack, number: u16, now: Instant) -> EchoId {
    stack.handle_packet(&echo_request(number), Checksums::Verify, now);
    match stack.poll_event() {
        Some(StackEvent::EchoAsked {
            echo,
            target,
            content,
        }) => {
            assert_eq!((target, &*content), (ip("192.0.2.7"), &b"hello!!!"[..]));
            echo
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_echo_that_is_asked_elsewhere_is_answered_once_by_its_host_in_time() {
    let (mut stack, now) = stack(EchoHandling::Ask);
    let host = ip("192.0.2.7");
    let first = asked(&mut stack, 41, now);
    let second = asked(&mut stack, 42, now);
    assert_ne!(first.number(), second.number());
    assert_eq!((stack.poll_transmit(), stack.echoes()), (None, 2));

    stack.answer_echo(second.number(), ip("192.0.2.8"), b"hello!!!", now);
    stack.answer_echo(77, host, b"hello!!!", now);
    assert_eq!(stack.poll_transmit(), None, "no one was asked that");
    for _ in 0..2 {
        stack.answer_echo(second.number(), host, b"HELLO!!!", now);
    }
    let answer = stack.poll_transmit().unwrap();
    let packet = Packet::parse(&answer).unwrap();
    assert!(build::is_sound(&packet));
    let ends = (packet.source(), packet.destination());
    assert_eq!(ends, (host, ip("10.7.0.2")));
    // Identifier and number are those of the client's request, not of the one sent upstream.
    assert_eq!(packet.payload()[4..], *b"\x01\x02\x00\x2aHELLO!!!");
    assert_eq!(stack.poll_transmit(), None, "once");

    let late = now + Duration::from_secs(11);
    stack.answer_echo(first.number(), host, b"hello!!!", late);
    assert_eq!((stack.poll_transmit(), stack.echoes()), (None, 0));
}

#[test]
fn an_echo_that_may_not_be_asked_for_is_said_to_be_prohibited() {
    let (mut stack, now) = stack(EchoHandling::Ask);
    let echo = asked(&mut stack, 1, now);
    stack.refuse_echo(echo, ip("192.0.2.7"), now);
    let error = stack.poll_transmit().unwrap();
    let error = Packet::parse(&error).unwrap();
    assert!(build::is_sound(&error));
    assert_eq!(error.payload()[..2], [3, 13]);
    assert_eq!((error.destination(), stack.echoes()), (ip("10.7.0.2"), 0));
}

#[test]
fn what_became_of_an_echo_is_told_once_by_who_said_it() {
    let (mut stack, now) = stack(EchoHandling::Ask);
    let echo = asked(&mut stack, 1, now);
    let failed = FailedEcho {
        number: echo.number(),
        target: ip("192.0.2.7"),
        error: IcmpError::HostUnreachable,
        from: ip("192.0.2.254"),
    };
    let of_another = FailedEcho {
        target: ip("192.0.2.8"),
        ..failed
    };
    stack.fail_echo(of_another, now);
    assert_eq!(stack.poll_transmit(), None, "no one was asked that");
    stack.fail_echo(failed, now);
    stack.fail_echo(failed, now);
    let error = stack.poll_transmit().unwrap();
    let error = Packet::parse(&error).unwrap();
    assert!(build::is_sound(&error));
    assert_eq!(error.payload()[..2], [3, 1]);
    assert_eq!(error.source(), ip("192.0.2.254"));
    assert_eq!((stack.poll_transmit(), stack.echoes()), (None, 0));
}

#[test]
fn echoes_that_wait_are_bounded_and_the_newest_are_kept() {
    let (mut stack, began) = stack(EchoHandling::Ask);
    let mut last = None;
    for number in 0..1000_u16 {
        // As often as they may be asked for.
        let now = began + Duration::from_millis(10) * u32::from(number);
        last = Some((asked(&mut stack, number, now), now));
        assert!(stack.echoes() <= MAX_ECHOES);
    }
    let (newest, now) = last.unwrap();
    assert_eq!(stack.counts().full, 1000 - MAX_ECHOES as u64);
    stack.answer_echo(newest.number(), ip("192.0.2.7"), b"hello!!!", now);
    assert!(stack.poll_transmit().is_some());

    // A flood does not become one elsewhere.
    for number in 0..1000 {
        stack.handle_packet(&echo_request(number), Checksums::Verify, now);
    }
    let asked = std::iter::from_fn(|| stack.poll_event()).count();
    assert!(asked <= 50, "{asked}");
}

/// A router's error about a packet.
fn error_about(packet: &[u8], error: IcmpError, router: &str) -> Vec<u8> {
    let packet = Packet::parse(packet).unwrap();
    error.about(&packet, ip(router)).unwrap().to_vec()
}

#[test]
fn an_error_about_its_datagrams_ends_a_pair_of_ports() {
    for (from, target, router) in [
        ("10.7.0.2", "192.0.2.7:53", "192.0.2.1"),
        ("fd07::2", "[2001:db8::7]:53", "2001:db8::1"),
    ] {
        let mut pair = Pair::new(0, 0);
        let target = address(target);
        let flow = pair.near.open_udp(ip(from), target, 3, pair.now).unwrap();
        assert!(pair.near.send_datagram(flow, b"?", pair.now));
        let sent = pair.near.poll_transmit().unwrap();

        let passing = error_about(&sent, IcmpError::HopLimitExceeded, router);
        let other = build::udp(address("10.9.9.9:1"), address("10.9.9.8:1"), b"?");
        let foreign = error_about(&other, IcmpError::PortUnreachable, "192.0.2.1");
        for nothing in [passing, foreign] {
            pair.near
                .handle_packet(&nothing, Checksums::Verify, pair.now);
            assert_eq!(pair.near.poll_event(), None);
        }

        let error = IcmpError::PortUnreachable;
        let told = error_about(&sent, error, router);
        pair.near.handle_packet(&told, Checksums::Verify, pair.now);
        let unreachable = StackEvent::Unreachable { flow, error };
        assert_eq!(pair.near.poll_event(), Some(unreachable));
        let left = (pair.near.flows(), pair.near.poll_timeout());
        assert_eq!(left, ([0, 0], None));
    }
}

#[test]
fn an_error_ends_a_connection_that_is_not_open_if_it_quotes_what_was_sent() {
    let mut pair = Pair::new(0, 0);
    let target = address("192.0.2.7:443");
    let open = pair.near.open_tcp(ip("10.7.0.2"), target, 7, pair.now);
    let flow = open.unwrap();
    let sent = pair.near.poll_transmit().unwrap();
    while pair.near.poll_event().is_some() {}

    // An attacker who guesses the ports does not know the sequence number.
    let mut guessed = sent.clone();
    guessed[27] ^= 0x55;
    let error = IcmpError::HostUnreachable;
    let forged = error_about(&guessed, error, "192.0.2.1");
    pair.near
        .handle_packet(&forged, Checksums::Verify, pair.now);
    assert_eq!((pair.near.poll_event(), pair.near.flows()), (None, [1, 0]));

    let told = error_about(&sent, error, "192.0.2.1");
    pair.near.handle_packet(&told, Checksums::Verify, pair.now);
    let unreachable = StackEvent::Unreachable { flow, error };
    assert_eq!(pair.near.poll_event(), Some(unreachable));
    let left = (pair.near.flows(), pair.near.poll_timeout());
    assert_eq!(left, ([0, 0], None));
}

/// Opens a connection; both ends of it.
fn open(pair: &mut Pair) -> [FlowId; 2] {
    let target = address("192.0.2.7:443");
    let near = pair.near.open_tcp(ip("10.7.0.2"), target, 7, pair.now);
    let near = near.unwrap();
    loop {
        pair.turn();
        if let Some(StackEvent::TcpAsked { flow, .. }) = pair.far.poll_event() {
            pair.far.accept(flow, 64 << 10, 8, pair.now);
            pair.settle();
            assert!(pair.near.is_open(near));
            return [near, flow];
        }
    }
}

#[test]
fn an_open_connection_ignores_errors_but_that_its_segments_are_too_long() {
    let mut pair = Pair::new(0, 0);
    let [near, far] = open(&mut pair);
    while pair.near.poll_event().is_some() {}
    assert_eq!(pair.near.send(near, &[7; 1200], pair.now), 1200);
    let sent = pair.near.poll_transmit().unwrap();
    assert!(sent.len() > 1200);

    let told = error_about(&sent, IcmpError::HostUnreachable, "192.0.2.1");
    pair.near.handle_packet(&told, Checksums::Verify, pair.now);
    assert!(pair.near.is_open(near));

    // The segment is lost, and comes again in pieces that fit.
    let told = error_about(&sent, IcmpError::TooBig { mtu: 700 }, "192.0.2.1");
    pair.near.handle_packet(&told, Checksums::Verify, pair.now);
    let mut came = 0;
    for _ in 0..TURNS {
        let due = pair.near.poll_timeout().unwrap();
        pair.now = pair.now.max(due);
        pair.near.handle_timeout(pair.now);
        while let Some(packet) = pair.near.poll_transmit() {
            assert!(packet.len() <= 700, "{}", packet.len());
            pair.far.handle_packet(&packet, Checksums::Verify, pair.now);
        }
        let mut room = [0; 2000];
        if let Received::Bytes(length) = pair.far.receive(far, &mut room, pair.now) {
            came += length;
        }
        while let Some(packet) = pair.far.poll_transmit() {
            pair.near
                .handle_packet(&packet, Checksums::Verify, pair.now);
        }
        if came == 1200 {
            return;
        }
    }
    panic!("{came} bytes came");
}

#[test]
fn another_mtu_counts_for_open_connections_and_for_datagrams() {
    let mut pair = Pair::new(0, 0);
    let [near, _] = open(&mut pair);
    let datagrams = pair
        .near
        .open_udp(ip("10.7.0.2"), address("192.0.2.7:53"), 3, pair.now);
    let datagrams = datagrams.unwrap();
    let longest = |pair: &mut Pair| {
        pair.near.send(near, &[7; 4000], pair.now);
        let mut longest = 0;
        while let Some(packet) = pair.near.poll_transmit() {
            longest = longest.max(packet.len());
            pair.far.handle_packet(&packet, Checksums::Verify, pair.now);
        }
        pair.settle();
        longest
    };

    assert_eq!(longest(&mut pair), 1400);
    assert!(!pair.near.send_datagram(datagrams, &[0; 1373], pair.now));
    pair.near.set_mtu(1300);
    assert_eq!(longest(&mut pair), 1300);
    assert!(!pair.near.send_datagram(datagrams, &[0; 1273], pair.now));
    assert!(pair.near.send_datagram(datagrams, &[0; 1272], pair.now));
    pair.settle();
    // Never less than the minimum of IPv6.
    pair.near.set_mtu(500);
    assert_eq!(longest(&mut pair), 1280);
    pair.near.set_mtu(1400);
    assert_eq!(longest(&mut pair), 1400);
}

#[test]
fn a_sender_learns_which_payloads_are_too_large_unless_its_packets_may_be_cut() {
    let mut pair = Pair::new(0, 0);
    let target = address("192.0.2.7:53");
    let near = pair.near.open_udp(ip("10.7.0.2"), target, 3, pair.now);
    let near = near.unwrap();
    assert!(pair.near.send_datagram(near, &[7; 1300], pair.now));
    let mut packet = pair.near.poll_transmit().unwrap();
    let told = |pair: &mut Pair, packet: &[u8]| {
        pair.far.handle_packet(packet, Checksums::Verify, pair.now);
        let flow = std::iter::from_fn(|| pair.far.poll_event()).find_map(|event| match event {
            StackEvent::Datagram { flow, .. } => Some(flow),
            _ => None,
        });
        pair.far.refuse_larger(flow.unwrap(), 1200, pair.now);
        pair.far.poll_transmit()
    };

    let error = told(&mut pair, &packet).unwrap();
    let error = Packet::parse(&error).unwrap();
    assert_eq!(error.destination(), ip("10.7.0.2"));
    assert_eq!(error.payload()[..2], [3, 4], "fragmentation needed");
    assert_eq!(error.payload()[6..8], 1228u16.to_be_bytes());

    // The same without the flag that forbids to cut it.
    packet[6] = 0;
    packet[10..12].fill(0);
    let sum = hermes_proto::ip::checksum::checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    assert!(told(&mut pair, &packet).is_none());
}

/// The content of the fragments of one packet, put together; each is checked by itself.
fn gathered(fragments: &[Vec<u8>], mtu: usize) -> Vec<u8> {
    let is_ipv4 = fragments[0][0] >> 4 == 4;
    let header = if is_ipv4 { 20 } else { 48 };
    let numbers = if is_ipv4 { 4..6 } else { 44..48 };
    let mut content = Vec::new();
    for (index, fragment) in fragments.iter().enumerate() {
        let packet = Packet::parse(fragment).unwrap();
        let expected = if index == 0 {
            Fragment::First
        } else {
            Fragment::Later
        };
        assert_eq!(packet.fragment(), expected);
        assert!(fragment.len() <= mtu);
        assert_eq!(fragment[numbers.clone()], fragments[0][numbers.clone()]);

        let [high, low] = if is_ipv4 { [6, 7] } else { [42, 43] }.map(|at| fragment[at]);
        let word = usize::from(u16::from_be_bytes([high, low]));
        let (offset, more) = match is_ipv4 {
            true => ((word & 0x1fff) * 8, word & 0x2000 != 0),
            false => (word & !7, word & 1 != 0),
        };
        assert_eq!(offset, content.len());
        assert_eq!(more, index + 1 < fragments.len());
        content.extend_from_slice(&fragment[header..]);
    }
    content
}

#[test]
fn an_answer_that_is_longer_than_the_mtu_goes_in_pieces() {
    for (from, target) in [
        ("10.7.0.2", "192.0.2.7:53"),
        ("fd07::2", "[2001:db8::7]:53"),
    ] {
        let mut pair = Pair::new(0, 0);
        let near = pair.near.open_udp(ip(from), address(target), 3, pair.now);
        assert!(pair.near.send_datagram(near.unwrap(), b"?", pair.now));
        pair.turn();
        let asked = std::iter::from_fn(|| pair.far.poll_event()).find_map(|event| match event {
            StackEvent::UdpAsked { flow, .. } => Some(flow),
            _ => None,
        });
        let flow = asked.unwrap();

        let header = if from.contains(':') { 48 } else { 28 };
        assert!(
            pair.far
                .send_datagram(flow, &vec![7; 1500 - header], pair.now)
        );
        assert_eq!(pair.far.poll_transmit().unwrap().len(), 1500);
        assert!(!pair.far.has_transmit());

        let mut identifications = Vec::new();
        for length in [1501 - header, 4000, 65_535 - header] {
            let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
            assert!(pair.far.send_datagram(flow, &payload, pair.now));
            let pieces: Vec<_> = std::iter::from_fn(|| pair.far.poll_transmit()).collect();
            assert!(pieces.len() > 1);
            let datagram = gathered(&pieces, 1500);
            assert_eq!(datagram[8..], payload, "{from}, {length}");
            identifications.push(pieces[0][if header == 28 { 5 } else { 47 }]);
        }
        assert_eq!(identifications, [1, 2, 3]);
        assert!(
            !pair
                .far
                .send_datagram(flow, &vec![7; 65_536 - header], pair.now)
        );
    }
}

/// First segments of this many clients.
fn first_segments(count: u16) -> Vec<Vec<u8>> {
    let now = Instant::now();
    let target = address("192.0.2.7:443");
    let one = |number: u16| {
        let settings = StackSettings {
            intercepts: false,
            ..StackSettings::default()
        };
        let mut stack = Stack::new(settings, now);
        let [high, low] = number.to_be_bytes();
        let from = IpAddr::from([10, 7, high, low.max(1)]);
        let seed = u64::from(number) << 33;
        stack.open_tcp(from, target, seed, now).unwrap();
        stack.poll_transmit().unwrap()
    };
    (0..count).map(one).collect()
}

#[test]
fn a_flood_of_clients_is_bounded() {
    let now = Instant::now();
    let mut stack = Stack::new(StackSettings::default(), now);
    for segment in first_segments(1500) {
        stack.handle_packet(&segment, Checksums::Verify, now);
        // Each is asked about, as a loop would.
        stack.poll_event();
    }
    assert!(stack.flows()[0] <= MAX_TCP);
    assert!(stack.counts().full > 400, "{:?}", stack.counts());

    // Unanswered connections do not stay for ever.
    stack.handle_timeout(now + tcp::ASKING);
    assert_eq!(stack.flows(), [0, 0]);
    // No one has answered for their targets, so they hear nothing.
    assert!(!stack.has_transmit());
}

#[test]
fn a_flood_of_ports_and_datagrams_is_bounded() {
    let now = Instant::now();
    let mut stack = Stack::new(StackSettings::default(), now);
    let target = address("192.0.2.7:53");
    for number in 0..6000_u16 {
        let from = SocketAddr::new(ip("10.7.0.2"), 1000 + number);
        let packet = build::udp(from, target, b"?");
        stack.handle_packet(&packet, Checksums::Verify, now);
    }
    let events = std::iter::from_fn(|| stack.poll_event()).count();
    assert!(events <= MAX_EVENTS, "{events}");
    assert!(stack.flows()[1] <= MAX_UDP);
}

#[test]
fn addresses_that_no_host_has_are_refused() {
    let now = Instant::now();
    let mut stack = Stack::new(StackSettings::default(), now);
    for (from, to) in [
        ("10.7.0.2:1", "224.0.0.1:1"),
        ("10.7.0.2:1", "255.255.255.255:1"),
        ("127.0.0.1:1", "192.0.2.7:1"),
        ("0.0.0.0:1", "192.0.2.7:1"),
        ("10.7.0.2:0", "192.0.2.7:1"),
        ("[fd07::2]:1", "[ff02::1]:1"),
        ("[::1]:1", "[2001:db8::7]:1"),
    ] {
        let packet = build::udp(address(from), address(to), b"?");
        stack.handle_packet(&packet, Checksums::Verify, now);
        assert_eq!(stack.poll_event(), None, "{from} {to}");
    }
    assert_eq!(stack.counts().malformed, 7);
    let opened = stack.open_tcp(ip("10.7.0.2"), address("[2001:db8::7]:1"), 1, now);
    assert_eq!(opened.unwrap_err(), OpenError::Address);
}

#[test]
fn a_damaged_segment_is_lost_unless_its_checksum_is_trusted() {
    let now = Instant::now();
    let mut stack = Stack::new(StackSettings::default(), now);
    let mut segment = first_segments(1).remove(0);
    segment[36] ^= 1;
    stack.handle_packet(&segment, Checksums::Verify, now);
    assert_eq!((stack.counts().damaged, stack.flows()), (1, [0, 0]));
    stack.handle_packet(&segment, Checksums::Trusted, now);
    assert_eq!(stack.flows(), [1, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_said_arrives_whole_over_any_losses(
        loss in 0..20_u64,
        seed in any::<u64>(),
        up in proptest::collection::vec(any::<u8>(), 0..20_000),
        down in proptest::collection::vec(any::<u8>(), 0..20_000),
    ) {
        let mut pair = Pair::new(loss, seed);
        let came = talk(&mut pair, address("192.0.2.7:443"), [&up, &down]);
        prop_assert!(came[0] == up && came[1] == down);
    }

    #[test]
    fn no_packet_of_a_stranger_breaks_anything(
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..40),
        changes in proptest::collection::vec((any::<u8>(), any::<u8>()), 0..200),
    ) {
        let now = Instant::now();
        let mut stack = Stack::new(StackSettings::default(), now);
        for packet in &packets {
            stack.handle_packet(packet, Checksums::Trusted, now);
        }

        // A nearly valid segment gets further.
        let mut segment = first_segments(1).remove(0);
        let mut open = Vec::new();
        for (at, change) in changes {
            let index = usize::from(at) % segment.len();
            let before = segment[index];
            segment[index] ^= change;
            segment[10..12].fill(0);
            let sum = hermes_proto::ip::checksum::checksum(&segment[..20]);
            segment[10..12].copy_from_slice(&sum.to_be_bytes());
            stack.handle_packet(&segment, Checksums::Trusted, now);
            segment[index] = before;
            while let Some(event) = stack.poll_event() {
                if let StackEvent::TcpAsked { flow, .. } = event {
                    stack.accept(flow, 64 << 10, 1, now);
                    open.push(flow);
                }
            }
            while stack.poll_transmit().is_some() {}
        }

        prop_assert!(stack.flows()[0] <= MAX_TCP);
        for flow in open {
            stack.release(flow, now);
        }
        while stack.poll_transmit().is_some() {}
        stack.handle_timeout(now + Duration::from_secs(400));
        prop_assert_eq!(stack.flows()[0], 0);
    }
}

#[test]
fn a_datagram_by_itself_is_a_packet_and_comes_out_of_it() {
    for [from, to] in [
        ["10.7.0.2:5000", "10.9.0.1:53"],
        ["[fd07::2]:5000", "[fd09::1]:53"],
    ] {
        let datagram = UdpDatagram {
            from: from.parse().unwrap(),
            to: to.parse().unwrap(),
            payload: b"who is VIDEO?",
        };
        let mut packet = datagram.to_packet();
        let parsed = Packet::parse(&packet).unwrap();
        assert_eq!(UdpDatagram::parse(&parsed), Some(datagram));

        let last = packet.len() - 1;
        packet[last] ^= 1;
        let damaged = Packet::parse(&packet).unwrap();
        assert_eq!(UdpDatagram::parse(&damaged), None);
    }
}
