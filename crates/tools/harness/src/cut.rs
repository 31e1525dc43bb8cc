//! A path that ends a connection after so many bytes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Bytes that one connection may carry each way.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// From the client.
    pub up: usize,
    /// To the client.
    pub down: usize,
}

/// Forwards one connection to this address, and ends it once a byte more than allowed would pass. Where it is entered.
///
/// # Panics
/// When the system has no port for it.
pub fn one_connection(next: SocketAddr, allowance: Allowance) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (client, _) = listener.accept()?;
        let server = TcpStream::connect(next)?;
        let up = (client.try_clone()?, server.try_clone()?);
        let upwards = thread::spawn(move || forward(up.0, up.1, allowance.up));
        forward(server, client, allowance.down);
        drop(upwards.join());
        std::io::Result::Ok(())
    });
    address
}

/// Copies until the end or the allowance is reached; then both are over in both directions.
fn forward(mut from: TcpStream, mut to: TcpStream, mut allowance: usize) {
    let mut room = [0; 4096];
    while allowance > 0 {
        let piece = room.len().min(allowance);
        let Ok(count @ 1..) = from.read(&mut room[..piece]) else {
            break;
        };
        if to.write_all(&room[..count]).is_err() {
            break;
        }
        allowance -= count;
    }
    // One of them may be over already.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
