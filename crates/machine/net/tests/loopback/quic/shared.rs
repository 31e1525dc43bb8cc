//! Two endpoints on one socket, as a node and its successor have it.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use hermes_net::quic::Endpoint;
use hermes_net::shared_socket::{
    DatagramSocket, ProcessTag, Rendezvous, SocketUse, forward_counts,
};
use hermes_net::{Drain, listen};

use super::{NAME, Trust, ask, patiently, spawn_echo};
use crate::loopback;

/// Packets of someone who forges them.
const FORGED: usize = 500;

/// An endpoint of one process, which echoes until its drain says to stop, and the tag of that process.
fn process(socket: &UdpSocket, trust: &Trust, drain: &Drain) -> (Endpoint, ProcessTag) {
    let socket = socket.try_clone().unwrap();
    let rendezvous = Rendezvous::open(&socket, SocketUse::Quic).unwrap();
    let tag = rendezvous.tag();
    let socket = DatagramSocket {
        socket,
        rendezvous: Some(rendezvous),
    };
    let endpoint = Endpoint::server(socket, 0, &trust.server).unwrap();
    spawn_echo(endpoint.clone(), drain);
    (endpoint, tag)
}

#[tokio::test]
async fn connections_stay_where_they_began_and_new_ones_come_to_the_newer_process() {
    let trust = Trust::new();
    let socket = listen::udp(loopback()).unwrap();
    let address = socket.local_addr().unwrap();
    let drains = [Drain::new(), Drain::new()];
    let (older, _) = process(&socket, &trust, &drains[0]);
    let client = Endpoint::client(address).unwrap();
    let connect = || client.connect(address, NAME, &trust.client);
    let early = [connect().await.unwrap(), connect().await.unwrap()];
    assert_eq!(older.connections(), 2);

    let (newer, _) = process(&socket, &trust, &drains[1]);
    let mut late = Vec::new();
    for _ in 0..8 {
        late.push(connect().await.unwrap());
        for connection in early.iter().chain(&late) {
            assert_eq!(
                patiently(ask(connection, "a word")).await.unwrap(),
                b"a word"
            );
        }
    }
    assert_eq!((older.connections(), newer.connections()), (2, 8));

    // The newer one takes no more clients: the older one does again.
    newer.stop_accepting();
    let last = patiently(async {
        loop {
            match connect().await {
                Ok(connection) => break connection,
                // The other process is not known yet.
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    assert_eq!(ask(&last, "back").await.unwrap(), b"back");
    assert_eq!(older.connections(), 3);
    for connection in &late {
        assert_eq!(
            ask(connection, "still there").await.unwrap(),
            b"still there"
        );
    }
}

#[tokio::test]
async fn forged_packets_that_name_the_other_process_go_there_once_and_bring_no_more_than_they_cost()
{
    let trust = Trust::new();
    let socket = listen::udp(loopback()).unwrap();
    let address: SocketAddr = socket.local_addr().unwrap();
    let drains = [Drain::new(), Drain::new()];
    let (_older, first) = process(&socket, &trust, &drains[0]);
    let (_newer, second) = process(&socket, &trust, &drains[1]);
    let client = Endpoint::client(address).unwrap();
    let honest = client.connect(address, NAME, &trust.client).await.unwrap();

    let stranger = UdpSocket::bind(loopback()).unwrap();
    stranger.set_nonblocking(true).unwrap();
    let before = forward_counts();
    let mut sent = 0;
    let mut heard = 0;
    let mut room = [0; 2048];
    for number in 0..FORGED {
        let ProcessTag(tag) = [first, second][number % 2];
        // Short headers, and long ones of an unknown and of a known version.
        let mut packet = match number % 3 {
            0 => vec![0x40, 0],
            1 => vec![0xc0, 9, 9, 9, 9, 8, 0],
            _ => vec![0xe0, 0, 0, 0, 1, 8, 0],
        };
        packet.extend(tag);
        packet.extend([7; 4]);
        packet.resize(200, number.to_le_bytes()[0]);
        sent += packet.len();
        stranger.send_to(&packet, address).unwrap();

        if number % 16 == 0 {
            assert_eq!(patiently(ask(&honest, "here")).await.unwrap(), b"here");
        }
        while let Ok(length) = stranger.recv(&mut room) {
            heard += length;
        }
    }

    // Let packets on their way arrive.
    for _ in 0..8 {
        assert_eq!(patiently(ask(&honest, "here")).await.unwrap(), b"here");
        tokio::time::sleep(Duration::from_millis(5)).await;
        while let Ok(length) = stranger.recv(&mut room) {
            heard += length;
        }
    }
    assert!(heard <= sent, "{heard} bytes for {sent}");
    let forwarded = forward_counts().forwarded - before.forwarded;
    // The honest client's packets are few beside them, and other tests run in this process.
    assert!(forwarded <= 4 * FORGED as u64, "{forwarded} were forwarded");
}
