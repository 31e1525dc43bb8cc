//! One connection in, one connection out.

use std::cell::RefCell;
use std::net::SocketAddr;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes of one read.
const READ: usize = 64 * 1024;

/// Connections to one place, and whether they serve several clients, one after the other.
pub struct Idle {
    to: SocketAddr,
    keep: bool,
    streams: RefCell<Vec<TcpStream>>,
}

impl Idle {
    /// Without connections yet.
    pub fn new(to: SocketAddr, keep: bool) -> Self {
        Self {
            to,
            keep,
            streams: RefCell::default(),
        }
    }

    /// An idle one, or a new one.
    pub async fn take(&self) -> Result<TcpStream> {
        if let Some(stream) = self.streams.borrow_mut().pop() {
            return Ok(stream);
        }
        let stream = TcpStream::connect(self.to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Returns a connection whose client has left.
    pub fn put(&self, stream: TcpStream) {
        if self.keep {
            self.streams.borrow_mut().push(stream);
        }
    }

    /// Whether connections serve several clients.
    pub fn keeps(&self) -> bool {
        self.keep
    }
}

/// Forwards until the client goes; a kept connection then waits for the next client.
pub async fn forward(mut client: TcpStream, idle: &Idle) -> Result<()> {
    let mut target = idle.take().await?;
    if !idle.keeps() {
        tokio::io::copy_bidirectional_with_sizes(&mut client, &mut target, READ, READ).await?;
        return Ok(());
    }

    // Not `copy_bidirectional`, which would shut the target down with the client.
    let mut up = Vec::with_capacity(READ);
    let mut down = Vec::with_capacity(READ);
    loop {
        tokio::select! {
            read = client.read_buf(&mut up) => {
                if read? == 0 {
                    idle.put(target);
                    return Ok(());
                }
                target.write_all(&up).await?;
                up.clear();
            }
            read = target.read_buf(&mut down) => {
                if read? == 0 {
                    return Ok(());
                }
                client.write_all(&down).await?;
                down.clear();
            }
        }
    }
}
