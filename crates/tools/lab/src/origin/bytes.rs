//! Echoes bytes, sends as many as are asked for or without end, or counts them, as the first byte asks.

use anyhow::Result;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{SINK, SIZED, SOURCE};

/// Bytes of one write of [`SOURCE`].
const CHUNK: usize = 256 * 1024;
/// Bytes of one read.
const READ: usize = 16 * 1024;

/// Serves one connection to its end.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> Result<()> {
    let mut first = Vec::with_capacity(1);
    stream.read_buf(&mut first).await?;
    match first.first() {
        None => Ok(()),
        Some(&SOURCE) => send_without_end(stream).await,
        Some(&SINK) => count(stream).await,
        Some(&SIZED) => send_as_asked(stream).await,
        Some(_) => echo(stream, first).await,
    }
}

/// Sends until the other side has enough.
pub async fn send_without_end<S: AsyncWrite + Unpin>(mut stream: S) -> Result<()> {
    let zeros = vec![0; CHUNK];
    loop {
        stream.write_all(&zeros).await?;
    }
}

/// Sends as many bytes as each eight bytes ask for.
async fn send_as_asked<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> Result<()> {
    let mut asked = [0; 8];
    loop {
        stream.read_exact(&mut asked).await?;
        send_so_many(&mut stream, u64::from_be_bytes(asked)).await?;
        stream.flush().await?;
    }
}

/// Reads to the end, and says how much came.
async fn count<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> Result<()> {
    let mut room = vec![0; CHUNK];
    let mut total: u64 = 0;
    loop {
        let read = stream.read(&mut room).await?;
        if read == 0 {
            break;
        }
        total += read as u64;
    }
    stream.write_all(&total.to_be_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

/// Sends this many zeros.
pub async fn send_so_many<S: AsyncWrite + Unpin>(stream: &mut S, mut count: u64) -> Result<()> {
    let zeros = vec![0; CHUNK.min(count as usize)];
    while count > 0 {
        let next = count.min(zeros.len() as u64);
        stream.write_all(&zeros[..next as usize]).await?;
        count -= next;
    }
    Ok(())
}

/// The room for bytes exists only while there are some, so that idle connections cost little.
async fn echo<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, mut bytes: Vec<u8>) -> Result<()> {
    loop {
        bytes.reserve(READ);
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        stream.write_all(&bytes).await?;
        stream.flush().await?;
        bytes.clear();
    }
}
