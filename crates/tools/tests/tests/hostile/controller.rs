//! Strangers at a controller's port: they hold its handshakes against no device that joins.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hermes_tests::overlay::Hub;
use socket2::{Domain, Socket, Type};

/// More than one source may hold, and more than handshakes were done at once before there was such a bound.
const MANY: usize = 300;

/// The source of the strangers: devices come from another one.
const ELSEWHERE: &str = "127.66.0.1";

/// The alert `user_canceled` of TLS, before any handshake.
const LATER: [u8; 7] = [21, 3, 3, 0, 2, 2, 90];

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

/// Connections that one source makes at once: more than wait for their turn.
const CROWD: usize = 4400;

#[test]
fn a_crowd_of_one_source_is_told_to_come_later_and_a_device_of_another_one_joins() {
    let hub = Hub::start();
    let address: SocketAddr = hub.url().strip_prefix("https://").unwrap().parse().unwrap();
    let began = Instant::now();
    let mut crowd: Vec<_> = (0..CROWD).map(|_| connected(address)).collect();
    println!("{CROWD} connections after {:?}", began.elapsed());
    let _device = hub.device("alice", "laptop");

    println!("a device has joined after {:?}", began.elapsed());
    // The last ones found no place in the line, or have waited in vain.
    let mut last = crowd.pop().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut said = Vec::new();
    last.read_to_end(&mut said).unwrap();
    assert_eq!(said, LATER);
    drop(crowd);
    let _device = hub.device("bob", "desk");
}
