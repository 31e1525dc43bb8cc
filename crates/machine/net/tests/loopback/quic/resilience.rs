use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;

use hermes_net::quic::{ConnectionError, Endpoint, ServerOptions};
use hermes_net::{Drain, listen};
use tokio::net::UdpSocket as AsyncSocket;

use super::{NAME, Trust, ask, patiently, spawn_echo};
use crate::loopback;

/// Runs a server on a runtime of its own until the returned sender is dropped: then it is gone without a word.
fn crashing(
    socket: UdpSocket,
    options: ServerOptions,
) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let (alive, gone) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let drain = Drain::new();
        {
            let _entered = runtime.enter();
            spawn_echo(Endpoint::server(socket, 0, &options).unwrap(), &drain);
        }
        let _ = gone.recv();
        runtime.shutdown_background();
    });
    (alive, thread)
}

#[tokio::test]
async fn a_server_that_started_anew_resets_what_it_does_not_know() {
    let trust = Trust::new();
    let socket = listen::udp(loopback()).unwrap();
    let address: SocketAddr = socket.local_addr().unwrap();
    let (alive, thread) = crashing(socket, trust.server.clone());
    let client = Endpoint::client(address).unwrap();
    let near = client.connect(address, NAME, &trust.client).await.unwrap();
    assert_eq!(ask(&near, "before").await.unwrap(), b"before");
    drop(alive);
    thread.join().unwrap();

    // The keys are derived from the same secret as before.
    let socket = patiently(async {
        loop {
            match listen::udp(address) {
                Ok(socket) => break socket,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    let drain = Drain::new();
    spawn_echo(Endpoint::server(socket, 0, &trust.server).unwrap(), &drain);
    let error = patiently(ask(&near, "after")).await.unwrap_err();
    assert!(matches!(error, ConnectionError::Reset), "{error:?}");
    let again = client.connect(address, NAME, &trust.client).await.unwrap();
    assert_eq!(ask(&again, "after").await.unwrap(), b"after");
}

#[tokio::test]
async fn an_endpoint_that_stops_accepting_keeps_what_is_open() {
    let (trust, drain) = (Trust::new(), Drain::new());
    let (server, address) = trust.serve();
    spawn_echo(server.clone(), &drain);
    let client = Endpoint::client(address).unwrap();
    let near = client.connect(address, NAME, &trust.client).await.unwrap();
    server.stop_accepting();
    assert_eq!(ask(&near, "x").await.unwrap(), b"x");
    let refused = patiently(client.connect(address, NAME, &trust.client))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, ConnectionError::Transport { code: 2, .. }),
        "{refused:?}"
    );
}

/// Packets that an observer without keys makes of one that it saw: resets without a token, a packet
/// of other versions, changed ones, and a replay. No handshakes, nor unknown connection IDs: an
/// endpoint answers those, and so would the path, without end.
fn forged(packet: &[u8]) -> Vec<Vec<u8>> {
    if packet[0] & 0x80 != 0 {
        return Vec::new();
    }
    let changed = |at: usize| {
        let mut changed = packet.to_vec();
        changed[at] ^= 0x25;
        changed
    };

    // RFC 9000, section 10.3: the token is in the last 16 bytes, behind bytes that look like an
    // ordinary packet.
    let mut reset: Vec<u8> = packet.iter().take(21).copied().collect();
    reset.resize(43, 0x5a);
    let mut cut = packet.to_vec();
    cut.truncate(packet.len().saturating_sub(16));
    cut.extend([0xc3; 16]);

    // Section 6.2: who has seen a packet of its version heeds no negotiation of versions.
    let mut versions = vec![0xff, 0, 0, 0, 0, 8];
    versions.extend(packet.iter().skip(1).take(8));
    versions.extend([0, 0xfa, 0xce, 0xb0, 0x0c]);

    let last = packet.len() - 1;
    vec![
        reset,
        cut,
        versions,
        changed(0),
        changed(last),
        packet.to_vec(),
    ]
}

/// Passes datagrams on in both directions, and with each those that are forged of it: on the path, and from an address beside it.
async fn forging_path(server: SocketAddr) -> SocketAddr {
    let front = AsyncSocket::bind(loopback()).await.unwrap();
    let back = AsyncSocket::bind(loopback()).await.unwrap();
    let beside = AsyncSocket::bind(loopback()).await.unwrap();
    let address = front.local_addr().unwrap();

    tokio::spawn(async move {
        let mut client = None;
        let mut from_client = [0; 2048];
        let mut from_server = [0; 2048];
        loop {
            let (packet, through, to) = tokio::select! {
                Ok((length, from)) = front.recv_from(&mut from_client) => {
                    client = Some(from);
                    (from_client[..length].to_vec(), &back, server)
                }
                Ok((length, _)) = back.recv_from(&mut from_server) => {
                    let Some(client) = client else { continue };
                    (from_server[..length].to_vec(), &front, client)
                }
                else => return,
            };
            for forged in forged(&packet) {
                _ = through.send_to(&forged, to).await;
                _ = beside.send_to(&forged, to).await;
            }
            _ = through.send_to(&packet, to).await;
        }
    });
    address
}

#[tokio::test]
async fn resets_without_a_token_and_packets_of_others_end_nothing() {
    let (trust, drain) = (Trust::new(), Drain::new());
    let (server, address) = trust.serve();
    spawn_echo(server, &drain);
    let path = forging_path(address).await;
    let client = Endpoint::client(path).unwrap();
    let near = patiently(client.connect(path, NAME, &trust.client))
        .await
        .unwrap();
    for _ in 0..50 {
        assert_eq!(
            patiently(ask(&near, "still here")).await.unwrap(),
            b"still here"
        );
    }
}
