//! A peer that is nothing but a socket.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One end of a TCP connection, written and read as text.
pub struct Raw(pub TcpStream);

impl Raw {
    pub async fn dial(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Both ends of a new connection.
    pub async fn pair() -> (Self, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialled = Self::dial(listener.local_addr().unwrap()).await;
        (dialled, listener.accept().await.unwrap().0)
    }

    pub async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Everything up to the end of a head, and nothing after it.
    pub async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    pub async fn exactly(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).await.unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Everything up to an orderly end; a reset fails the test.
    pub async fn rest(&mut self) -> String {
        let mut text = String::new();
        self.0.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Ends this direction only.
    pub async fn finish(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    /// Closes with a TCP reset.
    pub fn reset(self) {
        self.0.set_zero_linger().unwrap();
    }
}
