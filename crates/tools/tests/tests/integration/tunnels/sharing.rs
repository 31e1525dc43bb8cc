//! Tunnels that share a link do not wait for each other.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins;

use crate::tunnels::overlay::Overlay;
use crate::tunnels::pipe::{Pipe, WAYS};

/// Tunnels whose clients do not read: more than fit in one HTTP/2 connection window of usual size.
const STALLED: usize = 24;

/// Times in a row that nothing may have moved before the tunnels count as stalled.
const SETTLED: usize = 5;

#[test]
fn readers_that_stall_do_not_stall_another_tunnel_on_the_same_link() {
    let flood = flood();
    let echo = origins::tcp_echo();
    for links in [&[2][..], &[2, 2]] {
        let overlay = Overlay::start(links);
        let stalled: Vec<TcpStream> = (0..STALLED)
            .map(|_| stalled(overlay.address(), flood))
            .collect();
        let (mut before, mut settled) = (0, 0);
        eventually_true("the tunnels are stalled", || {
            let moved = moved(&overlay);
            settled = if moved == before && moved > 0 {
                settled + 1
            } else {
                0
            };
            before = moved;
            settled == SETTLED
        });
        for way in WAYS {
            let mut pipe = Pipe::to(way, overlay.address(), echo.address());
            pipe.send([7; 100_000]);
            pipe.finish();
            assert_eq!(pipe.rest().0.len(), 100_000);
        }
        drop(stalled);
        overlay.idle();
    }
}

/// Bytes that all live exchanges of the last node have moved.
fn moved(overlay: &Overlay) -> u64 {
    overlay
        .end()
        .exchanges()
        .iter()
        .filter_map(|exchange| exchange["target_to_client"].as_u64())
        .sum()
}

/// A tunnel whose client reads nothing, and has little room for it.
fn stalled(proxy: SocketAddr, target: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&proxy.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream
        .write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes())
        .unwrap();
    stream
}

/// A server that sends to everybody, more than anybody has room for.
fn flood() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            // Until the client goes.
            thread::spawn(move || while stream.write_all(&[1; 65_536]).is_ok() {});
        }
    });
    address
}
