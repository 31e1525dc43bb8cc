//! The origin: answers a GET for `/N` with N bytes that tell where they stand, or a range of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::topology::Namespace;

/// Where it listens, at all addresses of its namespace.
pub const PORT: u16 = 8080;

/// Where it speaks TLS.
pub const SECURE_PORT: u16 = 9443;

/// Bytes that tell where they stand: no part of them is like another of the same length nearby.
pub fn content(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u32).wrapping_mul(2_654_435_761).to_be_bytes()[at % 4])
        .collect()
}

/// Serves in a namespace, until the program ends.
///
/// # Errors
/// When the ports cannot be had.
pub fn serve(namespace: &Namespace, secure: Arc<ServerConfig>) -> Result<()> {
    let clear = listen(namespace, PORT)?;
    thread::spawn(move || {
        for stream in clear.incoming().flatten() {
            // A client that goes away is no failure of the origin.
            thread::spawn(move || answer(stream).ok());
        }
    });

    let sealed = listen(namespace, SECURE_PORT)?;
    thread::spawn(move || {
        for stream in sealed.incoming().flatten() {
            let secure = secure.clone();
            thread::spawn(move || answer_secure(stream, secure).ok());
        }
    });
    Ok(())
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

fn answer_secure(stream: TcpStream, secure: Arc<ServerConfig>) -> Result<()> {
    answer(StreamOwned::new(ServerConnection::new(secure)?, stream))
}

fn answer(stream: impl Read + Write) -> Result<()> {
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

        let path = first.split(' ').nth(1).unwrap_or_default();
        let size: usize = path.trim_start_matches('/').parse()?;
        let content = content(size);
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
        write!(
            stream,
            "HTTP/1.1 {status}\r\nETag: \"{size}\"\r\nContent-Length: {length}\r\n\r\n"
        )?;
        stream.write_all(rest)?;
        stream.flush()?;
    }
}
