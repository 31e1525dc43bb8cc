//! Functions outside that hang, die, answer twice or never end, each at the word of one user; the bystander's exchanges pass the same
//! function.

mod hops;
mod processors;
mod scanners;

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(super) use hops::HOP;
pub(super) use processors::PROCESSOR;
pub(super) use scanners::SCANNER;

use super::Effort;
use crate::raw::Raw;
use crate::runtime;

/// The words at which a function goes wrong, and how many connections of the attacker say each.
const WORDS: [(&str, usize); 6] = [
    // More than the room of a function, so that it is full for this user.
    (HANG, 300),
    (DIE, 40),
    (TWICE, 40),
    (ENDLESS_HEAD, 40),
    (ENDLESS_BODY, 40),
    (ENDLESS_ANSWERS, 40),
];

const HANG: &str = "hang";
const DIE: &str = "die";
const TWICE: &str = "twice";
const ENDLESS_HEAD: &str = "endless-head";
const ENDLESS_BODY: &str = "endless-body";
const ENDLESS_ANSWERS: &str = "endless-answers";

/// Of the clients of a word, one in this many reads its answer; the others leave it where it is.
const READERS: usize = 4;

/// The word in the bytes that a function was shown.
fn word(said: &[u8]) -> Option<&'static str> {
    let said = String::from_utf8_lossy(said);
    let mut words = WORDS.iter().map(|(word, _)| *word);
    words.find(|word| said.contains(&format!("{word}.test")))
}

/// A server on the thread of attackers.
pub struct ActingServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl ActingServer {
    /// Serves each connection so.
    fn start<F>(serve: fn(TcpStream) -> F) -> Self
    where
        F: Future<Output = Option<()>> + Send + 'static,
    {
        let attackers = runtime::attackers();
        let listener = attackers.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        let task = attackers.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        Self { address, task }
    }

    /// Reads whatever comes, and keeps nothing of it.
    pub(super) fn sink() -> Self {
        Self::start(swallow)
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ActingServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Says each word as often as is meant; the connections stay open.
fn say_all(web: SocketAddr, request: impl Fn(&str) -> String) -> Effort {
    let mut effort = Effort::default();
    for (word, connections) in WORDS {
        let request = request(&format!("{word}.test"));
        for number in 0..connections {
            let mut raw = Raw::connect(web);
            raw.send_if_open(&request);
            if number % READERS == 0 {
                raw.forget_incoming();
            }
            effort.attempts += 1;
            effort.bytes += request.len() as u64;
            effort.hold(raw);
        }
    }
    effort
}

/// Says the same again and again, until no one listens any more.
async fn forever(stream: &mut TcpStream, piece: &[u8]) -> Option<()> {
    loop {
        stream.write_all(piece).await.ok()?;
    }
}

async fn swallow(mut stream: TcpStream) -> Option<()> {
    let mut room = vec![0; 64 * 1024];
    while stream.read(&mut room).await.ok()? > 0 {}
    Some(())
}

/// Keeps the connection, and says nothing.
async fn hang(stream: TcpStream) -> Option<()> {
    std::future::pending::<()>().await;
    drop(stream);
    None
}

/// Reads more; `None` at the end.
async fn more(stream: &mut TcpStream, heard: &mut Vec<u8>) -> Option<()> {
    (stream.read_buf(heard).await.ok()? > 0).then_some(())
}
