//! A UDP server that sends every datagram back.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::UdpSocket;

use super::{Memory, Origin};
use crate::runtime;

/// IPv4 loopback.
pub const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// IPv6 loopback.
pub const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// A server on this loopback address. It remembers the datagrams, with where they came from.
pub fn udp_echo(on: IpAddr) -> Origin<(SocketAddr, Vec<u8>)> {
    let socket = runtime::block_on(UdpSocket::bind((on, 0))).unwrap();
    let address = socket.local_addr().unwrap();
    let memory = Memory::default();
    let shared = memory.clone();

    let task = runtime::handle().spawn(async move {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            // Someone's port was closed before our answer came (ICMP); the others go on.
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
                continue;
            };
            shared.remember((from, buffer[..length].to_vec()));
            // A datagram that cannot be sent back is lost, as datagrams are.
            drop(socket.send_to(&buffer[..length], from).await);
        }
    });

    Origin {
        address,
        memory,
        task: task.abort_handle(),
    }
}
