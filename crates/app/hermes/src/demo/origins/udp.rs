//! A server that sends every datagram back.

use tokio::net::UdpSocket;

/// Serves until the socket fails.
pub async fn serve(socket: UdpSocket) {
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        match socket.recv_from(&mut buffer).await {
            // A datagram that cannot be sent back is lost, as datagrams are.
            Ok((length, from)) => drop(socket.send_to(&buffer[..length], from).await),
            // Someone's port was closed before our answer came (ICMP); the others go on.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            Err(_) => return,
        }
    }
}
