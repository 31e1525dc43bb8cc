//! A client of another address, which asks the node that is attacked again and again on a kept connection.

use std::io::{Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hermes_harness::attacks::BYSTANDER;
use socket2::{Domain, Socket, Type};

/// Its address.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(10);

/// How long it waits for an answer: longer is a failure.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running bystander.
pub struct Bystander {
    is_ended: Arc<AtomicBool>,
    thread: JoinHandle<Noticed>,
}

/// The bystander's experience.
#[derive(Debug, Default)]
pub struct Noticed {
    /// Time of each answer in milliseconds, in ascending order.
    pub answers: Vec<f64>,
    /// Requests without an answer of 200.
    pub failed: u32,
}

impl Noticed {
    /// The time within which this share of the answers came.
    pub fn quantile(&self, share: f64) -> f64 {
        let at = (self.answers.len() as f64 * share) as usize;
        let last = self.answers.len().saturating_sub(1);
        self.answers.get(at.min(last)).copied().unwrap_or(f64::NAN)
    }
}

impl Bystander {
    /// Begins to ask at this listener.
    pub fn start(proxy: SocketAddr) -> Self {
        let is_ended = Arc::new(AtomicBool::new(false));
        let ended = is_ended.clone();
        let thread = thread::spawn(move || ask_until(&ended, proxy));
        Self { is_ended, thread }
    }

    /// Stops, and returns its observations.
    pub fn stop(self) -> Noticed {
        self.is_ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn ask_until(ended: &AtomicBool, proxy: SocketAddr) -> Noticed {
    let mut noticed = Noticed::default();
    let mut kept = None;
    while !ended.load(Ordering::Relaxed) {
        let begin = Instant::now();
        match ask(&mut kept, proxy) {
            Ok(()) => noticed.answers.push(begin.elapsed().as_secs_f64() * 1e3),
            Err(_) => {
                noticed.failed += 1;
                kept = None;
            }
        }
        thread::sleep(PAUSE);
    }

    noticed.answers.sort_by(f64::total_cmp);
    noticed
}

/// One exchange, on the kept connection if there is one.
fn ask(kept: &mut Option<TcpStream>, proxy: SocketAddr) -> Result<()> {
    if kept.is_none() {
        *kept = Some(connect(proxy)?);
    }
    let Some(stream) = kept else {
        return Ok(());
    };

    let request = format!("GET http://{BYSTANDER}/ HTTP/1.1\r\nHost: {BYSTANDER}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    while !is_whole(&answer) {
        let length = stream.read(&mut piece)?;
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&piece[..length]);
    }

    if answer.starts_with(b"HTTP/1.1 200 ") {
        Ok(())
    } else {
        Err(std::io::Error::other("another status than 200"))
    }
}

fn connect(proxy: SocketAddr) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((SOURCE, 0)).into())?;
    socket.connect_timeout(&proxy.into(), PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

/// Whether an answer with a Content-Length is complete.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, content)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });

    content.len() >= length.unwrap_or(0)
}
