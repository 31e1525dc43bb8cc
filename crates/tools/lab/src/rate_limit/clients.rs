//! Clients, each with some requests one after the other.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::limited::{Limit, head_end};

/// The longest time for all requests of a client.
const LIMIT: Duration = Duration::from_secs(300);

/// The way of a client to the origin.
#[derive(Debug, Clone, Copy)]
pub(super) enum PaceWay {
    /// It asks again on its own, at a random time that doubles: up to half a window.
    Alone,
    /// The same, and never more than its share of the last window: a sliding window of its own.
    Window,
    /// By a forward proxy.
    Proxy(SocketAddr),
    /// By a reverse proxy.
    Front(SocketAddr),
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    pub clients: usize,
    /// Requests of each client.
    pub each: usize,
    pub limit: Limit,
    pub seed: u64,
}

impl Asking {
    /// Runs all clients at once; returns when each of them is done.
    pub(super) async fn run(self, way: &PaceWay, origin: SocketAddr) -> Result<Vec<Duration>> {
        let begin = Instant::now();
        let clients = (0..self.clients as u64).map(|index| {
            let way = *way;
            tokio::spawn(async move {
                let client = AskingClient {
                    way,
                    origin,
                    asking: self,
                    random: Rng::with_seed(self.seed ^ index),
                    sent: Vec::new(),
                };
                timeout(LIMIT, client.run()).await.context("too long")??;
                anyhow::Ok(begin.elapsed())
            })
        });
        let clients: Vec<_> = clients.collect();
        let mut times = Vec::new();
        for client in clients {
            times.push(client.await??);
        }
        Ok(times)
    }
}

struct AskingClient {
    way: PaceWay,
    origin: SocketAddr,
    asking: Asking,
    random: Rng,
    /// When it has sent requests: for its own window.
    sent: Vec<Instant>,
}

impl AskingClient {
    async fn run(mut self) -> Result<()> {
        let address = match self.way {
            PaceWay::Alone | PaceWay::Window => self.origin,
            PaceWay::Proxy(address) | PaceWay::Front(address) => address,
        };
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        for _ in 0..self.asking.each {
            let mut tries = 0;
            while self.ask(&mut stream).await? == 429 {
                self.back_off(tries).await?;
                tries += 1;
            }
        }
        Ok(())
    }

    async fn ask(&mut self, stream: &mut TcpStream) -> Result<u16> {
        if matches!(self.way, PaceWay::Window) {
            self.own_window().await;
        }
        self.sent.push(Instant::now());
        let origin = self.origin;
        let target = match self.way {
            PaceWay::Proxy(_) => format!("http://{origin}/"),
            _ => "/".to_owned(),
        };
        let request = format!("GET {target} HTTP/1.1\r\nhost: {origin}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        while head_end(&answer).is_none() {
            ensure!(stream.read_buf(&mut answer).await? > 0, "the answer ended");
        }
        let status = answer
            .get(9..12)
            .and_then(|status| std::str::from_utf8(status).ok());
        let status = status.and_then(|status| status.parse().ok());
        let end = head_end(&answer).unwrap_or_default();
        ensure!(end == answer.len(), "an answer with content");
        match status {
            Some(status @ (200 | 429)) => Ok(status),
            _ => bail!("{}", String::from_utf8_lossy(&answer)),
        }
    }

    /// Waits until it has sent fewer than the quota in the last window.
    async fn own_window(&mut self) {
        let Limit { quota, window } = self.asking.limit;
        let own = usize::try_from(quota).unwrap_or(usize::MAX);
        if let Some(first) = self.sent.len().checked_sub(own).map(|at| self.sent[at]) {
            sleep((first + window).saturating_duration_since(Instant::now())).await;
        }
    }

    async fn back_off(&mut self, tries: u32) -> Result<()> {
        // In the paper a minute is the window: 0.1 s, and up to 1, 3, 7, 15 and 30 s.
        let minute = self.asking.limit.window.as_secs_f64() / 60.0;
        let most = f64::from((1_u32 << (tries + 1).min(5)) - 1).min(30.0);
        let wait = (0.1 + self.random.f64() * (most - 0.1)) * minute;
        sleep(Duration::from_secs_f64(wait)).await;
        Ok(())
    }
}
