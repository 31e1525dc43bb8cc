//! Processes that share a socket, with sessions that belong to one of them.

use std::net::{SocketAddr, UdpSocket};

use hermes_net::shared_socket::{
    NextDatagrams, OtherProcesses, ReceivedRun, Rendezvous, SocketUse,
};
use hermes_net::{RecvBatch, listen};

use crate::loopback;

/// Datagrams that wait on either side.
const WAITING: usize = 20;

/// A process with the socket, and its view of the others.
fn process(socket: &UdpSocket) -> OtherProcesses<SocketAddr> {
    let rendezvous = Rendezvous::open(socket, SocketUse::Sessions).unwrap();
    OtherProcesses::new(Some(rendezvous)).unwrap()
}

fn run(source: SocketAddr, bytes: &[u8]) -> ReceivedRun<'_> {
    ReceivedRun {
        source,
        local: None,
        ecn: 0,
        stride: bytes.len(),
        bytes,
    }
}

/// The word that another process forwards next.
async fn forwarded(to: &mut OtherProcesses<SocketAddr>, room: &mut Vec<u8>) -> Vec<u8> {
    let next = to.next_or(room, std::future::pending::<()>()).await;
    let NextDatagrams::Forwarded(arrived) = next else {
        panic!("{next:?}");
    };
    arrived.decode(room).unwrap().run.bytes.to_vec()
}

#[tokio::test]
async fn forwarded_datagrams_and_those_of_the_socket_take_turns() {
    let socket = listen::udp(loopback()).unwrap();
    let address = socket.local_addr().unwrap();
    let mut older = process(&socket);
    let mut newer = process(&socket);
    let client: SocketAddr = "192.0.2.1:7".parse().unwrap();
    let sender = UdpSocket::bind(loopback()).unwrap();
    for _ in 0..WAITING {
        assert!(newer.give(client, &run(client, b"forwarded")));
        sender.send_to(b"received", address).unwrap();
    }

    let own = hermes_net::UdpSocket::bound(socket).unwrap();
    // Each is taken by itself: a batch would have all of them at once.
    let mut batch = RecvBatch::with_slots(1);
    let mut room = Vec::new();
    let mut order = Vec::new();
    while order.len() < WAITING {
        // Let the run time notice arrived packets.
        tokio::task::yield_now().await;
        let next = older.next_or(&mut room, own.recv(&mut batch)).await;
        match next {
            NextDatagrams::Received(received) => {
                received.unwrap();
                order.push("received");
                // As long as there are both.
                sender.send_to(b"received", address).unwrap();
                own.readable().await.unwrap();
            }
            NextDatagrams::Forwarded(arrived) if arrived.decode(&room).is_some() => {
                order.push("forwarded");
            }
            NextDatagrams::Forwarded(_) => {}
        }
    }

    // The first of all may come before it is known that there is another process.
    let count = |word: &str| order.iter().filter(|one| **one == word).count();
    let difference = count("received").abs_diff(count("forwarded"));
    assert!(difference <= 4, "{order:?}");
}

#[tokio::test]
async fn a_newcomer_is_reported_once_and_before_anything_is_given_to_it() {
    let socket = listen::udp(loopback()).unwrap();
    let client: SocketAddr = "192.0.2.1:7".parse().unwrap();
    let mut older = process(&socket);
    assert!(!older.take_newcomers());
    let mut newer = process(&socket);
    assert!(newer.take_newcomers(), "it found the older one");
    assert!(!older.has_any(), "its connection waits");
    assert!(older.take_newcomers());
    assert!(!older.take_newcomers());

    assert!(older.give(client, &run(client, b"word")));
    let mut room = Vec::new();
    assert_eq!(forwarded(&mut newer, &mut room).await, b"word");
}

#[tokio::test]
async fn one_that_stands_still_is_not_asked_about_the_sessions_of_another() {
    let socket = listen::udp(loopback()).unwrap();
    let client: SocketAddr = "192.0.2.1:7".parse().unwrap();
    let mut oldest = process(&socket);
    let mut middle = process(&socket);
    let mut newest = process(&socket);
    let mut room = Vec::new();

    // The middle one returns the first datagram, and the oldest one takes it.
    assert!(newest.give(client, &run(client, b"first")));
    let next = middle
        .next_or(&mut room, std::future::pending::<()>())
        .await;
    let NextDatagrams::Forwarded(arrived) = next else {
        panic!("{next:?}");
    };
    assert!(middle.give_on(client, &arrived.decode(&room).unwrap()));
    let next = newest
        .next_or(&mut room, std::future::pending::<()>())
        .await;
    let NextDatagrams::Forwarded(arrived) = next else {
        panic!("{next:?}");
    };
    assert!(newest.give_on(client, &arrived.decode(&room).unwrap()));
    assert_eq!(forwarded(&mut oldest, &mut room).await, b"first");

    // The middle one stands still.
    assert!(newest.give(client, &run(client, b"second")));
    assert_eq!(forwarded(&mut oldest, &mut room).await, b"second");
}
