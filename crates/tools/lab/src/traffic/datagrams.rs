//! Datagrams at a rate, one way.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use hermes_net::{RecvBatch, UdpError, UdpSocket};
use tokio::time::{Instant, sleep, timeout};

use super::Entry;
use crate::origin::{self, COUNT, ECHO};

/// Payload of a datagram, which fits the path of a tunnel on the Internet.
pub const PAYLOAD: usize = 1200;
/// Bytes at the head of a counted datagram: its kind, and the name of its count.
const SHORTEST: usize = 5;
/// Between two batches of sends; timers are not finer.
const TICK: Duration = Duration::from_millis(1);
/// The last datagrams arrive while two answers of the origin, so far apart, differ.
const SETTLE: Duration = Duration::from_millis(40);

/// Datagrams late by more than this are left out: they would leave as a burst.
const BEHIND: Duration = Duration::from_millis(3);
/// How long a session may take to open.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// After which time without an answer it is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Datagrams that were sent, and those that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Trial {
    /// Datagrams sent in a second.
    pub rate: f64,
    /// Datagrams that came.
    pub received: u64,
    /// The share that was lost.
    pub loss: f64,
}

/// The datagrams of one client, or of several that send by turns.
pub struct Sender {
    sockets: Vec<UdpSocket>,
    origin: SocketAddr,
    payload: usize,
    trials: u32,
    name: u32,
}

impl Sender {
    /// A new client whose session is open: one datagram has come back. `origin` counts arrivals.
    ///
    /// # Errors
    /// When no socket can be had.
    pub async fn new(entry: &Entry, origin: SocketAddr) -> Result<Self> {
        Self::several(entry.address, origin, 1).await
    }

    /// So many clients with open sessions at `entry`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub async fn several(entry: SocketAddr, origin: SocketAddr, clients: usize) -> Result<Self> {
        let mut sockets = Vec::with_capacity(clients);
        for _ in 0..clients {
            sockets.push(open(entry).await?);
        }

        Ok(Self {
            sockets,
            origin,
            payload: PAYLOAD,
            trials: 0,
            name: fastrand::u32(..),
        })
    }

    /// The same with datagrams of this many bytes, at most [`PAYLOAD`] and enough for what the origin looks at.
    #[must_use]
    pub fn with_payload(mut self, bytes: usize) -> Self {
        self.payload = bytes.clamp(SHORTEST, PAYLOAD);
        self
    }

    /// Sends `rate` datagrams a second for some time.
    ///
    /// # Errors
    /// When the socket fails or the origin does not answer.
    pub async fn send(&mut self, rate: f64, time: Duration) -> Result<Trial> {
        self.trials += 1;
        // A count of its own for each trial: late datagrams of an earlier one do not enter it.
        let name = self.name.wrapping_add(self.trials).to_be_bytes();
        let mut datagram = [0; PAYLOAD];
        datagram[0] = COUNT;
        datagram[1..5].copy_from_slice(&name);
        let begin = Instant::now();
        let sent = self
            .send_until(begin + time, rate, &datagram[..self.payload])
            .await?;
        let rate = sent as f64 / begin.elapsed().as_secs_f64();
        let received = self.settled(name).await?;

        Ok(Trial {
            rate,
            received,
            loss: 1.0 - received as f64 / sent.max(1) as f64,
        })
    }

    /// Sends until `end`: how many datagrams. Each is a send of its own, as most programs do it; what the kernel is asked
    /// to segment (GSO) arrives in one piece on loopback, which Envoy drops.
    async fn send_until(&self, end: Instant, rate: f64, datagram: &[u8]) -> Result<u64> {
        let mut owed = 0.0;
        let mut sent = 0;
        let mut last = Instant::now();

        while Instant::now() < end {
            sleep(TICK).await;
            let now = Instant::now();
            // Fractions are kept, so that low rates are met over several ticks.
            owed += (now - last).min(BEHIND).as_secs_f64() * rate;
            last = now;

            while owed >= 1.0 && Instant::now() < end {
                let socket = &self.sockets[sent as usize % self.sockets.len()];
                match socket.send_segments(None, datagram, None).await {
                    // An ICMP error of an earlier datagram: this one is lost with it, and counts as sent.
                    Ok(()) | Err(UdpError::Refused) => sent += 1,
                    Err(error) => return Err(anyhow!("send: {error:?}")),
                }
                owed -= 1.0;
            }
        }

        Ok(sent)
    }

    async fn settled(&self, name: [u8; 4]) -> Result<u64> {
        let mut before = origin::received(self.origin, name).await?;
        loop {
            sleep(SETTLE).await;
            let now = origin::received(self.origin, name).await?;
            if now == before {
                return Ok(now);
            }
            before = now;
        }
    }
}

/// A client's socket, once a datagram has come back.
async fn open(entry: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::connected(entry).await?;
    let opened = timeout(OPEN_LIMIT, async {
        while !answers(&socket).await? {}
        anyhow::Ok(())
    });
    opened.await.context("no datagram comes back")??;
    Ok(socket)
}

/// Whether a datagram comes back soon; one may be lost.
async fn answers(socket: &UdpSocket) -> Result<bool> {
    socket
        .send_segments(None, &[ECHO], None)
        .await
        .map_err(|error| anyhow!("send: {error:?}"))?;
    let mut room = RecvBatch::with_slots(1);
    match timeout(ASK_AGAIN, socket.recv(&mut room)).await {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(error)) => Err(anyhow!("receive: {error:?}")),
        Err(_) => Ok(false),
    }
}
