//! Answers every request with the same small response.

use std::sync::LazyLock;

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::bytes::send_without_end;

/// Bytes of content in a response.
const CONTENT: usize = 256;
/// Bytes of a request head; requests have no content.
const LONGEST: usize = 64 * 1024;

static RESPONSE: LazyLock<String> = LazyLock::new(|| {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {CONTENT}\r\n\r\n{}", "x".repeat(CONTENT))
});

/// The head of a response whose content nobody waits to the end of: 1 TiB.
const BULK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: 1099511627776\r\n\r\n";

fn is_bulk(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    line.ends_with(b"/bulk HTTP/1.1")
}

/// Serves one connection to its end.
pub async fn answer(mut stream: TcpStream) -> Result<()> {
    let mut unread = Vec::new();
    loop {
        unread.reserve(2048);
        if stream.read_buf(&mut unread).await? == 0 {
            return Ok(());
        }
        while let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            let bulk = is_bulk(&unread[..end]);
            unread.drain(..end + 4);
            if bulk {
                stream.write_all(BULK.as_bytes()).await?;
                return send_without_end(stream).await;
            }
            stream.write_all(RESPONSE.as_bytes()).await?;
        }
        ensure!(unread.len() < LONGEST, "the request head is too long");
    }
}
