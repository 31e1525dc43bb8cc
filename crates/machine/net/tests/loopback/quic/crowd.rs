use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_net::quic::{Endpoint, ServerOptions, steering};
use hermes_net::{Drain, listen};

use super::{NAME, Trust, ask, patiently, spawn_echo};
use crate::loopback;

/// `count` sockets on one port.
fn sockets(count: usize) -> Vec<UdpSocket> {
    let first = listen::udp(loopback()).unwrap();
    let address = first.local_addr().unwrap();
    let others = (1..count).map(|_| listen::udp(address).unwrap());
    std::iter::once(first).chain(others).collect()
}

#[tokio::test]
async fn a_client_that_moves_stays_with_its_worker() {
    const CLIENTS: usize = 24;
    let (trust, drain) = (Trust::new(), Drain::new());
    let sockets = sockets(3);
    steering::steer(&sockets).unwrap();
    let address = sockets[0].local_addr().unwrap();
    let workers: Vec<_> = (0..)
        .zip(sockets)
        .map(|(n, s)| Endpoint::server(s, n, &trust.server).unwrap())
        .collect();
    for worker in &workers {
        spawn_echo(worker.clone(), &drain);
    }
    patiently(async {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let client = Endpoint::client(address).unwrap();
            let connection = client.connect(address, NAME, &trust.client).await.unwrap();
            assert_eq!(ask(&connection, "before").await.unwrap(), b"before");
            clients.push((client, connection));
        }
        let spread: Vec<_> = workers.iter().map(Endpoint::connections).collect();
        assert_eq!(spread.iter().sum::<usize>(), CLIENTS);
        assert!(
            spread.iter().filter(|count| **count > 0).count() >= 2,
            "all on one worker: {spread:?}"
        );

        for (client, connection) in &clients {
            // From here on the sender says nothing about the worker.
            client.rebind(listen::udp(loopback()).unwrap()).unwrap();
            assert_eq!(ask(connection, "after").await.unwrap(), b"after");
        }
        assert_eq!(
            workers
                .iter()
                .map(Endpoint::connections)
                .collect::<Vec<_>>(),
            spread
        );
    })
    .await;
}

#[tokio::test]
async fn a_client_that_moves_is_followed() {
    let [(near, client), (far, _server)] = Trust::new().pair().await;
    let before = far.peer();
    client.rebind(listen::udp(loopback()).unwrap()).unwrap();
    let now = client.local_addr().unwrap();
    near.send_datagrams([bytes::Bytes::from_static(b"moved")]);
    let mut received = Vec::new();
    patiently(far.recv_datagrams(&mut received, 9))
        .await
        .unwrap();
    assert_eq!(received, ["moved"]);
    assert_ne!(far.peer(), before);
    assert_eq!(far.peer().port(), now.port());
    assert_eq!(far.info().peer.socket(), Some(before), "where it began");
}

#[tokio::test]
async fn clients_prove_their_address_while_many_handshakes_are_open() {
    let (trust, drain) = (Trust::new(), Drain::new());
    let (server, address) = super::serve(&ServerOptions {
        retry_above: 1,
        ..trust.server.clone()
    });
    let client = Endpoint::client(address).unwrap();
    let validated = Arc::new(AtomicUsize::new(0));
    let first = client.connect(address, NAME, &trust.client);
    let (second, seen) = (
        client.connect(address, NAME, &trust.client),
        validated.clone(),
    );
    let accepting = async {
        // The first handshake is open until the second client was accepted.
        let held = super::incoming(&server).await;
        assert!(!held.is_validated());
        let next = super::incoming(&server).await;
        seen.fetch_add(usize::from(next.is_validated()), Ordering::Relaxed);
        tokio::join!(held.accept(), next.accept())
    };
    let (first, second, (one, two)) =
        patiently(async { tokio::join!(first, second, accepting) }).await;
    assert!(first.is_ok() && second.is_ok() && one.is_ok() && two.is_ok());
    assert_eq!(
        (server.retries(), validated.load(Ordering::Relaxed)),
        (1, 1)
    );

    // Afterwards no one is asked.
    spawn_echo(server.clone(), &drain);
    let third = client.connect(address, NAME, &trust.client).await.unwrap();
    assert_eq!(ask(&third, "x").await.unwrap(), b"x");
    assert_eq!(server.retries(), 1);
}
