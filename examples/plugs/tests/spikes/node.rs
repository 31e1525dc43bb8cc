//! A node in this process, started as any program would start one.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hermes_config::{Loaded, parse};
use hermes_net::drain::Ended;
use hermes_node::LogFilter;
use hermes_node::Proxy;
use hermes_node::change::ReloadReport;
use hermes_plug::Plugs;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A node and the folder of its administration.
pub struct Node {
    proxy: Proxy,
    folder: TempDir,
}

impl Node {
    /// Starts a node, with one worker unless `yaml` says so; it says the rest. Nodes of one name take each other for a loop.
    pub fn start(name: &str, yaml: &str, plugs: Plugs) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let loaded = document(name, yaml, folder.path());
        let file = folder.path().join("node.yaml");
        let proxy = Proxy::start(loaded, file, Box::new(Silent), Vec::new(), plugs).unwrap();
        Self { proxy, folder }
    }

    /// Has another configuration in force; says what became of open tunnels.
    pub fn apply(&self, name: &str, yaml: &str) -> ReloadReport {
        let loaded = document(name, yaml, self.folder.path());
        self.proxy.handle().apply(loaded, None).unwrap()
    }

    /// Why another configuration is not put in force.
    pub fn refused(&self, name: &str, yaml: &str) -> String {
        let loaded = document(name, yaml, self.folder.path());
        self.proxy
            .handle()
            .apply(loaded, None)
            .unwrap_err()
            .to_string()
    }

    /// The address of its first listener.
    pub fn address(&self) -> SocketAddr {
        self.proxy.listeners()[0].address.parse().unwrap()
    }

    /// Connects to its first listener.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).await.unwrap()
    }

    /// Ends it when all that it does has ended.
    pub async fn drained(mut self) {
        let ended = self.proxy.drain(Duration::from_secs(10)).await;
        assert!(matches!(ended, Ended::Gracefully), "{ended:?}");
    }

    /// Ends it at once.
    pub async fn end(mut self) {
        self.proxy.drain(Duration::ZERO).await;
    }
}

/// A document, as it would stand in a file.
pub fn document(name: &str, yaml: &str, folder: &Path) -> Loaded {
    let socket = folder.join("admin.sock");
    let socket = socket.display();
    let workers = match yaml.contains("workers:") {
        true => "",
        false => "workers: 1\n",
    };
    let text = format!(
        "version: 1\nnode: {name}\n{workers}log: {{ access: off }}\nadmin: {{ socket: {socket} }}\n{yaml}"
    );
    parse(&folder.join("node.yaml"), &text, &|_| None).unwrap()
}

/// Writes text.
pub async fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Reads until text has come, and gives all that has.
pub async fn hear(stream: &mut TcpStream, wanted: &str) -> String {
    let mut heard = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&heard);
        if text.contains(wanted) {
            return text.into_owned();
        }
        let read = stream.read_buf(&mut heard).await.unwrap();
        assert!(
            read > 0,
            "ended before {wanted:?}: {:?}",
            String::from_utf8_lossy(&heard)
        );
    }
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
