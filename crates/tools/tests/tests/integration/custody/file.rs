//! An origin with one file, whose versions differ in every byte: it sends a part of it, and the rest when it may.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Bytes of the file.
pub const WHOLE: usize = 3_000_000;

/// Bytes that are sent before the origin waits.
pub const FIRST: usize = 1_000_000;

/// The byte at this place of a version.
pub fn byte(version: u8, at: usize) -> u8 {
    ((at.wrapping_mul(0x9e37_79b9) >> 24) as u8) ^ version
}

/// How many bytes are those of a version, from the beginning on.
pub fn agreed(version: u8, content: &[u8]) -> usize {
    let mut bytes = content.iter().enumerate();
    let wrong = bytes.position(|(at, found)| byte(version, at) != *found);
    wrong.unwrap_or(content.len())
}

/// What is asked of it, and what it has.
#[derive(Default)]
struct Shared {
    version: u8,
    is_held: bool,
    /// Whether a request without an effect of its own was executed before.
    heads: Vec<String>,
}

/// The origin.
#[derive(Clone)]
pub struct FileOrigin {
    shared: Arc<(Mutex<Shared>, Condvar)>,
    pub address: SocketAddr,
}

impl FileOrigin {
    /// One that waits in the middle of what it says.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Shared {
            is_held: true,
            ..Shared::default()
        };
        let origin = Self {
            shared: Arc::new((Mutex::new(shared), Condvar::new())),
            address: listener.local_addr().unwrap(),
        };
        let serving = origin.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let origin = serving.clone();
                // Who asks may die in the middle: that is what this is about.
                thread::spawn(move || drop(origin.serve(stream.unwrap())));
            }
        });
        origin
    }

    /// It has this version from now on.
    pub fn publish(&self, version: u8) {
        self.shared.0.lock().unwrap().version = version;
    }

    /// It says all that it has to say from now on.
    pub fn release(&self) {
        self.shared.0.lock().unwrap().is_held = false;
        self.shared.1.notify_all();
    }

    /// The heads of requests that it has heard to their end.
    pub fn heads(&self) -> Vec<String> {
        self.shared.0.lock().unwrap().heads.clone()
    }

    fn wait(&self) {
        let shared = self.shared.0.lock().unwrap();
        drop(self.shared.1.wait_while(shared, |shared| shared.is_held));
    }

    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head)? == 0 {
                    return Ok(());
                }
            }

            let head = head.to_ascii_lowercase();
            let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
            let length = value("content-length: ").map_or(0, |length| length.parse().unwrap());
            reader.read_exact(&mut vec![0; length])?;
            let version = {
                let mut shared = self.shared.0.lock().unwrap();
                shared.heads.push(head.clone());
                shared.version
            };
            if head.starts_with("post") {
                self.wait();
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ndone\n")?;
                continue;
            }

            let range = value("range: bytes=");
            let from = range.map_or(0, |range| range.trim_end_matches('-').parse().unwrap());
            let status = match range {
                Some(_) => format!(
                    "206 Partial Content\r\nContent-Range: bytes {from}-{}/{WHOLE}",
                    WHOLE - 1
                ),
                None => "200 OK".to_owned(),
            };
            let length = WHOLE - from;
            write!(
                stream,
                "HTTP/1.1 {status}\r\nETag: \"{version}\"\r\nCache-Control: public, max-age=300\r\nContent-Length: {length}\r\n\r\n"
            )?;
            let content: Vec<u8> = (from..WHOLE).map(|at| byte(version, at)).collect();
            let first = FIRST.saturating_sub(from);
            stream.write_all(&content[..first])?;
            self.wait();
            stream.write_all(&content[first..])?;
        }
    }
}
