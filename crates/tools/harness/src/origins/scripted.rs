//! A server that answers every request with the same bytes, which no HTTP library would send.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{ANY, Memory, Origin, serve};

/// A server that remembers each request's head as text, answers it with `answer` and keeps the connection. Requests must
/// have no content.
pub fn scripted(answer: &str) -> Origin<String> {
    let answer = answer.as_bytes().to_vec();
    serve(ANY, move |mut stream: TcpStream, memory: Memory<String>| {
        let answer = answer.clone();
        async move {
            let mut unread = Vec::new();
            while let Some(head) = head(&mut stream, &mut unread).await {
                memory.remember(head);
                if stream.write_all(&answer).await.is_err() {
                    return;
                }
            }
        }
    })
}

/// As [`scripted`], but the connection closes after the first answer.
pub fn scripted_once(answer: &str) -> Origin<String> {
    let answer = answer.as_bytes().to_vec();
    serve(ANY, move |mut stream: TcpStream, memory: Memory<String>| {
        let answer = answer.clone();
        async move {
            if let Some(head) = head(&mut stream, &mut Vec::new()).await {
                memory.remember(head);
                // A client that is gone needs no answer.
                drop(stream.write_all(&answer).await);
            }
        }
    })
}

/// A server that sends 103 (Early Hints) with `link: </style.css>`, and after [`Origin::release`] a 200 with `done\n`.
pub fn early_hints() -> Origin<String> {
    serve(
        ANY,
        |mut stream: TcpStream, memory: Memory<String>| async move {
            let mut unread = Vec::new();
            while let Some(head) = head(&mut stream, &mut unread).await {
                memory.remember(head);
                let hints = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
                if stream.write_all(hints).await.is_err() {
                    return;
                }

                memory.release.notified().await;
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ndone\n";
                if stream.write_all(answer).await.is_err() {
                    return;
                }
            }
        },
    )
}

/// The next head, without its empty line; `None` at the end.
async fn head(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<String> {
    loop {
        if let Some(end) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = unread.drain(..end + 4).collect::<Vec<_>>();
            return Some(String::from_utf8_lossy(&head[..end]).into_owned());
        }
        if stream.read_buf(unread).await.unwrap_or(0) == 0 {
            return None;
        }
    }
}
