//! A tunnel of bytes that goes on by another path after a change of configuration, to the same far end.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_example_plugs::replay::{Acknowledged, Replaying};
use hermes_plug::Plugs;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::node::{Node, hear, say};

/// Bytes of each direction.
const ALL: usize = 1_000_000;

/// Where the far end stops to read on the first path, and to write there.
const PAUSE: usize = 200_000;

/// Bytes that the node keeps for it.
const WINDOW: usize = 256 * 1024;

/// The token of the only tunnel.
const TOKEN: &str = "t1";

/// Bytes that differ by their place and direction.
fn pattern(seed: usize) -> Vec<u8> {
    (0..ALL)
        .map(|at| (((at + seed) * 31) >> 3) as u8 ^ (at >> 11) as u8)
        .collect()
}

/// Where both paths end: one tunnel's far end, whose state outlives each of its connections.
struct Far {
    received: Mutex<Vec<u8>>,
    sent: Vec<u8>,
    progress: watch::Sender<usize>,
    acknowledged: Arc<Acknowledged>,
    /// Whether it gives out tokens.
    knows: bool,
    current: Mutex<Option<JoinHandle<()>>>,
}

impl Far {
    fn new(knows: bool) -> Arc<Self> {
        Arc::new(Self {
            received: Mutex::default(),
            sent: pattern(7),
            progress: watch::Sender::new(0),
            acknowledged: Arc::default(),
            knows,
            current: Mutex::default(),
        })
    }

    /// Waits on a port for the tunnel.
    async fn listen(self: &Arc<Self>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let far = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                far.clone().opened(stream).await;
            }
        });
        address
    }

    /// Answers the request for a tunnel, and carries that until another path takes its place.
    async fn opened(self: Arc<Self>, mut stream: TcpStream) {
        let head = hear(&mut stream, "\r\n\r\n").await;
        let is_new = head.contains("example-replay: ?1");
        assert!(is_new || head.contains(&format!("example-replay: {TOKEN}")));
        let token = match self.knows {
            true => format!("example-replay: {TOKEN}\r\n"),
            false => String::new(),
        };
        say(&mut stream, &format!("HTTP/1.1 200 OK\r\n{token}\r\n")).await;

        let mut from = 0;
        if !is_new {
            from = stream.read_u64().await.unwrap() as usize;
            // What is still on the old path is lost.
            let old = self.current.lock().take().unwrap();
            old.abort();
            let _ = old.await;
            let arrived = self.received.lock().len() as u64;
            stream.write_u64(arrived).await.unwrap();
        }
        let task = tokio::spawn(self.clone().carry(stream, from, is_new && self.knows));
        *self.current.lock() = Some(task);
    }

    /// Takes bytes, and sends what follows `from`; up to where the first path comes to nothing.
    async fn carry(self: Arc<Self>, stream: TcpStream, from: usize, pauses: bool) {
        let (mut read, mut write) = stream.into_split();
        let most = if pauses { PAUSE } else { ALL };
        let send = async {
            for piece in self.sent[from..most.max(from)].chunks(10_000) {
                write.write_all(piece).await.unwrap();
            }
        };
        let take = async {
            let mut buffer = vec![0; 10_000];
            while self.received.lock().len() < most {
                let length = read.read(&mut buffer).await.unwrap();
                assert!(length > 0, "the client's direction ended too soon");
                let received = {
                    let mut received = self.received.lock();
                    received.extend_from_slice(&buffer[..length]);
                    received.len()
                };
                self.acknowledged.tell(TOKEN, received as u64);
                self.progress.send_replace(received);
            }
            if pauses {
                return std::future::pending().await;
            }
            assert_eq!(read.read(&mut buffer).await.unwrap(), 0, "no byte twice");
        };
        tokio::join!(take, send);
        write.shutdown().await.unwrap();
    }
}

/// A document with both paths, and the tunnels on one of them.
fn document(a: SocketAddr, b: SocketAddr, to: &str) -> String {
    format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nupstreams:\n  \
         a: {{ endpoints: [\"{a}\"] }}\n  b: {{ endpoints: [\"{b}\"] }}\nroutes:\n  \
         - {{ match: {{ target: FAR }}, to: {to} }}\n"
    )
}

/// Opens the tunnel, and sends all of one direction while it reads the other to its end.
async fn client(node: &Node) -> JoinHandle<Vec<u8>> {
    let mut stream = node.connect().await;
    say(&mut stream, "CONNECT FAR:7 HTTP/1.1\r\nHost: FAR:7\r\n\r\n").await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200"));

    let (mut read, mut write) = stream.into_split();
    tokio::spawn(async move {
        let send = async {
            write.write_all(&pattern(0)).await.unwrap();
            write.shutdown().await.unwrap();
        };
        let mut came = Vec::new();
        let (_, read) = tokio::join!(send, read.read_to_end(&mut came));
        read.unwrap();
        came
    })
}

#[tokio::test]
async fn a_tunnel_of_bytes_goes_on_by_another_way_without_losing_or_repeating_a_byte() {
    let far = Far::new(true);
    let a = far.listen().await;
    let b = far.listen().await;
    let mover = Replaying::new(WINDOW, far.acknowledged.clone());
    let node = Node::start("mover", &document(a, b, "a"), Plugs::new().mover(mover));
    let came = client(&node).await;

    let mut progress = far.progress.subscribe();
    progress.wait_for(|bytes| *bytes >= PAUSE).await.unwrap();
    let tunnels = node.apply("mover", &document(a, b, "b")).tunnels;
    assert_eq!((tunnels.moved, tunnels.outlive), (1, 0));

    assert!(came.await.unwrap() == far.sent, "what the client has");
    assert!(
        *far.received.lock() == pattern(0),
        "what the far end has, of {} bytes",
        far.received.lock().len()
    );
    node.end().await;
}

#[tokio::test]
async fn a_tunnel_whose_far_end_does_not_know_how_stays_where_it_is() {
    let far = Far::new(false);
    let a = far.listen().await;
    let b = far.listen().await;
    let mover = Replaying::new(WINDOW, far.acknowledged.clone());
    let node = Node::start("stays", &document(a, b, "a"), Plugs::new().mover(mover));
    let came = client(&node).await;

    let tunnels = node.apply("stays", &document(a, b, "b")).tunnels;
    assert_eq!((tunnels.moved, tunnels.outlive), (0, 1));

    assert!(came.await.unwrap() == far.sent);
    assert!(*far.received.lock() == pattern(0));
    node.end().await;
}
