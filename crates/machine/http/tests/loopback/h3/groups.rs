//! Datagrams of tunnels in groups: streams of QUIC beside those of the tunnels.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_http::Offered;
use hermes_http::h3::{DatagramReceiver, GROUP_MEMORY};
use hermes_net::memory::{Memory, Owner, Purpose};
use hermes_net::quic::Stopped;
use hermes_proto::fields::Fields;
use hermes_proto::h3::StreamType;
use hermes_proto::h3::datagram_group::{self, GroupHead};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::datagrams::{End, open, serve};
use super::wire::{self, CONTROL, Exchange, Wire, get, headers, number, usual_settings};
use crate::server::Server;
use crate::{H3, bounded};

/// More than any of these groups takes.
const WITHIN: Duration = Duration::from_secs(10);

impl End {
    fn group(&self) {
        self.group_within(WITHIN);
    }

    fn group_within(&self, within: Duration) {
        let owner = Memory::node().owner(Owner::User("groups".into()));
        let charge = owner.charge(Purpose::Transforms, GROUP_MEMORY).unwrap();
        self.send.group(within, charge);
    }
}

/// A server that gives away the datagrams of its tunnels, and answers other requests with 404.
async fn taking() -> (Server, mpsc::UnboundedReceiver<DatagramReceiver>) {
    let (give, tunnels) = mpsc::unbounded_channel();
    let answer = move |offered: Offered| {
        let give = give.clone();
        async move {
            if !offered.kind().carries_packets() {
                return crate::content::hello(offered).await;
            }
            let (mut incoming, outgoing) = offered.accept(Fields::new()).await.unwrap();
            let _ = give.send(incoming.datagrams().unwrap());
            while let Some(Ok(_)) = incoming.frame().await {}
            drop(outgoing);
        }
    };
    (Server::start(answer).await, tunnels)
}

