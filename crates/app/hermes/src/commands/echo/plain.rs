//! Servers of bytes and of datagrams that echo.

use std::net::SocketAddr;

use tokio::io::{AsyncWriteExt, copy};
use tokio::net::{TcpStream, UdpSocket};

use crate::output::Output;

/// Serves one connection, until the client has said all.
pub async fn stream(mut stream: TcpStream, from: SocketAddr, output: Output) {
    output.line(format_args!("{from} TCP"));
    let (mut reader, mut writer) = stream.split();
    // A client that breaks off wants nothing back.
    if let Ok(count) = copy(&mut reader, &mut writer).await {
        drop(writer.shutdown().await);
        output.line(format_args!("{from} TCP ended, {count} bytes"));
    }
}

/// Serves until the socket fails.
pub async fn datagrams(socket: UdpSocket, output: Output) {
    let mut buffer = vec![0; usize::from(u16::MAX)];
    let mut last = None;
    loop {
        match socket.recv_from(&mut buffer).await {
            Ok((length, from)) => {
                // A line for each datagram would be too many.
                if last.replace(from) != Some(from) {
                    output.line(format_args!("{from} UDP, {length} bytes"));
                }
                // One that cannot be sent back is lost, as datagrams are.
                drop(socket.send_to(&buffer[..length], from).await);
            }
            // Someone's port was closed before our answer came (ICMP); the others go on.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            Err(_) => return,
        }
    }
}
