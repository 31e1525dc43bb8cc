//! Answers requests with the same small response, and those for `/bulk` with zeros: all of them, or the range that is asked for.

use std::sync::LazyLock;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::bytes::{send_so_many, send_without_end};

/// Bytes of content in a response.
const CONTENT: usize = 256;
/// Bytes of a request head; requests have no content.
const LONGEST: usize = 64 * 1024;

static RESPONSE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {CONTENT}\r\n\r\n{}",
        "x".repeat(CONTENT)
    )
});

/// The head of an endless response of 1 TiB: the client leaves before its end.
const BULK: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: 1099511627776\r\n\r\n";

fn is_bulk(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    line.ends_with(b"/bulk HTTP/1.1")
}

/// The range of bytes that a head asks for, if it asks for one: its first byte and its last.
fn range(head: &[u8]) -> Option<(u64, u64)> {
    let head = std::str::from_utf8(head).ok()?;
    let line = head.split("\r\n").find_map(|line| {
        line.split_once(':')
            .filter(|(name, _)| name.eq_ignore_ascii_case("range"))
    });
    let (first, last) = line?.1.trim().strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Sends the bytes from the first to the last.
async fn send_range(stream: &mut TcpStream, first: u64, last: u64) -> Result<()> {
    let length = last
        .checked_sub(first)
        .and_then(|less| less.checked_add(1))
        .context("the range is empty")?;
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes {first}-{last}/*\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;

    send_so_many(stream, length).await
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
            let range = range(&unread[..end]);
            unread.drain(..end + 4);

            if let (true, Some((first, last))) = (bulk, range) {
                send_range(&mut stream, first, last).await?;
                continue;
            }

            if bulk {
                stream.write_all(BULK.as_bytes()).await?;
                return send_without_end(stream).await;
            }

            stream.write_all(RESPONSE.as_bytes()).await?;
        }

        ensure!(unread.len() < LONGEST, "the request head is too long");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_from_a_head() {
        assert_eq!(
            range(b"GET /bulk HTTP/1.1\r\nRange: bytes=5-9\r\nhost: x"),
            Some((5, 9))
        );
        assert_eq!(range(b"GET /bulk HTTP/1.1\r\nhost: x"), None);
        assert_eq!(range(b"GET /bulk HTTP/1.1\r\nRange: bytes=-9"), None);
    }
}
