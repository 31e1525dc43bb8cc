//! Clients and servers over HTTP/2 and HTTP/3 with other implementations of both. `interop/README.md` lists their features.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::Pki;

/// A program of the folder `interop`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpPeer {
    /// aioquic, in Python; `HERMES_PYTHON` has it.
    Aioquic,
    /// connect-ip-go: CONNECT-IP only.
    ConnectIpGo,
    /// h3 with h3-quinn, in Rust; its QUIC, quinn, is ours too.
    H3,
    /// Go's net/http: HTTP/2 alone.
    GoHttp2,
    /// curl's library with ngtcp2 and nghttp3: a client of gateways. `HERMES_PYTHON` has it.
    Curl,
    /// masque-go: CONNECT-UDP only.
    MasqueGo,
    /// quic-go.
    QuicGo,
    /// Cloudflare's quiche, in Rust and C.
    Quiche,
}

impl HttpPeer {
    /// Its name, e.g. `quic-go`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aioquic => "aioquic",
            Self::ConnectIpGo => "connect-ip-go",
            Self::Curl => "curl",
            Self::GoHttp2 => "go-http2",
            Self::H3 => "h3",
            Self::MasqueGo => "masque-go",
            Self::QuicGo => "quic-go",
            Self::Quiche => "quiche",
        }
    }

    /// Its version, as it says itself.
    ///
    /// # Panics
    /// When it does not.
    pub fn version(self) -> String {
        let output = self.command().arg("version").output().unwrap();
        assert!(output.status.success(), "{self:?} has a version");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Lets the client do one thing over a connection of its own, and returns the result.
    ///
    /// # Panics
    /// When it fails.
    pub fn client(self, ca: &Path, address: SocketAddr, action: &[&str]) -> Value {
        self.client_by("", ca, address, action)
    }

    /// As [`Self::client`], with this URI template.
    ///
    /// # Panics
    /// As [`Self::client`].
    pub fn client_by(
        self,
        template: &str,
        ca: &Path,
        address: SocketAddr,
        action: &[&str],
    ) -> Value {
        let mut command = self.command();
        let output = command
            .env("PEER_TEMPLATE", template)
            .arg("client")
            .arg(ca)
            .arg(address.to_string())
            .args(action)
            .output()
            .unwrap();

        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{self:?}: {action:?} failed:\n{said}"
        );

        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Starts the server, with a certificate for 127.0.0.1 and these further words.
    ///
    /// # Panics
    /// When it does not start.
    pub fn server(self, pki: &Pki, words: &[&str]) -> HttpServer {
        self.server_by("", pki, words)
    }

    /// As [`Self::server`], with this URI template.
    ///
    /// # Panics
    /// As [`Self::server`].
    pub fn server_by(self, template: &str, pki: &Pki, words: &[&str]) -> HttpServer {
        let issued = pki.issue(&["127.0.0.1"]);
        let mut command = self.command();
        command
            .env("PEER_TEMPLATE", template)
            .arg("server")
            .args([&issued.cert, &issued.key])
            .args(words);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut said)
            .unwrap();
        let port: u16 = said.trim().parse().expect("the server starts");

        HttpServer {
            process,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        }
    }

    fn command(self) -> Command {
        let named = |name: &str| {
            std::env::var_os(name)
                .unwrap_or_else(|| panic!("{name} is set: ./test interop sets it"))
        };

        if matches!(self, Self::Aioquic | Self::Curl) {
            let mut command = Command::new(named("HERMES_PYTHON"));
            command.arg(format!(
                "{}/../../../interop/{}/peer.py",
                env!("CARGO_MANIFEST_DIR"),
                self.name()
            ));
            return command;
        }

        Command::new(PathBuf::from(named("HERMES_PEERS")).join(self.name()))
    }
}

/// A running server that answers requests, and sends back the bytes and datagrams of tunnels. Dropping it ends the process.
#[derive(Debug)]
pub struct HttpServer {
    process: Child,
    address: SocketAddr,
}

impl HttpServer {
    /// Where it listens: on UDP, or on TCP if it speaks HTTP/2.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
