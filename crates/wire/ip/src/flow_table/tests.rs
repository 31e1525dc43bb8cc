//! The table of flows, packet by packet.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn sampling() -> FlowSampling {
    FlowSampling {
        one_in: 1,
        silence: 60 * SECOND,
        room: 8,
    }
}

/// A segment of TCP from one of two hosts, with these flags.
fn segment(is_answer: bool, port: u16, flags: u8) -> Vec<u8> {
    let ends = [
        (Ipv4Addr::new(10, 7, 0, 2), port),
        (Ipv4Addr::new(10, 0, 2, 2), 443),
    ];
    let [from, to] = match is_answer {
        false => ends,
        true => [ends[1], ends[0]],
    };
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, TCP, 0, 0];
    packet.extend(from.0.octets());
    packet.extend(to.0.octets());
    let sum = hermes_proto::ip::checksum::checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(from.1.to_be_bytes());
    packet.extend(to.1.to_be_bytes());
    packet.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    packet
}

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;
const FIN: u8 = 0x11;
const RST: u8 = 0x04;

struct Tried {
    table: FlowTable<u32>,
    began: Instant,
    marks: u32,
}

impl Tried {
    fn new(sampling: FlowSampling) -> Self {
        Self {
            table: FlowTable::new(sampling, 7),
            began: Instant::now(),
            marks: 0,
        }
    }

    fn see(&mut self, packet: &[u8], seconds: u32) -> Option<EndedFlow<u32>> {
        let packet = Packet::parse(packet).unwrap();
        let count = FlowCount {
            packets: 1,
            bytes: packet.bytes().len() as u64,
        };
        let marks = &mut self.marks;
        let mark = || {
            *marks += 1;
            *marks
        };
        let now = self.began + seconds * SECOND;
        self.table.handle_packet(&packet, count, now, mark)
    }

    fn ended(&mut self, seconds: u32) -> Option<EndedFlow<u32>> {
        self.table.poll_ended(self.began + seconds * SECOND)
    }
}

#[test]
fn both_directions_of_a_connection_are_one_flow_that_ends_when_both_have_closed() {
    let mut tried = Tried::new(sampling());
    for (is_answer, flags) in [(false, SYN), (true, SYN_ACK), (false, ACK), (false, FIN)] {
        assert_eq!(tried.see(&segment(is_answer, 5000, flags), 1), None);
    }
    assert_eq!(tried.ended(30), None, "one side may still send");
    for (is_answer, flags) in [(true, ACK), (true, FIN), (false, ACK)] {
        tried.see(&segment(is_answer, 5000, flags), 31);
    }
    assert_eq!((tried.table.len(), tried.ended(32)), (0, None));

    let ended = tried.ended(33).unwrap();
    assert_eq!(ended.end, FlowEnd::Closed);
    assert_eq!((ended.sent.packets, ended.returned.packets), (4, 3));
    assert_eq!((ended.sent.bytes, ended.returned.bytes), (160, 120));
    assert_eq!(
        (ended.flow.source_port, ended.flow.destination_port),
        (5000, 443)
    );
    assert_eq!(ended.last - ended.first, 30 * SECOND);
    assert_eq!((ended.mark, tried.marks), (1, 1));
    assert_eq!(tried.ended(1000), None);
}

#[test]
fn the_same_ends_may_open_another_connection_at_once_after_a_reset() {
    let mut tried = Tried::new(sampling());
    tried.see(&segment(false, 5000, SYN), 0);
    tried.see(&segment(true, 5000, RST), 0);
    let ended = tried.see(&segment(false, 5000, SYN), 0).unwrap();
    assert_eq!((ended.end, ended.mark), (FlowEnd::Closed, 1));
    assert_eq!(tried.table.len(), 1);
    tried.see(&segment(false, 5000, SYN), 1);
    assert_eq!(tried.marks, 2, "which is the same one, sent again");
}

#[test]
fn silent_flows_end_in_the_order_of_their_last_packets_and_the_rest_with_the_tunnel() {
    let mut tried = Tried::new(sampling());
    for (port, seconds) in [(1, 0), (2, 1), (3, 2), (1, 50)] {
        tried.see(&segment(false, port, ACK), seconds);
    }
    let ended = [tried.ended(62), tried.ended(62), tried.ended(62)];
    let ports = ended.map(|flow| flow.map(|flow| (flow.flow.source_port, flow.end)));
    assert_eq!(
        ports,
        [Some((2, FlowEnd::Silent)), Some((3, FlowEnd::Silent)), None]
    );
    let rest = tried.table.poll_rest().unwrap();
    assert_eq!((rest.flow.source_port, rest.end), (1, FlowEnd::TunnelEnded));
    assert_eq!(tried.table.poll_rest(), None);
}

#[test]
fn a_flood_of_flows_takes_bounded_room_and_ends_few_flows_early() {
    let mut tried = Tried::new(FlowSampling {
        room: 100,
        ..sampling()
    });
    let mut crowded_out = 0;
    for port in 0..20_000 {
        let ended = tried.see(&segment(false, port, SYN), 0);
        crowded_out += usize::from(ended.is_some_and(|flow| flow.end == FlowEnd::CrowdedOut));
        assert!(tried.table.len() <= 100 && tried.table.places.len() <= 100);
    }
    assert!((150..500).contains(&crowded_out), "{crowded_out}");
    let followed = 100 + crowded_out as u64;
    assert_eq!(tried.table.passed_over() + followed, 20_000);
}

#[test]
fn of_many_flows_the_share_is_followed_that_was_asked_for_in_both_directions() {
    let mut tried = Tried::new(FlowSampling {
        one_in: 10,
        room: MAX_FOLLOWED,
        ..sampling()
    });
    for port in 0..10_000 {
        tried.see(&segment(port % 2 == 0, port, ACK), 0);
    }
    let followed = tried.table.len();
    assert!((800..1200).contains(&followed), "{followed}");

    for port in 0..10_000 {
        tried.see(&segment(port % 2 == 1, port, ACK), 1);
    }
    assert_eq!(tried.table.len(), followed, "the answers of the same");
    assert!(std::iter::from_fn(|| tried.table.poll_rest()).all(|flow| flow.returned.packets == 1));
}

proptest! {
    #[test]
    fn whatever_comes_is_counted_once_and_every_flow_that_began_ends(
        steps in prop::collection::vec((any::<bool>(), 0..12_u16, 0..64_u8, 0..40_u32), 0..300),
    ) {
        let mut tried = Tried::new(sampling());
        let mut ended = Vec::new();
        let mut now = 0;
        for (is_answer, port, flags, later) in &steps {
            now += later;
            ended.extend(tried.see(&segment(*is_answer, *port, *flags), now));
            prop_assert!(tried.table.places.len() <= 8);
            while let Some(flow) = tried.ended(now) {
                ended.push(flow);
            }
        }
        ended.extend(std::iter::from_fn(|| tried.table.poll_rest()));

        let counted: u64 = ended.iter().map(|flow| flow.sent.packets + flow.returned.packets).sum();
        prop_assert_eq!(counted + tried.table.passed_over(), steps.len() as u64);
        prop_assert_eq!(ended.len() as u32, tried.marks);
        prop_assert!(ended.iter().all(|flow| flow.first <= flow.last));
        prop_assert!(tried.table.places.is_empty());
    }
}
