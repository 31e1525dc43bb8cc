//! A connection under TLS on which a test speaks HTTP/1.1.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};

use crate::eventually::PATIENCE;
use crate::head::Head;

/// A connection under TLS, with the bytes that were read ahead.
#[derive(Debug)]
pub struct Secured {
    stream: StreamOwned<ClientConnection, TcpStream>,
    unread: Vec<u8>,
}

impl Secured {
    /// Connects; the handshake comes with the first bytes.
    ///
    /// # Panics
    /// When nothing listens.
    pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Self {
        let tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        let connection =
            ClientConnection::new(config.clone(), ServerName::from(address.ip())).unwrap();

        Self {
            stream: StreamOwned::new(connection, tcp),
            unread: Vec::new(),
        }
    }

    /// Whether the session is one that was resumed.
    pub fn is_resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Sends a request head, `line` with a whole URI or an authority and `fields` in whole lines, and reads the response with its content.
    ///
    /// # Errors
    /// The connection ended, or the handshake failed: why.
    pub fn ask(&mut self, line: &str, fields: &str) -> Result<Head, String> {
        let target = line.split(' ').nth(1).unwrap_or_default();
        let host = target
            .trim_start_matches("http://")
            .split('/')
            .next()
            .unwrap_or_default();
        let request = format!("{line} HTTP/1.1\r\nhost: {host}\r\n{fields}\r\n");
        self.stream
            .write_all(request.as_bytes())
            .map_err(|error| error.to_string())?;
        self.stream.flush().map_err(|error| error.to_string())?;

        let end = self.until(|bytes| {
            bytes
                .windows(4)
                .position(|window| window == b"\r\n\r\n")
                .map(|at| at + 4)
        })?;

        let head: Vec<u8> = self.unread.drain(..end).collect();
        let head = Head::parse(&String::from_utf8_lossy(&head));
        let length = head
            .field("content-length")
            .map_or(0, |length| length.parse().unwrap());
        self.until(|bytes| (bytes.len() >= length).then_some(()))?;
        self.unread.drain(..length);

        Ok(head)
    }

    fn until<T>(&mut self, found: impl Fn(&[u8]) -> Option<T>) -> Result<T, String> {
        loop {
            if let Some(found) = found(&self.unread) {
                return Ok(found);
            }
            let mut room = [0; 16 * 1024];
            match self.stream.read(&mut room) {
                Ok(0) => return Err("closed".to_owned()),
                Ok(read) => self.unread.extend_from_slice(&room[..read]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}
