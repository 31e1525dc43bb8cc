//! Servers that treat each request differently: failures first, an answer afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{ANY, Memory, Origin, serve};

/// The action of a server on one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Sends these bytes.
    Say(String),
    /// Breaks the connection off with a reset.
    Reset,
    /// Says nothing, and remembers `cancelled` when the client gives up.
    Hang,
}

impl Act {
    /// An answer with this status, these field lines (each with its line end), and its status as content.
    pub fn status(status: u16, fields: &str) -> Self {
        let content = format!("{status}\n");
        Self::Say(format!(
            "HTTP/1.1 {status} X\r\n{fields}Content-Length: {}\r\n\r\n{content}",
            content.len()
        ))
    }
}

/// An HTTP/1.1 server that does the first of `acts` with its first request and so on, and the last one with all that follow.
/// It remembers each request, head and content, as text. Content must have a length.
pub fn acting(acts: &[Act]) -> Origin<String> {
    let acts = Arc::new(acts.to_vec());
    let next = Arc::new(AtomicUsize::new(0));
    serve(ANY, move |mut stream: TcpStream, memory: Memory<String>| {
        let acts = acts.clone();
        let next = next.clone();
        async move {
            let mut unread = Vec::new();
            while let Some(request) = request(&mut stream, &mut unread).await {
                memory.remember(request);
                let number = next.fetch_add(1, Ordering::SeqCst);
                match &acts[number.min(acts.len() - 1)] {
                    Act::Say(answer) if stream.write_all(answer.as_bytes()).await.is_ok() => {}
                    Act::Say(_) => return,
                    Act::Reset => {
                        return socket2::SockRef::from(&stream)
                            .set_linger(Some(Duration::ZERO))
                            .unwrap();
                    }
                    Act::Hang => {
                        while stream
                            .read_buf(&mut unread)
                            .await
                            .is_ok_and(|read| read > 0)
                        {}
                        return memory.remember("cancelled".to_owned());
                    }
                }
            }
        }
    })
}

/// An HTTP/2 server that refuses its first `refusals` streams (`REFUSED_STREAM`), and answers those that follow with 200 and
/// the content that they sent. It remembers the method of each request, refused ones with `refused ` before it.
pub fn refusing(refusals: usize) -> Origin<String> {
    let next = Arc::new(AtomicUsize::new(0));
    serve(ANY, move |stream: TcpStream, memory: Memory<String>| {
        let next = next.clone();
        async move {
            let Ok(mut connection) = h2::server::handshake(stream).await else {
                return;
            };
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let method = request.method().to_string();
                if next.fetch_add(1, Ordering::SeqCst) < refusals {
                    memory.remember(format!("refused {method}"));
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                    continue;
                }

                memory.remember(method);
                tokio::spawn(async move {
                    let mut content = request.into_body();
                    let mut echo = Vec::new();
                    while let Some(Ok(data)) = content.data().await {
                        content.flow_control().release_capacity(data.len()).ok()?;
                        echo.extend_from_slice(&data);
                    }

                    let response = http::Response::builder()
                        .header("content-length", echo.len())
                        .body(())
                        .ok()?;
                    let mut sender = respond.send_response(response, false).ok()?;
                    sender.send_data(Bytes::from(echo), true).ok()
                });
            }
        }
    })
}

/// The next request; `None` at the end of the connection.
pub(super) async fn request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&unread[..end]).to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
            let whole = end + 4 + length.unwrap_or(0_usize);

            if unread.len() >= whole {
                let request = unread.drain(..whole).collect::<Vec<_>>();
                return Some(String::from_utf8_lossy(&request).into_owned());
            }
        }
        if stream.read_buf(unread).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}