/// A client that writes every byte itself, and its tunnel.
async fn tunnel(server: &Server) -> (Wire, Exchange) {
    let mut wire = Wire::dial(server.address).await;
    wire.uni(CONTROL, &usual_settings()).await;
    let head = headers(&[
        (":method", "CONNECT"),
        (":protocol", "connect-udp"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/.well-known/masque/udp/a/1/"),
        ("capsule-protocol", "?1"),
    ]);
    let mut exchange = wire.request(&head, false).await;
    assert_eq!(exchange.status().await, 200);
    (wire, exchange)
}

/// A group of one datagram.
fn group(stream: u64, payload: &[u8]) -> Vec<u8> {
    numbered(stream, 0, payload)
}

/// A group of one datagram with this number.
fn numbered(stream: u64, first: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    GroupHead { stream, first }.encode(&mut bytes);
    datagram_group::encode(&[], payload, &mut bytes);
    bytes.to_vec()
}

/// The code with which the other side stops a stream with these bytes.
async fn stopped(wire: &Wire, bytes: &[u8]) -> Option<u64> {
    let mut stream = wire.connection.open_uni().await.unwrap();
    wire::send(&mut stream, bytes).await;
    match stream.stopped().await {
        Stopped::Code(code) => Some(code),
        _ => None,
    }
}

async fn next(datagrams: &mut DatagramReceiver) -> Bytes {
    let mut into = Vec::new();
    assert!(datagrams.recv(&mut into, 1).await);
    into.remove(0)
}

#[tokio::test]
async fn datagrams_in_groups_come_in_both_directions_however_large() {
    bounded(async {
        let (server, mut ends) = serve().await;
        let client = server.client(H3).await;
        let (mut near, mut far) = (open(&client).await, ends.recv().await.unwrap());
        near.group();
        far.group();
        let large = "x".repeat(60_000);
        for text in ["small", &large, ""] {
            assert!(near.send(text) && far.send(text));
            assert_eq!(far.receive().await, [format!("\0{text}")]);
            assert_eq!(near.receive().await, [format!("\0{text}")]);
        }
    })
    .await;
}

/// Sends a group of one datagram, whose payload is its number.
async fn send_numbered(wire: &Wire, number: u64) {
    let mut stream = wire.connection.open_uni().await.unwrap();
    wire::send(
        &mut stream,
        &numbered(0, number, number.to_string().as_bytes()),
    )
    .await;
    stream.finish().unwrap();
}

#[tokio::test]
async fn groups_that_overtake_others_wait_for_those_in_order() {
    bounded(async {
        let (server, mut ends) = serve().await;
        let (wire, _exchange) = tunnel(&server).await;
        let mut far = ends.recv().await.unwrap();
        far.group();
        let mut came = Vec::new();
        for number in [2, 1, 4, 3, 0] {
            send_numbered(&wire, number).await;
        }
        while came.len() < 5 {
            came.extend(far.receive().await);
        }
        assert_eq!(came, ["0", "1", "2", "3", "4"]);
    })
    .await;
}

#[tokio::test]
async fn a_group_that_never_comes_delays_others_no_longer_than_agreed_and_is_not_wanted_later() {
    bounded(async {
        let (server, mut ends) = serve().await;
        let (wire, _exchange) = tunnel(&server).await;
        let mut far = ends.recv().await.unwrap();
        far.group_within(Duration::from_millis(20));
        send_numbered(&wire, 7).await;
        assert_eq!(far.receive().await, ["7"]);
        for number in [6, 7, 8] {
            send_numbered(&wire, number).await;
        }
        assert_eq!(far.receive().await, ["8"]);
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_takes_no_groups_gets_datagrams() {
    bounded(async {
        let (server, mut ends) = serve().await;
        let (wire, _exchange) = tunnel(&server).await;
        let far = ends.recv().await.unwrap();
        far.group();
        assert!(far.send("plain"));
        let mut came = Vec::new();
        wire.connection.recv_datagrams(&mut came, 1).await.unwrap();
        assert_eq!(came, ["\0\0plain"]);
    })
    .await;
}

#[tokio::test]
async fn a_forged_group_ends_its_own_stream_and_nothing_else() {
    bounded(async {
        let (server, mut tunnels) = taking().await;
        let (wire, _exchange) = tunnel(&server).await;
        let mut datagrams = tunnels.recv().await.unwrap();
        let kind = number(StreamType::DatagramGroup.number());
        let too_long = [&kind[..], &number(0), &number(0), &number(70_000)].concat();
        let no_stream = [&kind[..], &number((1 << 62) - 1)].concat();
        for forged in [group(4, b"\0x"), group(400, b"\0x"), too_long, no_stream] {
            assert_eq!(stopped(&wire, &forged).await, Some(0x33));
            // A whole one behind it.
            let mut stream = wire.connection.open_uni().await.unwrap();
            wire::send(&mut stream, &group(0, b"\0whole")).await;
            stream.finish().unwrap();
            assert_eq!(next(&mut datagrams).await, "\0whole");
        }
        assert_eq!(wire.request(&get(&[]), true).await.status().await, 200);
    })
    .await;
}

#[tokio::test]
async fn a_session_has_so_many_groups_at_once_and_their_parts_are_no_datagrams() {
    bounded(async {
        let (server, mut tunnels) = taking().await;
        let (wire, _exchange) = tunnel(&server).await;
        let mut datagrams = tunnels.recv().await.unwrap();
        let mut open = Vec::new();
        let mut stops = JoinSet::new();
        for number in 0..100 {
            // All but the last byte of the datagram.
            let bytes = group(0, b"\0cut");
            let mut stream = wire.connection.open_uni().await.unwrap();
            wire::send(&mut stream, &bytes[..bytes.len() - 1]).await;
            let stopped = stream.stopped();
            stops.spawn(async move { (number, stopped.await) });
            open.push(stream);
        }

        let mut refused = Vec::new();
        while refused.len() < 4 {
            let (number, stopped) = stops.join_next().await.unwrap().unwrap();
            assert!(matches!(stopped, Stopped::Code(0x107)));
            refused.push(number);
        }
        for (number, stream) in open.iter_mut().enumerate() {
            if !refused.contains(&number) {
                wire::send(stream, b"t").await;
                assert_eq!(next(&mut datagrams).await, "\0cut");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_flood_of_useless_groups_ends_the_connection_of_a_stranger() {
    bounded(async {
        let (server, _tunnels) = taking().await;
        let (wire, _exchange) = tunnel(&server).await;
        while let Ok(mut stream) = wire.connection.open_uni().await {
            wire::send(&mut stream, &group(8, b"\0x")).await;
            let _ = stream.finish();
        }
        assert_eq!(wire.closed().await, 0x107);
    })
    .await;
}
