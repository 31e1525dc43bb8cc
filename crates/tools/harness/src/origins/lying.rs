//! A server of objects in parts that lies, breaks off or stands still, by the path that it is asked for.

use std::time::Duration;

use tokio::io::{AsyncWriteExt, Result};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::acting::request;
use super::{ANY, Memory, Origin, serve};

/// Bytes of each object.
const LENGTH: u64 = 192 << 10;

/// Bytes of another object.
const OTHER: u8 = b'y';

/// Its answers, once the first part was right. The name of one is the path.
const LIES: [&str; 9] = [
    "validator",
    "length",
    "place",
    "coding",
    "redirect",
    "brief",
    "endless",
    "hanging",
    "slow",
];

/// The lies that are seen at once, and the one whose object is right nevertheless.
const QUICK: [&str; 6] = [
    "validator",
    "length",
    "place",
    "coding",
    "redirect",
    "endless",
];

/// A server with objects of `x`: parts of `/` are right, those of the other paths from the second on lies. Bytes of `y` are of none of its objects.
pub fn lying() -> Origin<String> {
    serve(
        ANY,
        |mut stream: TcpStream, memory: Memory<String>| async move {
            let mut unread = Vec::new();
            while let Some(text) = request(&mut stream, &mut unread).await {
                // A node that breaks off has heard enough.
                let answered = answer(&mut stream, &text).await;
                memory.remember(text);
                if answered.is_err() {
                    return;
                }
            }
        },
    )
}

/// The paths of the objects with lies.
pub fn lies() -> impl Iterator<Item = &'static str> {
    LIES.into_iter()
}

/// Whether a transfer of this object ends at once.
pub fn is_quick(lie: &str) -> bool {
    QUICK.contains(&lie)
}

/// Whether a content is of the object as far as it goes.
pub fn is_right(content: &[u8]) -> bool {
    content.len() as u64 <= LENGTH && !content.contains(&OTHER)
}

async fn answer(stream: &mut TcpStream, request: &str) -> Result<()> {
    let path = request.split(' ').nth(1).unwrap_or_default();
    let lie = path.rsplit('/').next().unwrap_or_default();
    let (first, last) = range(request).unwrap_or((0, LENGTH - 1));
    let length = last + 1 - first;
    let head = |tag: &str, place: &str, rest: &str| {
        format!(
            "HTTP/1.1 206 Partial Content\r\nETag: \"{tag}\"\r\nContent-Range: bytes {place}\r\n{rest}\r\n"
        )
    };
    let right = format!("{first}-{last}/{LENGTH}");
    let sized = format!("Content-Length: {length}\r\n");
    let (head, byte) = match lie {
        _ if first == 0 => (head("one", &right, &sized), b'x'),
        "validator" => (head("two", &right, &sized), OTHER),
        "length" => {
            let place = format!("{first}-{last}/{}", u64::MAX);
            (head("one", &place, &sized), OTHER)
        }
        "place" => {
            let place = format!("{}-{}/{LENGTH}", first - 1, last - 1);
            (head("one", &place, &sized), OTHER)
        }
        "coding" => {
            let rest = format!("Content-Encoding: gzip\r\n{sized}");
            (head("one", &right, &rest), OTHER)
        }
        "redirect" => {
            let found = "HTTP/1.1 302 Found\r\nLocation: /validator\r\nContent-Length: 0\r\n\r\n";
            return stream.write_all(found.as_bytes()).await;
        }
        "brief" => {
            let text = head("one", &right, "Content-Length: 1\r\n") + "x";
            return stream.write_all(text.as_bytes()).await;
        }
        "endless" | "hanging" => {
            let text = head("one", &right, "Transfer-Encoding: chunked\r\n");
            stream.write_all(text.as_bytes()).await?;
            return unended(stream, lie == "endless", length).await;
        }
        "slow" => {
            stream
                .write_all(head("one", &right, &sized).as_bytes())
                .await?;
            return slowly(stream, length).await;
        }
        _ => (head("one", &right, &sized), b'x'),
    };
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![byte; length as usize]).await
}

/// Chunks behind the right bytes until the node has enough, or silence in the midst of the first.
async fn unended(stream: &mut TcpStream, is_endless: bool, length: u64) -> Result<()> {
    stream
        .write_all(format!("{length:x}\r\n").as_bytes())
        .await?;
    if !is_endless {
        stream.write_all(b"x").await?;
        std::future::pending::<()>().await;
    }
    stream.write_all(&vec![b'x'; length as usize]).await?;
    loop {
        stream.write_all(b"\r\n10\r\n").await?;
        stream.write_all(&[OTHER; 16]).await?;
    }
}

async fn slowly(stream: &mut TcpStream, length: u64) -> Result<()> {
    for _ in 0..length {
        stream.write_all(b"x").await?;
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// The first and the last byte that a request asks for.
fn range(request: &str) -> Option<(u64, u64)> {
    let request = request.to_ascii_lowercase();
    let (_, rest) = request.split_once("\r\nrange: bytes=")?;
    let (places, _) = rest.split_once("\r\n")?;
    let (first, last) = places.split_once('-')?;
    let last = last.parse().unwrap_or(LENGTH - 1).min(LENGTH - 1);
    let first = first.parse().ok()?;
    (first <= last).then_some((first, last))
}
