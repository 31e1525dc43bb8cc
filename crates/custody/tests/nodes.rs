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
use hermes_custody::{Custody, NamedNeighbour, NodeKey, Settings};
use hermes_proxy::Proxy;
use hermes_proxy::node::LogFilter;
use hermes_proxy::plug::{CUSTODY, Plugs};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// Nodes in a row, each of which knows the one before and the one behind it.
struct Row {
    nodes: Vec<Proxy>,
    _folder: TempDir,
    entry: SocketAddr,
}

impl Row {
    /// A client's node, one in the middle, and the origin's; what lies before the last one drops datagrams as `lossy` says.
    async fn start(origin: SocketAddr, lossy: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<_> = (0..3).map(|_| NodeKey::generate().unwrap()).collect();
        let mut nodes = Vec::new();
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
            let loaded = document(index, &neighbours, origin, &folder);
            let custody = Custody::new(Settings {
                key: keys[index].clone(),
                keep_for: Some(Duration::from_secs(60)),
                neighbours,
            });
            if index == 0 {
                let driven = custody.clone();
                // As that of a node without a listener, which reaches IPv4, too.
                let socket = std::net::UdpSocket::bind("[::]:0").unwrap();
                tokio::spawn(async move { driven.drive(socket, |_, _| {}).await });
            }
            let plugs = Plugs::new()
                .handler(CUSTODY, custody.clone())
                .ingress(CUSTODY, custody);
            let file = folder.path().join(format!("{index}.yaml"));
            let proxy = Proxy::start(loaded, file, Box::new(Silent), Vec::new(), plugs).unwrap();
            let address = proxy.listeners()[0].address.parse().unwrap();
            next = Some(if lossy { lose(address).await } else { address });
            nodes.push(proxy);
        }

        let entry = nodes[2].listeners()[0].address.parse().unwrap();
        Self {
            nodes,
            _folder: folder,
            entry,
        }
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
    index: usize,
    neighbours: &[NamedNeighbour],
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
        known += &format!("      {}: {{ key: \"{key}\"{address} }}\n", neighbour.name);
    }
    let listener = if index == 0 {
        "http: 127.0.0.1:0"
    } else {
        "udp: 127.0.0.1:0, ingress: custody"
    };
    let route = if index == 2 {
        format!("terminate: \"{origin}\"")
    } else {
        "to: next, retry: { custody: true }".to_owned()
    };
    let text = format!(
        "version: 1\nnode: n{index}\nworkers: 2\nlog: {{ access: off }}\nadmin: {{ socket: {socket} }}\n\
         defaults:\n  custody:\n    key_file: k\n    neighbours:\n{known}\
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
