//! Pieces of many exchanges on one connection: a number, a length, and this many bytes. No bytes: the exchange ends.

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex;

/// Bytes before each piece.
pub const HEADER: usize = 8;
/// Bytes of one piece.
pub const PIECE: usize = 64 * 1024;

/// The sending half of a link, shared by its exchanges.
#[derive(Clone)]
pub struct LinkSender {
    stream: Rc<Mutex<OwnedWriteHalf>>,
}

impl LinkSender {
    /// On this connection.
    pub fn new(stream: OwnedWriteHalf) -> Self {
        Self {
            stream: Rc::new(Mutex::new(stream)),
        }
    }

    /// Sends a piece, before which there is room for the header.
    pub async fn send(&self, number: u32, piece: &mut [u8]) -> Result<()> {
        let length = u32::try_from(piece.len() - HEADER)?;
        piece[..4].copy_from_slice(&number.to_be_bytes());
        piece[4..HEADER].copy_from_slice(&length.to_be_bytes());
        Ok(self.stream.lock().await.write_all(piece).await?)
    }

    /// Ends an exchange.
    pub async fn end(&self, number: u32) -> Result<()> {
        self.send(number, &mut [0; HEADER]).await
    }
}

/// The receiving half of a link.
pub struct Receiver {
    stream: BufReader<OwnedReadHalf>,
    piece: Vec<u8>,
}

impl Receiver {
    /// On this connection.
    pub fn new(stream: OwnedReadHalf) -> Self {
        Self {
            stream: BufReader::with_capacity(PIECE, stream),
            piece: Vec::new(),
        }
    }

    /// The next piece and its exchange.
    pub async fn receive(&mut self) -> Result<(u32, &[u8])> {
        let number = self.stream.read_u32().await?;
        let length = self.stream.read_u32().await?;
        self.piece.resize(usize::try_from(length)?, 0);
        self.stream.read_exact(&mut self.piece).await?;
        Ok((number, &self.piece))
    }
}

/// The exchanges of a link and where their bytes go.
pub type Exchanges = Rc<Mutex<HashMap<u32, OwnedWriteHalf>>>;

/// Sends the bytes of `from` as pieces of an exchange, until its end.
pub async fn send_all(mut from: OwnedReadHalf, link: &LinkSender, number: u32) -> Result<()> {
    let mut piece = vec![0; HEADER + PIECE];
    loop {
        let read = from.read(&mut piece[HEADER..]).await?;
        if read == 0 {
            return link.end(number).await;
        }
        link.send(number, &mut piece[..HEADER + read]).await?;
    }
}
