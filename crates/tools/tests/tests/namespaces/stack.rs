//! The stack in user space behind a TUN device: the kernel's own TCP, UDP and ping speak to it.

use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use hermes_lab::topology::Topology;
use hermes_net::tun::{HEADER_BYTES, TunDevice, TunPort, TunSettings};
use hermes_stack::{Checksums, FlowId, Received, Stack, StackEvent, StackSettings};
use tokio::sync::oneshot;
use tokio::time::sleep_until;

use super::within;

/// The MTU of the device.
const MTU: u32 = 1400;

/// No one is served at this port.
const CLOSED: u16 = 81;

/// Bytes that go there and back on a connection.
const BULK: usize = 1 << 20;

/// How long a client waits.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends back what connections and datagrams bring.
struct Echo {
    stack: Stack,
    /// What waits for room on a connection.
    waiting: HashMap<FlowId, Vec<u8>>,
}

impl Echo {
    fn new() -> Self {
        let settings = StackSettings {
            mtu: MTU as usize,
            ..StackSettings::default()
        };
        Self {
            stack: Stack::new(settings, Instant::now()),
            waiting: HashMap::new(),
        }
    }

    fn handle(&mut self, event: StackEvent, now: Instant) {
        match event {
            StackEvent::TcpAsked { flow, target, .. } if target.port() == CLOSED => {
                self.stack
                    .refuse(flow, hermes_stack::FlowRefusal::Reset, now);
            }
            StackEvent::TcpAsked { flow, .. } => self.stack.accept(flow, 64 << 10, 7, now),
            StackEvent::Datagram { flow, payload } => {
                assert!(self.stack.send_datagram(flow, &payload, now));
            }
            StackEvent::Progress { flow } => self.echo(flow, now),
            _ => {}
        }
    }

    fn echo(&mut self, flow: FlowId, now: Instant) {
        let mut room = [0; 16 * 1024];
        loop {
            let waiting = self.waiting.entry(flow).or_default();
            let sent = self.stack.send(flow, waiting, now);
            waiting.drain(..sent);
            if !waiting.is_empty() {
                return;
            }

            match self.stack.receive(flow, &mut room, now) {
                Received::Bytes(length) => waiting.extend_from_slice(&room[..length]),
                Received::Nothing => return,
                Received::End => return self.stack.finish(flow, now),
                Received::Broken => return self.stack.release(flow, now),
            }
        }
    }

    /// Serves what comes out of the device until the clients are done.
    async fn serve(&mut self, port: &TunPort, mut done: oneshot::Receiver<()>) {
        let mut room = vec![0; HEADER_BYTES + 65_536];
        loop {
            let now = Instant::now();
            while let Some(event) = self.stack.poll_event() {
                self.handle(event, now);
            }
            while let Some(packet) = self.stack.poll_transmit() {
                port.write(&[0; HEADER_BYTES], &packet).unwrap();
            }

            let due = self.stack.poll_timeout();
            let timer = async {
                match due {
                    Some(due) => sleep_until(due.into()).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                read = poll_fn(|cx| port.poll_read(cx, &mut room)) => {
                    let length = read.unwrap();
                    let (header, packet) = room[..length].split_at(HEADER_BYTES);
                    let checksums = match header[0] & 1 {
                        0 => Checksums::Verify,
                        _ => Checksums::Trusted,
                    };
                    self.stack.handle_packet(packet, checksums, Instant::now());
                }
                () = timer => self.stack.handle_timeout(Instant::now()),
                _ = &mut done => return,
            }
        }
    }
}

/// Runs clients in the network of `alice`, whose device leads to an echo; what is known of the echo after that.
fn with_echo(clients: impl FnOnce(&Topology) + Send) -> Echo {
    let mut topology = Topology::new();
    topology.add("alice").unwrap();
    let settings = TunSettings {
        name: "hermes0".to_owned(),
        queues: 1,
        mtu: MTU,
        addresses: vec![
            "10.7.0.2/24".parse().unwrap(),
            "fd00:7::2/64".parse().unwrap(),
        ],
        routes: vec![
            "10.8.0.0/16".parse().unwrap(),
            "fd00:8::/32".parse().unwrap(),
        ],
        past: None,
        masquerade: false,
    };
    let (_device, mut queues) = within(&topology, "alice", || TunDevice::open(&settings).unwrap());

    let (tell, done) = oneshot::channel();
    let mut echo = Echo::new();
    std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            within(&topology, "alice", || clients(&topology));
            // It has ended already where it failed.
            let _ = tell.send(());
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let port = queues.remove(0).register().unwrap();
            echo.serve(&port, done).await;
        });
        clients.join().unwrap();
    });
    echo
}

fn goes_and_comes_back(target: &str) {
    let mut stream = TcpStream::connect(target).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let sent: Vec<u8> = (0..BULK).map(|number| (number / 7) as u8).collect();
    let mut writer = stream.try_clone().unwrap();

    let came = std::thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(&sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        came
    });
    assert!(came == sent, "{target}: {} bytes of {BULK}", came.len());
}

#[test]
fn the_kernels_connections_end_in_user_space() {
    let echo = with_echo(|_| {
        goes_and_comes_back("10.8.0.1:80");
        goes_and_comes_back("[fd00:8::1]:80");
        let refused = TcpStream::connect(("10.8.0.1", CLOSED)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
    assert_eq!(echo.stack.counts().damaged, 0);
}

#[test]
fn the_kernels_datagrams_and_pings_are_answered_in_user_space() {
    with_echo(|topology| {
        for (own, target) in [
            ("10.7.0.2:0", "10.8.0.1:53"),
            ("[fd00:7::2]:0", "[fd00:8::1]:53"),
        ] {
            let socket = UdpSocket::bind(own).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket.send_to(b"hello", target).unwrap();
            let mut room = [0; 16];
            let (length, from) = socket.recv_from(&mut room).unwrap();
            assert_eq!(
                (&room[..length], from.to_string().as_str()),
                (&b"hello"[..], target)
            );
        }

        let alice = topology.namespace("alice").unwrap();
        for host in ["10.8.0.1", "fd00:8::1"] {
            alice
                .run(&["ping", "-n", "-c", "2", "-i", "0.2", "-W", "5", host])
                .unwrap();
        }
    });
}
