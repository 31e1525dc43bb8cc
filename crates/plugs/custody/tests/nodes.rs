//! Whole nodes in this process, in a row: a client's requests pass from one to the next in custody.

#![expect(
    clippy::unwrap_used,
    reason = "the functions around the tests are tests, too"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermes_config::{Loaded, parse};
use hermes_custody::{Custody, NamedNeighbour, PrivateKey, Settings};
use hermes_node::LogFilter;
use hermes_node::Proxy;
use hermes_plug::Plugs;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::oneshot;

/// Nodes in a row, each of which knows the one before and the one behind it.
struct Row {
    nodes: Vec<Proxy>,
    /// Whom each of them knows.
    neighbours: Vec<Vec<NamedNeighbour>>,
    folder: TempDir,
    origin: SocketAddr,
    entry: SocketAddr,
}

impl Row {
    /// A client's node, one in the middle, and the origin's; what lies before the last one drops datagrams as `lossy` says.
    async fn start(origin: SocketAddr, lossy: bool) -> Self {
        Self::answering(origin, lossy, "").await
    }

    /// One whose routes have this setting, too.
    async fn answering(origin: SocketAddr, lossy: bool, tunnel: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<_> = (0..3).map(|_| PrivateKey::generate().unwrap()).collect();
        let mut nodes = Vec::new();
        let mut all = Vec::new();
        let mut next = None;
        for index in (0..3).rev() {
            let behind = keys.get(index + 1).map(|key| NamedNeighbour {
                name: "next".to_owned(),
                key: key.public(),
                address: next,
            });
            let before = (index > 0).then(|| NamedNeighbour {
                name: "before".to_owned(),
                key: keys[index - 1].public(),
                address: None,
            });
            let neighbours: Vec<_> = behind.into_iter().chain(before).collect();
            let loaded = document((index, &neighbours), ("", tunnel), origin, &folder);
            all.push(neighbours.clone());
            let custody = Custody::new(Settings {
                key: keys[index].clone(),
                keep_for: Some(Duration::from_secs(60)),
                neighbours,
                disk: None,
            });
            if index == 0 {
                let driven = custody.clone();
                // As that of a node without a listener, which reaches IPv4, too.
                let socket = std::net::UdpSocket::bind("[::]:0").unwrap();
                tokio::spawn(async move { driven.drive(socket, |_, _| {}).await });
            }
            let started = loaded.document.defaults.custody.as_ref();
            let plugs = hermes_custody::register(Plugs::new(), Some(custody), started);
            let file = folder.path().join(format!("{index}.yaml"));
            let proxy = Proxy::start(loaded, file, Box::new(Silent), Vec::new(), plugs).unwrap();
            let address = proxy.listeners()[0].address.parse().unwrap();
            next = Some(if lossy { lose(address).await } else { address });
            nodes.push(proxy);
        }

        let entry = nodes[2].listeners()[0].address.parse().unwrap();
        Self {
            nodes,
            neighbours: all,
            folder,
            origin,
            entry,
        }
    }

    /// Puts the document of a node in force again, with these neighbours and this setting.
    fn reload(&self, index: usize, neighbours: &[NamedNeighbour], setting: &str) {
        let loaded = document(
            (index, neighbours),
            (setting, ""),
            self.origin,
            &self.folder,
        );
        let report = self.nodes[2 - index].handle().apply(loaded, None).unwrap();
        assert!(report.needs_restart.is_empty(), "{report:?}");
    }

    async fn ask(&self, request: &str, content: &[u8]) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.entry).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.write_all(content).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let content = answer.split_off(end.unwrap() + 4);
        (String::from_utf8(answer).unwrap(), content)
    }

    async fn end(mut self) {
        for node in &mut self.nodes {
            node.drain(Duration::from_secs(5)).await;
        }
    }
}

fn document(
    (index, neighbours): (usize, &[NamedNeighbour]),
    (setting, tunnel): (&str, &str),
    origin: SocketAddr,
    folder: &TempDir,
) -> Loaded {
    let folder = folder.path();
    let socket = folder.join(format!("{index}.sock"));
    let socket = socket.display();
    let mut known = String::new();
    for neighbour in neighbours {
        let address = neighbour.address;
        let address = address.map_or(String::new(), |address| format!(", address: \"{address}\""));
        let key = &neighbour.key;
        known += &format!("\n      {}: {{ key: \"{key}\"{address} }}", neighbour.name);
    }
    if known.is_empty() {
        known = " {}".to_owned();
    }
    let listener = if index == 0 {
        "http: 127.0.0.1:0"
    } else {
        "udp: 127.0.0.1:0, ingress: custody"
    };
    let route = if index == 2 {
        format!("terminate: \"{origin}\"")
    } else {
        format!("to: next, retry: {{ custody: true }}{tunnel}")
    };
    let text = format!(
        "version: 1\nnode: n{index}\nworkers: 2\nlog: {{ access: off }}\nadmin: {{ socket: {socket} }}\n\
         defaults:\n  custody:\n    key_file: k\n{setting}    neighbours:{known}\n\
         listeners: {{ in: {{ {listener} }} }}\nroutes: [{{ {route} }}]\n\
         upstreams: {{ next: {{ endpoints: [\"127.0.0.1:9\"] }} }}\n"
    );
    parse(&folder.join("node.yaml"), &text, &|_| None).unwrap()
}

