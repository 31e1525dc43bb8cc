//! Downloads and uploads whose bytes no one looks at.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Entry, Kind};
use crate::origin::{SINK, SOURCE};

/// Asks for content without end.
const REQUEST: &[u8] = b"GET http://web.lab/bulk HTTP/1.1\r\nHost: web.lab\r\n\r\n";
/// Bytes of one read.
const READ: usize = 1 << 20;
/// Bytes of one write.
const WRITE: usize = 256 << 10;
/// Longest time from the last write to its arrival.
const ARRIVE: Duration = Duration::from_secs(30);

/// Bytes that come without end.
pub struct Download {
    stream: TcpStream,
    room: Vec<u8>,
}

impl Download {
    /// Asks for them.
    ///
    /// # Errors
    /// When the place cannot be reached, or the kind has no such bytes.
    pub async fn start(entry: &Entry) -> Result<Self> {
        let mut stream = TcpStream::connect(entry.address).await?;
        match entry.kind {
            Kind::Http => stream.write_all(REQUEST).await?,
            Kind::Tcp => stream.write_all(&[SOURCE]).await?,
            Kind::Connect | Kind::Udp => bail!("{} has no downloads", entry.kind.name()),
        }

        Ok(Self {
            stream,
            room: vec![0; READ],
        })
    }

    /// Reads for some time: how many bytes came.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn read_for(&mut self, time: Duration) -> Result<u64> {
        let end = Instant::now() + time;
        let mut bytes = 0;
        while Instant::now() < end {
            let Ok(read) = timeout_at(end, self.read()).await else {
                break;
            };
            match read? {
                0 => bail!("the download ended"),
                read => bytes += read as u64,
            }
        }

        Ok(bytes)
    }

    /// The kernel drops the bytes (`MSG_TRUNC`): copying them would take time from the proxies.
    async fn read(&mut self) -> io::Result<usize> {
        let stream = &self.stream;
        let room = &mut self.room;
        let read = || Ok(recv(stream, room.as_mut_slice(), RecvFlags::TRUNC)?.1);
        stream.async_io(Interest::READABLE, read).await
    }
}

/// Sends bytes to the origin for some time. Returns how many came, and how long that took until the last had.
///
/// # Errors
/// When the connection fails.
pub async fn upload(origin: SocketAddr, time: Duration) -> Result<(u64, Duration)> {
    let mut stream = TcpStream::connect(origin).await?;
    stream.write_all(&[SINK]).await?;
    let begin = Instant::now();
    let end = begin + time;
    let zeros = vec![0; WRITE];

    while Instant::now() < end {
        match timeout_at(end, stream.write(&zeros)).await {
            Ok(written) => drop(written?),
            Err(_) => break,
        }
    }

    stream.shutdown().await?;
    let count = timeout(ARRIVE, stream.read_u64()).await;
    let count = count.context("the origin does not say how much came")??;
    Ok((count, begin.elapsed()))
}
