use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;

use hermes_net::quic::{ConnectionError, Endpoint, ServerOptions};
use hermes_net::{Drain, listen};

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
