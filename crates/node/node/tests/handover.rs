//! A node gives its sockets to a successor while connections are open and new ones come.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hermes_config::parse;
use hermes_net::handover;
use hermes_node::{LogFilter, PassedSockets, Proxy};
use hermes_plug::Plugs;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Requests that the successor is to have answered.
const REQUESTS: usize = 50;

struct Silent;

impl LogFilter for Silent {
    fn current(&self) -> String {
        "off".to_owned()
    }

    fn change(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// A node that answers requests with `status`, carries tunnels, and has a `udp` listener for `echo`.
struct Node {
    proxy: Proxy,
    _folder: TempDir,
}

impl Node {
    fn start(status: u16, echo: SocketAddr, passed: impl Into<PassedSockets>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("admin.sock");
        let text = format!(
            "version: 1\nnode: edge\nworkers: 2\nlog: {{ access: off }}\nadmin: {{ socket: {}, metrics: 127.0.0.1:0 }}\n\
             egress: {{ allow: [127.0.0.0/8] }}\n\
             listeners:\n  web: {{ http: 127.0.0.1:0 }}\n  rtp: {{ udp: 127.0.0.1:0, target: \"{echo}\" }}\n\
             routes: [{{ match: {{ kind: http }}, respond: {{ status: {status} }} }}, {{ terminate: true }}]\n",
            socket.display()
        );
        let file = folder.path().join("node.yaml");
        let loaded = parse(&file, &text, &|_| None).unwrap();
        let proxy = Proxy::start(loaded, file, Box::new(Silent), passed, Plugs::new()).unwrap();
        Self {
            proxy,
            _folder: folder,
        }
    }

    fn address(&self, listener: &str) -> SocketAddr {
        let listeners = self.proxy.listeners();
        let found = listeners.iter().find(|view| view.name == listener);
        found.unwrap().address.parse().unwrap()
    }
}

fn with_successor() -> PassedSockets {
    PassedSockets::default().with_successor().unwrap()
}

fn pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// Servers that send back what they get, of TCP and of UDP.
async fn echoes() -> (SocketAddr, SocketAddr) {
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let addresses = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = tcp.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    tokio::spawn(async move {
        let mut room = [0; 64];
        while let Ok((length, client)) = udp.recv_from(&mut room).await {
            udp.send_to(&room[..length], client).await.unwrap();
        }
    });
    addresses
}

/// The head of the next response.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = stream.read_u8().await;
        head.push(byte.unwrap_or_else(|error| panic!("{error} after {head:?}")));
    }
    String::from_utf8(head).unwrap()
}

async fn says_back(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).await.unwrap();
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(back, text);
}

/// A datagram, and its echo.
async fn returns(client: &UdpSocket, datagram: &[u8]) {
    client.send(datagram).await.unwrap();
    let mut room = [0; 64];
    let received = tokio::time::timeout(LONG, client.recv(&mut room)).await;
    let length = received.expect("an echo").unwrap();
    assert_eq!(&room[..length], datagram);
}

async fn client_of(address: SocketAddr) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(address).await.unwrap();
    client
}

/// Answers by their status: of the first node, of its successor, and none.
#[derive(Default)]
struct Answers {
    first: AtomicUsize,
    second: AtomicUsize,
    none: AtomicUsize,
    end: AtomicBool,
}

/// Asks on one new connection after another.
async fn ask(address: SocketAddr, answers: Arc<Answers>) {
    while !answers.end.load(Ordering::Relaxed) {
        let answered = async {
            let mut stream = TcpStream::connect(address).await?;
            let question =
                b"GET http://VIDEO/ HTTP/1.1\r\nHost: VIDEO\r\nConnection: close\r\n\r\n";
            stream.write_all(question).await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let count = match answered.await {
            Ok(answer) if answer.starts_with("HTTP/1.1 204") => &answers.first,
            Ok(answer) if answer.starts_with("HTTP/1.1 205") => &answers.second,
            _ => &answers.none,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

async fn until(count: &AtomicUsize, least: usize) {
    let reached = async {
        while count.load(Ordering::Relaxed) < least {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, reached).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_client_is_turned_away_while_a_successor_takes_the_sockets() {
    let (tcp, udp) = echoes().await;
    let mut first = Node::start(204, udp, with_successor());
    let (web, rtp) = (first.address("web"), first.address("rtp"));

    let mut tunnel = TcpStream::connect(web).await.unwrap();
    let connect = format!("CONNECT {tcp} HTTP/1.1\r\nHost: {tcp}\r\n\r\n");
    tunnel.write_all(connect.as_bytes()).await.unwrap();
    assert!(head(&mut tunnel).await.starts_with("HTTP/1.1 200"));
    says_back(&mut tunnel, b"before").await;
    let session = client_of(rtp).await;
    returns(&session, b"before").await;

    let answers = Arc::new(Answers::default());
    let asking = tokio::spawn(ask(web, answers.clone()));
    until(&answers.first, 1).await;

    let (one, other) = pair();
    let given = first.proxy.handle().give_sockets(&one).unwrap();
    let passed = handover::receive(&other).unwrap();
    let names: Vec<_> = passed.iter().filter_map(|one| one.name.clone()).collect();
    assert_eq!(given, names.len());
    let parts = ["web", "web", "rtp", "rtp", "admin.metrics", "admin.socket"];
    assert_eq!(names, parts, "two workers, two listeners");
    let second = Node::start(205, udp, passed);
    assert_eq!((second.address("web"), second.address("rtp")), (web, rtp));

    let meanwhile = async {
        until(&answers.second, REQUESTS).await;
        for turn in 0..10_u8 {
            returns(&session, &[turn]).await;
            returns(&client_of(rtp).await, &[turn]).await;
            says_back(&mut tunnel, b"meanwhile").await;
        }
        drop((tunnel, session));
    };
    tokio::join!(first.proxy.drain(LONG), meanwhile);

    let so_far = answers.second.load(Ordering::Relaxed);
    until(&answers.second, so_far + REQUESTS).await;
    answers.end.store(true, Ordering::Relaxed);
    asking.await.unwrap();
    assert_eq!(answers.none.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_node_that_has_no_successor_gives_nothing() {
    let (_, udp) = echoes().await;
    let node = Node::start(204, udp, PassedSockets::default());
    let (one, _other) = pair();
    let error = node.proxy.handle().give_sockets(&one).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
}