/// A path to this address that loses a tenth of the datagrams, in each direction.
async fn lose(to: SocketAddr) -> SocketAddr {
    let near = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = near.local_addr().unwrap();
    tokio::spawn(async move {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut client = None;
        let mut one = vec![0; 2048];
        let mut other = vec![0; 2048];
        loop {
            tokio::select! {
                Ok((length, from)) = near.recv_from(&mut one) => {
                    client = Some(from);
                    if rng.u8(..10) > 0 {
                        let _ = far.send_to(&one[..length], to).await;
                    }
                }
                Ok((length, _)) = far.recv_from(&mut other) => {
                    if let Some(client) = client && rng.u8(..10) > 0 {
                        let _ = near.send_to(&other[..length], client).await;
                    }
                }
            }
        }
    });
    address
}

/// Bytes that tell where they stand.
fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

/// Answers a GET for `/N` with N bytes, and a POST with what came. How many it has answered is counted.
async fn origin(answered: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(answer(stream, answered.clone()));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, answered: Arc<AtomicUsize>) {
    let mut heard = Vec::new();
    loop {
        let end = heard.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let rest = heard.split_off(end + 4);
            let head = String::from_utf8(std::mem::replace(&mut heard, rest)).unwrap();
            let length = head.to_ascii_lowercase();
            let length = length.split("content-length: ").nth(1);
            let length: usize = length.map_or(0, |rest| {
                rest.split("\r\n").next().unwrap().parse().unwrap()
            });
            while heard.len() < length {
                if stream.read_buf(&mut heard).await.unwrap() == 0 {
                    return;
                }
            }
            let body: Vec<u8> = heard.drain(..length).collect();
            answered.fetch_add(1, Ordering::SeqCst);
            let path = head.split(' ').nth(1).unwrap();
            let body = match path.trim_start_matches('/').parse() {
                Ok(count) => content(count),
                Err(_) => body,
            };
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let via = lines.filter(|(name, _)| name.eq_ignore_ascii_case("via"));
            let via: Vec<_> = via.map(|(_, value)| value).collect();
            let via = via.join(", ");
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Saw: {via}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            if !heard.starts_with(b"HEAD") {
                stream.write_all(&body).await.unwrap();
            }
            continue;
        }
        if stream.read_buf(&mut heard).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

struct Silent;

impl LogFilter for Silent {
    fn current(&self) -> String {
        "off".to_owned()
    }

    fn change(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test]
async fn downloads_pass_whole_with_their_heads() {
    let answered = Arc::default();
    let row = Row::start(origin(Arc::clone(&answered)).await, false).await;
    for length in [0, 1, 1000, 70_000, 3_000_000] {
        let request = format!(
            "GET http://files/{length} HTTP/1.1\r\nHost: files\r\nConnection: close\r\n\r\n"
        );
        let (head, body) = row.ask(&request, b"").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let fields = head.to_ascii_lowercase();
        assert!(
            fields.contains(&format!("content-length: {length}\r\n")),
            "{head}"
        );
        assert!(fields.contains("x-saw: 1.1 n0, 1.1 n1, 1.1 n2"), "{head}");
        let back = ["via: 1.1 n2", "1.1 n1", "1.1 n0"];
        assert!(back.iter().all(|by| fields.contains(by)), "{head}");
        assert!(body == content(length), "{length} bytes");
    }
    assert_eq!(answered.load(Ordering::SeqCst), 5);
    row.end().await;
}

#[tokio::test]
async fn uploads_pass_whole_over_paths_that_lose_datagrams() {
    let answered = Arc::default();
    let row = Row::start(origin(Arc::clone(&answered)).await, true).await;
    let body = content(400_000);
    let request = format!(
        "POST http://files/upload HTTP/1.1\r\nHost: files\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let (head, echoed) = row.ask(&request, &body).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(echoed == body);
    assert_eq!(answered.load(Ordering::SeqCst), 1);
    row.end().await;
}

#[tokio::test]
async fn refusals_of_the_nodes_behind_reach_the_client() {
    // No one listens there.
    let row = Row::start("127.0.0.1:9".parse().unwrap(), false).await;
    let request = "GET http://files/1 HTTP/1.1\r\nHost: files\r\nConnection: close\r\n\r\n";
    let (head, _) = row.ask(request, b"").await;
    assert!(head.starts_with("HTTP/1.1 502"), "{head}");
    assert!(
        head.to_ascii_lowercase().contains("proxy-status: n2"),
        "{head}"
    );
    row.end().await;
}

#[tokio::test]
async fn a_reload_says_whom_a_node_knows_and_how_long_it_keeps() {
    let answered = Arc::default();
    let row = Row::start(origin(Arc::clone(&answered)).await, false).await;
    let request = "GET http://files/1 HTTP/1.1\r\nHost: files\r\nConnection: close\r\n\r\n";
    let status = async || {
        let (head, _) = row.ask(request, b"").await;
        head.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status().await, "200");

    // The origin's node does not know the one before it any more, and the client's gives up after a second.
    let known = &row.neighbours;
    row.reload(2, &[], "");
    row.reload(0, &known[2], "    keep_for: 1s\n");
    assert_eq!(status().await, "504");
    assert_eq!(answered.load(Ordering::SeqCst), 1);

    row.reload(2, &known[0], "");
    row.reload(0, &known[2], "");
    assert_eq!(status().await, "200");
    row.end().await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_exchange_everywhere() {
    let answered = Arc::default();
    let row = Row::start(origin(Arc::clone(&answered)).await, false).await;
    let mut stream = TcpStream::connect(row.entry).await.unwrap();
    let request = "GET http://files/50000000 HTTP/1.1\r\nHost: files\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut some = vec![0; 10_000];
    stream.read_exact(&mut some).await.unwrap();
    drop(stream);

    // The drain waits for what goes on: it ends only because nothing does.
    row.end().await;
}

/// Says back what it hears, after a word of its own, and ends when the client has.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                write.write_all(b"hello\n").await.unwrap();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
    address
}

/// Opens a tunnel, and returns it behind the answer.
async fn connect(row: &Row, first: &[u8]) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(row.entry).await.unwrap();
    let request = b"CONNECT files:443 HTTP/1.1\r\nHost: files:443\r\n\r\n";
    stream.write_all(&[request, first].concat()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    (stream, String::from_utf8(answer).unwrap())
}

#[tokio::test]
async fn tunnels_pass_both_ways_over_paths_that_lose_datagrams() {
    for tunnel in ["", ", tunnel: { answer: early }"] {
        let row = Row::answering(echo().await, true, tunnel).await;
        let (stream, answer) = connect(&row, b"first ").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

        let sent = content(2_000_000);
        let (mut read, mut write) = stream.into_split();
        let up = sent.clone();
        let writing = tokio::spawn(async move {
            write.write_all(&up).await.unwrap();
            write.shutdown().await.unwrap();
        });
        let mut heard = Vec::new();
        read.read_to_end(&mut heard).await.unwrap();
        writing.await.unwrap();
        let expected = [b"hello\nfirst ", &sent[..]].concat();
        assert!(heard == expected, "{} bytes", heard.len());
        row.end().await;
    }
}

/// Says a word and ends; then says what it has heard, when its client has ended.
async fn half_closing() -> (SocketAddr, oneshot::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (told, heard) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"hello\n").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        told.send(all).unwrap();
    });
    (address, heard)
}

