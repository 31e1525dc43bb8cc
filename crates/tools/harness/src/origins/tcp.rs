//! TCP servers. They remember the bytes of each client, once its direction has ended.

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{ANY, Memory, Origin, serve};

/// The greeting of [`tcp_speaks_first`].
pub const GREETING: &str = "hello, who are you?\n";

/// The goodbye of [`tcp_speaks_first`] once the client has ended its direction.
pub fn farewell(bytes: usize) -> String {
    format!("goodbye, you said {bytes} bytes\n")
}

/// An echo server that ends when the client does.
pub fn tcp_echo() -> Origin<Vec<u8>> {
    tcp_on(ANY)
}

/// As [`tcp_echo`], on this address.
pub fn tcp_on(address: SocketAddr) -> Origin<Vec<u8>> {
    serve(address, |stream, memory| async move {
        drop(echo(stream, memory, false).await)
    })
}

/// A server that greets, echoes, and says goodbye after the client has ended its direction.
pub fn tcp_speaks_first() -> Origin<Vec<u8>> {
    serve(ANY, |stream, memory| async move {
        drop(echo(stream, memory, true).await)
    })
}

/// A server that says `half` and, after [`Origin::release`], breaks the connection off with a reset.
pub fn tcp_resets() -> Origin<Vec<u8>> {
    serve(
        ANY,
        |mut stream: TcpStream, memory: Memory<Vec<u8>>| async move {
            drop(stream.write_all(b"half").await);
            memory.release.notified().await;
            socket2::SockRef::from(&stream)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
        },
    )
}

/// A server that answers the first request with 101 to `websocket`, its key too, and then echoes.
pub fn tcp_upgrades() -> Origin<Vec<u8>> {
    serve(
        ANY,
        |mut stream: TcpStream, memory: Memory<Vec<u8>>| async move {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                    return;
                }
            }

            let accept = accept(&String::from_utf8_lossy(&head));
            let answer =
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
            if stream
                .write_all(format!("{answer}{accept}\r\n").as_bytes())
                .await
                .is_ok()
            {
                drop(echo(stream, memory, false).await);
            }
        },
    )
}

/// `Sec-WebSocket-Accept` for the key in a head, if there is one (RFC 6455, 4.2.2).
fn accept(head: &str) -> String {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let mut keys = lines.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    let Some((_, key)) = keys.next() else {
        return String::new();
    };

    let hashed = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key.trim());
    let digest = aws_lc_rs::digest::digest(
        &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY,
        hashed.as_bytes(),
    );

    format!(
        "Sec-WebSocket-Accept: {}\r\n",
        base64::engine::general_purpose::STANDARD.encode(digest)
    )
}

/// A server that reads to the end and says nothing. It remembers the bytes, or `ConnectionReset` if the connection ended so.
pub fn tcp_sink() -> Origin<Vec<u8>> {
    serve(
        ANY,
        |mut stream: TcpStream, memory: Memory<Vec<u8>>| async move {
            let mut heard = Vec::new();
            let ended = stream.read_to_end(&mut heard).await;
            memory.remember(ended.map_or_else(
                |error| format!("{:?}", error.kind()).into_bytes(),
                |_| heard,
            ));
        },
    )
}

/// A server that says `that is all`, ends its direction, and remembers the client's bytes.
pub fn tcp_closes_first() -> Origin<Vec<u8>> {
    serve(
        ANY,
        |mut stream: TcpStream, memory: Memory<Vec<u8>>| async move {
            let said = async {
                stream.write_all(b"that is all\n").await?;
                stream.shutdown().await?;
                let mut heard = Vec::new();
                stream.read_to_end(&mut heard).await?;
                Ok::<_, std::io::Error>(heard)
            };
            memory.remember(
                said.await
                    .unwrap_or_else(|error| format!("{:?}", error.kind()).into_bytes()),
            );
        },
    )
}

/// A server that accepts, and neither reads nor writes.
pub fn tcp_silent() -> Origin<Vec<u8>> {
    serve(ANY, |stream, _| async move {
        let _stream = stream;
        pending().await
    })
}

async fn echo(mut stream: TcpStream, memory: Memory<Vec<u8>>, talks: bool) -> std::io::Result<()> {
    if talks {
        stream.write_all(GREETING.as_bytes()).await?;
    }
    let mut heard = Vec::new();
    let mut buffer = vec![0; 64 * 1024];

    let ended = loop {
        let read = match stream.read(&mut buffer).await {
            Ok(0) => break Ok(()),
            Ok(read) => read,
            Err(error) => break Err(error),
        };
        heard.extend_from_slice(&buffer[..read]);
        stream.write_all(&buffer[..read]).await?;
    };

    let length = heard.len();
    if let Err(error) = &ended {
        heard = format!("{:?}", error.kind()).into_bytes();
    }

    memory.remember(heard);
    ended?;
    if talks {
        stream.write_all(farewell(length).as_bytes()).await?;
    }

    stream.shutdown().await
}
