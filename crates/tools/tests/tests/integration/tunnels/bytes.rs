//! Bytes arrive, in both directions, each of which ends by itself.

use std::io::{Read, Write};
use std::thread;

use hermes_tests::origins;
use hermes_tests::raw::{End, Raw};

use crate::tunnels::overlay::{self, Overlay};
use crate::tunnels::peer::Target;
use crate::tunnels::pipe::{Pipe, WAYS, Way};

/// Length of what is sent each way.
const LONG: usize = 10 * 1024 * 1024;

/// Bytes that show a loss, a doubling or a change of order.
fn pattern(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&state.to_be_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn a_target_that_speaks_first_is_heard_and_answered_after_the_clients_end() {
    let origin = origins::tcp_speaks_first();
    for overlay in overlay::all() {
        for way in WAYS {
            let mut pipe = Pipe::to(way, overlay.address(), origin.address());
            assert_eq!(
                pipe.exactly(origins::GREETING.len()),
                origins::GREETING.as_bytes()
            );
            pipe.send("I am");
            assert_eq!(pipe.exactly(4), b"I am");
            pipe.finish();
            assert_eq!(
                pipe.rest(),
                (origins::farewell(4).into_bytes(), End::Closed)
            );
        }
        overlay.idle();
    }
}

#[test]
fn what_the_target_sends_after_the_clients_end_arrives() {
    let target = Target::bind();
    for overlay in overlay::all() {
        for way in WAYS {
            let mut pipe = Pipe::to(way, overlay.address(), target.address());
            let mut peer = target.accept();
            pipe.send("question");
            pipe.finish();
            assert_eq!(peer.rest(), (b"question".to_vec(), End::Closed));
            peer.send("a long");
            assert_eq!(pipe.exactly(6), b"a long");
            peer.send(" answer");
            peer.finish();
            assert_eq!(pipe.rest(), (b" answer".to_vec(), End::Closed));
        }
        overlay.idle();
    }
}

#[test]
fn what_the_client_sends_after_the_targets_end_arrives() {
    let target = Target::bind();
    for overlay in overlay::all() {
        for way in WAYS {
            let mut pipe = Pipe::to(way, overlay.address(), target.address());
            let mut peer = target.accept();
            peer.send("that is all");
            peer.finish();
            assert_eq!(pipe.rest(), (b"that is all".to_vec(), End::Closed));
            pipe.send("but");
            assert_eq!(peer.exactly(3), b"but");
            pipe.send(" I go on");
            pipe.finish();
            assert_eq!(peer.rest(), (b" I go on".to_vec(), End::Closed));
        }
        overlay.idle();
    }
}

#[test]
fn what_a_client_sends_with_its_request_is_not_lost() {
    let target = Target::bind();
    let overlay = Overlay::start(&[2]);
    let mut raw = Raw::connect(overlay.address());
    let authority = target.address();
    raw.send(format!(
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\nearly"
    ));
    raw.finish();
    let mut peer = target.accept();
    assert_eq!(peer.rest(), (b"early".to_vec(), End::Closed));
    assert_eq!(raw.head().status(), 200);
    drop(peer);
    assert_eq!(raw.rest().0, b"");
}

#[test]
fn ten_megabytes_each_way_at_once_arrive_unchanged() {
    let origin = origins::tcp_echo();
    let sent = pattern(LONG);
    for links in [&[][..], &[1], &[2], &[2, 2]] {
        let overlay = Overlay::start(links);
        assert!(
            h1_echo(&overlay, &origin, &sent) == sent,
            "h1 in, links {links:?}"
        );
        let mut pipe = Pipe::to(Way::H2, overlay.address(), origin.address());
        pipe.send(&sent);
        pipe.finish();
        let (received, end) = pipe.rest();
        assert!(
            received == sent && end == End::Closed,
            "h2 in, links {links:?}: {end:?} after {}",
            received.len()
        );
    }
}

/// Sends and reads at the same time.
fn h1_echo(overlay: &Overlay, origin: &origins::Origin<Vec<u8>>, sent: &[u8]) -> Vec<u8> {
    let mut stream = std::net::TcpStream::connect(overlay.address()).unwrap();
    let authority = origin.address();
    stream
        .write_all(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = Vec::new();
    thread::scope(|scope| {
        let mut writer = stream.try_clone().unwrap();
        scope.spawn(move || {
            writer.write_all(sent).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        stream.read_to_end(&mut answer).unwrap();
    });
    let head = answer
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap()
        + 4;
    answer.split_off(head)
}