#[tokio::test]
async fn a_target_that_has_ended_hears_its_client_to_the_end() {
    for tunnel in ["", ", tunnel: { answer: early }"] {
        let (target, heard) = half_closing().await;
        let row = Row::answering(target, true, tunnel).await;
        let (mut stream, answer) = connect(&row, b"").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let mut hello = Vec::new();
        stream.read_to_end(&mut hello).await.unwrap();
        assert_eq!(hello, b"hello\n");

        let sent = content(1_000_000);
        stream.write_all(&sent).await.unwrap();
        drop(stream);
        assert!(heard.await.unwrap() == sent);
        row.end().await;
    }
}

#[tokio::test]
async fn a_tunnel_that_cannot_be_opened_is_refused_or_reset() {
    let closed: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let row = Row::start(closed, false).await;
    let (_, answer) = connect(&row, b"").await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    row.end().await;

    let row = Row::answering(closed, false, ", tunnel: { answer: early }").await;
    let (mut stream, answer) = connect(&row, b"").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let error = stream.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    row.end().await;
}

#[tokio::test]
async fn a_tunnel_whose_client_goes_ends_everywhere() {
    let row = Row::start(echo().await, false).await;
    let (mut stream, _) = connect(&row, b"").await;
    let mut hello = [0; 6];
    stream.read_exact(&mut hello).await.unwrap();
    drop(stream);
    // The drain waits for what goes on.
    row.end().await;
}
