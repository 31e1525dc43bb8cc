//! Strangers at a controller's port: they hold its handshakes against no device that joins.

use std::net::{IpAddr, SocketAddr, TcpStream};

use hermes_tests::overlay::Hub;
use socket2::{Domain, Socket, Type};

/// More than one source may hold, and more than handshakes were done at once before there was such a bound.
const MANY: usize = 300;

/// The source of the strangers: devices come from another one.
const ELSEWHERE: &str = "127.66.0.1";

fn connected(to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from: IpAddr = ELSEWHERE.parse().unwrap();
    socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.into()
}

#[test]
fn connections_that_say_nothing_keep_no_device_from_joining() {
    let hub = Hub::start();
    let address: SocketAddr = hub.url().strip_prefix("https://").unwrap().parse().unwrap();
    let _silent: Vec<_> = (0..MANY).map(|_| connected(address)).collect();
    let _device = hub.device("alice", "laptop");
}
