//! A node in this process with SOCKS, and clients of it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hermes_config::{Loaded, parse};
use hermes_node::change::ReloadReport;
use hermes_node::{LogFilter, Proxy};
use hermes_plug::Plugs;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Where no one listens.
pub const CLOSED: &str = "127.0.0.1:9";

/// Targets that end at this machine, for everybody.
pub const OPEN: &str = "listeners: { s: { socks: 127.0.0.1:0 } }\n\
                        egress: { allow: [127.0.0.0/8] }\n\
                        routes: [{ terminate: true }]\n";

/// The same for those who have a password.
pub const ASKED: &str = "listeners: { s: { socks: 127.0.0.1:0, auth: { basic: { file: users } } } }\n\
                         egress: { allow: [127.0.0.0/8] }\n\
                         routes: [{ terminate: true }]\n";

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
        write_users(folder.path(), &["alice", "bob"]);
        let loaded = document(name, yaml, folder.path());
        let file = folder.path().join("node.yaml");
        let plugs = hermes_socks::register(Plugs::new());
        let proxy = Proxy::start(loaded, file, Box::new(Silent), Vec::new(), plugs).unwrap();
        let name = name.to_owned();
        Self {
            proxy,
            folder,
            name,
        }
    }

    /// Lets these users in, and reloads.
    pub fn has_users(&self, users: &[&str]) -> ReloadReport {
        self.has_only(users, ASKED)
    }

    /// The same with this configuration.
    pub fn has_only(&self, users: &[&str], yaml: &str) -> ReloadReport {
        write_users(self.folder.path(), users);
        self.apply(yaml)
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

    /// Connects to it.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.unwrap()
    }

    /// Says something to it on a new connection; gives this many bytes of the answer.
    pub async fn answer(&self, said: &[u8], length: usize) -> (TcpStream, Vec<u8>) {
        let mut client = self.connect().await;
        client.write_all(said).await.unwrap();
        let answer = bytes(&mut client, length).await;
        (client, answer)
    }

    /// Ends it at once.
    pub async fn end(mut self) {
        self.proxy.drain(Duration::ZERO).await;
    }
}

fn write_users(folder: &Path, users: &[&str]) {
    let known = std::fs::read_to_string(folder.join("users")).unwrap_or_default();
    let line = |user: &&str| {
        // One who stays has the same password, and the same hash of it.
        let mut lines = known.lines();
        if let Some(kept) = lines.find(|line| line.starts_with(&format!("{user}:"))) {
            return format!("{kept}\n");
        }
        // The cheapest hash there is: these tests are not about its cost.
        let hash = bcrypt::hash(format!("of {user}"), 4).unwrap();
        format!("{user}:{hash}\n")
    };
    let lines: String = users.iter().map(line).collect();
    std::fs::write(folder.join("users"), lines).unwrap();
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

/// A server that sends back what it gets.
pub async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    serve_echo(listener);
    address
}

/// The same on this socket.
pub fn serve_echo(listener: TcpListener) {
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }
    });
}

/// Reads so many bytes, or those before the end.
pub async fn bytes(stream: &mut (impl AsyncRead + Unpin), length: usize) -> Vec<u8> {
    let mut read = Vec::new();
    let mut part = stream.take(length as u64);
    let wanted = part.read_to_end(&mut read);
    let read_in_time = tokio::time::timeout(Duration::from_secs(20), wanted).await;
    // A reset is an end, too.
    let _ = read_in_time.expect("an answer, or an end");
    read
}

/// An address as requests and datagrams have it.
pub fn address(target: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(target) = target else {
        panic!("{target} is no address of IPv4");
    };
    let mut bytes = vec![1];
    bytes.extend(target.ip().octets());
    bytes.extend(target.port().to_be_bytes());
    bytes
}

/// A request of version 5, with the method before it.
pub fn request(command: u8, target: &[u8]) -> Vec<u8> {
    [&[5, 1, 0, 5, command, 0], target].concat()
}

/// The same of a user with a password.
pub fn request_of(user: &str, password: &str, command: u8, target: &[u8]) -> Vec<u8> {
    let mut said = vec![5, 2, 0, 2, 1, u8::try_from(user.len()).unwrap()];
    said.extend(user.as_bytes());
    said.push(u8::try_from(password.len()).unwrap());
    said.extend(password.as_bytes());
    said.extend([5, command, 0]);
    said.extend(target);
    said
}
