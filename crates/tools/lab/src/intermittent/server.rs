//! The origin: answers a GET with bytes that tell where they stand, or a range of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::topology::Namespace;

/// Where it listens, at all addresses of its namespace.
pub const PORT: u16 = 8080;

/// How long the origin waits for a client that says or takes nothing: longer than any download may take.
const SILENCE: Duration = Duration::from_secs(300);

/// Where it speaks TLS.
pub const SECURE_PORT: u16 = 9443;

/// Bytes that tell where they stand: no part of them is like another of the same length nearby.
pub fn content(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[at % 4])
        .collect()
}

/// A running origin. Dropping it ends it, and with it the last use of its namespace.
pub struct Origin {
    listeners: [TcpListener; 2],
}

/// Serves so many bytes in a namespace. They are made before anyone asks: that takes a time that no way of carrying them can save.
///
/// # Errors
/// When the ports cannot be had.
pub fn serve(namespace: &Namespace, secure: Arc<ServerConfig>, length: usize) -> Result<Origin> {
    let content: Arc<[u8]> = content(length).into();
    let clear = listen(namespace, PORT)?;
    let sealed = listen(namespace, SECURE_PORT)?;
    let origin = Origin {
        listeners: [clear.try_clone()?, sealed.try_clone()?],
    };
    // A client that goes away is no failure of the origin.
    let clear_content = content.clone();
    accept(clear, move |stream| drop(answer(stream, &clear_content)));
    accept(sealed, move |stream| {
        drop(answer_secure(stream, secure.clone(), &content));
    });
    Ok(origin)
}

/// Serves each connection in a thread of its own, until the listener is shut down.
fn accept(listener: TcpListener, serve: impl Fn(TcpStream) + Clone + Send + 'static) {
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let _ = stream.set_read_timeout(Some(SILENCE));
            let _ = stream.set_write_timeout(Some(SILENCE));
            // As servers do: the bytes after a TLS ticket do not wait for its acknowledgement.
            let _ = stream.set_nodelay(true);
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
}

impl Drop for Origin {
    fn drop(&mut self) {
        for listener in &self.listeners {
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
    }
}

fn listen(namespace: &Namespace, port: u16) -> Result<TcpListener> {
    thread::scope(|scope| {
        let opened = scope.spawn(|| {
            namespace.enter()?;
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).context("the origin's port")
        });
        opened.join().ok().context("the thread panicked")?
    })
}

fn answer_secure(stream: TcpStream, secure: Arc<ServerConfig>, content: &[u8]) -> Result<()> {
    let secure = StreamOwned::new(ServerConnection::new(secure)?, stream);
    answer(secure, content)
}

fn answer(stream: impl Read + Write, content: &[u8]) -> Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut from = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            let line = line.to_ascii_lowercase();
            if let Some(range) = line.strip_prefix("range: bytes=") {
                from = range.trim().trim_end_matches('-').parse().unwrap_or(0);
            }
        }

        let size = content.len();
        let rest = content.get(from..).unwrap_or_default();
        let status = match from {
            0 => "200 OK".to_owned(),
            _ => format!(
                "206 Partial Content\r\nContent-Range: bytes {from}-{}/{size}",
                size.saturating_sub(1)
            ),
        };
        let length = rest.len();
        let stream = reader.get_mut();
        let head = format!(
            "HTTP/1.1 {status}\r\nETag: \"{size}\"\r\nCache-Control: public, max-age=300\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(rest)?;
        stream.flush()?;
    }
}
