//! Nodes in this process with functions, and clients of them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hermes_config::{Loaded, parse};
use hermes_node::change::ReloadReport;
use hermes_node::{LogFilter, Proxy};
use hermes_plug::Plugs;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

/// A node and its folder.
pub struct Node {
    proxy: Proxy,
    folder: TempDir,
    name: String,
}

impl Node {
    /// Starts a node. Nodes of one name take each other for a loop.
    pub fn start(name: &str, yaml: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let loaded = document(name, yaml, folder.path());
        let file = folder.path().join("node.yaml");
        let plugs = hermes_functions::register(Plugs::new());
        let proxy = Proxy::start(loaded, file, Box::new(Silent), Vec::new(), plugs).unwrap();
        let name = name.to_owned();
        Self {
            proxy,
            folder,
            name,
        }
    }

    /// Has another configuration in force; says what became of open tunnels.
    pub fn apply(&self, yaml: &str) -> ReloadReport {
        let loaded = document(&self.name, yaml, self.folder.path());
        self.proxy.handle().apply(loaded, None).unwrap()
    }

    /// The address of its listener.
    pub fn address(&self) -> SocketAddr {
        self.proxy.listeners()[0].address.parse().unwrap()
    }

    /// Asks for a tunnel; gives the stream, and the head of the answer.
    pub async fn tunnel(&self, target: SocketAddr) -> (TcpStream, String) {
        self.ask(&format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
        ))
        .await
    }

    /// Sends a request on a new connection; gives the stream, and the head of the answer.
    pub async fn ask(&self, request: &str) -> (TcpStream, String) {
        let mut client = TcpStream::connect(self.address()).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        let head = head(&mut client).await;
        (client, head)
    }

    /// Ends it at once.
    pub async fn end(mut self) {
        self.proxy.drain(Duration::ZERO).await;
    }
}

/// Mistakes in a document, for a program with functions.
pub fn mistakes(yaml: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let loaded = document("n", yaml, folder.path());
    let plugs = hermes_functions::register(Plugs::new());
    let problems = hermes_node::check_with(loaded, &plugs).err();
    let problems = problems.into_iter().flat_map(|problems| problems.0);
    problems
        .map(|problem| format!("{}: {}", problem.path, problem.reason))
        .collect()
}

fn document(name: &str, yaml: &str, folder: &Path) -> Loaded {
    let socket = folder.join("admin.sock");
    let socket = socket.display();
    let text = format!(
        "version: 1\nnode: {name}\nworkers: 1\nlog: {{ access: off }}\nadmin: {{ socket: {socket} }}\n{yaml}"
    );
    parse(&folder.join("node.yaml"), &text, &|_| None).unwrap()
}

/// Nothing is logged.
struct Silent;

impl LogFilter for Silent {
    fn current(&self) -> String {
        "off".to_owned()
    }

    fn change(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// The head of an answer.
pub async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(Duration::from_secs(20), stream.read_u8()).await;
        match byte.expect("an answer, or an end") {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

/// A server that sends back what it gets.
pub async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
    address
}

/// The same for datagrams.
pub async fn echo_datagrams() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut datagram = [0; 2048];
        while let Ok((length, from)) = socket.recv_from(&mut datagram).await {
            let _ = socket.send_to(&datagram[..length], from).await;
        }
    });
    address
}

/// Reads so many bytes, or those before the end.
pub async fn bytes(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut read = Vec::new();
    let mut part = stream.take(length as u64);
    let wanted = part.read_to_end(&mut read);
    let read_in_time = tokio::time::timeout(Duration::from_secs(20), wanted).await;
    // A reset is an end, too.
    let _ = read_in_time.expect("an answer, or an end");
    read
}
