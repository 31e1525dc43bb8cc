//! A download that is split: each part is a request for a range, on a connection of its own.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Bytes of one read.
const READ: usize = 1 << 20;
/// Bytes of a response head.
const LONGEST: usize = 16 * 1024;
/// A part that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// The time of a download.
pub struct Done {
    /// From the first connection to the last byte.
    pub time: Duration,
    /// From the request of each part to its first byte.
    pub first_bytes: Vec<Duration>,
    /// From the request of each part to its last byte.
    pub parts: Vec<Duration>,
}

/// How long one part took, from its request.
struct PartTimes {
    first: Duration,
    last: Duration,
}

/// Downloads `bytes` from `host`, in so many parts at once.
///
/// # Errors
/// When a part fails or takes more than a minute.
pub async fn run(entry: SocketAddr, host: &str, bytes: u64, parts: u32) -> Result<Done> {
    let begin = Instant::now();
    let each = bytes / u64::from(parts);
    let mut tasks = JoinSet::new();

    for number in 0..u64::from(parts) {
        let first = number * each;
        let last = if number + 1 == u64::from(parts) {
            bytes
        } else {
            first + each
        } - 1;
        let host = host.to_owned();
        tasks.spawn(async move {
            timeout(LIMIT, part(entry, &host, first, last))
                .await
                .context("not done in time")?
        });
    }

    let mut first_bytes = Vec::with_capacity(parts as usize);
    let mut whole = Vec::with_capacity(parts as usize);
    while let Some(done) = tasks.join_next().await {
        let times = done.context("a task of a part")??;
        first_bytes.push(times.first);
        whole.push(times.last);
    }

    Ok(Done {
        time: begin.elapsed(),
        first_bytes,
        parts: whole,
    })
}

async fn part(entry: SocketAddr, host: &str, first: u64, last: u64) -> Result<PartTimes> {
    let mut stream = TcpStream::connect(entry).await?;
    stream.set_nodelay(true)?;
    let begin = Instant::now();
    let request = format!(
        "GET http://{host}/bulk HTTP/1.1\r\nHost: {host}\r\nRange: bytes={first}-{last}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::with_capacity(LONGEST);
    let mut first_byte = None;

    let content = loop {
        ensure!(head.len() < LONGEST, "the response head is too long");
        ensure!(
            stream.read_buf(&mut head).await? > 0,
            "the connection ended before the response did"
        );
        first_byte.get_or_insert_with(|| begin.elapsed());

        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };

    let line = String::from_utf8_lossy(&head[..content])
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    ensure!(
        line.split(' ').nth(1) == Some("206"),
        "answered with {line}"
    );
    let mut left = (last - first + 1).saturating_sub((head.len() - content) as u64);
    let mut room = vec![0; READ];

    while left > 0 {
        let read = discard(&stream, &mut room).await?;
        ensure!(
            read > 0,
            "the connection ended {left} bytes before the response did"
        );
        left = left.saturating_sub(read as u64);
    }

    Ok(PartTimes {
        first: first_byte.context("no byte came")?,
        last: begin.elapsed(),
    })
}

/// The kernel drops the bytes (`MSG_TRUNC`): copying them would take time from the proxies.
async fn discard(stream: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
    let mut read = || Ok(recv(stream, &mut *room, RecvFlags::TRUNC)?.1);
    stream.async_io(Interest::READABLE, &mut read).await
}
