//! Echoes datagrams, or counts them and says how many came.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermes_net::{RecvBatch, UdpSocket};
use tokio::time::timeout;

use super::{COUNT, ECHO, QUERY};

/// How long the origin may take to say how many datagrams came.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// How often it is asked.
const QUESTIONS: u32 = 5;
/// A count's name.
const NAME: std::ops::Range<usize> = 1..5;

/// Serves until the process is ended.
pub async fn serve(socket: UdpSocket) -> Result<()> {
    let mut batch = RecvBatch::with_slots(16);
    let mut counts: HashMap<[u8; 4], u64> = HashMap::new();
    loop {
        // A client may be gone before its answer comes: ICMP says so here.
        if socket.recv(&mut batch).await.is_err() {
            continue;
        }
        for (source, datagram) in batch.datagrams() {
            let name = datagram
                .get(NAME)
                .and_then(|name| name.try_into().ok())
                .unwrap_or_default();
            let answer = match datagram.first() {
                Some(&ECHO) => datagram.to_vec(),
                Some(&COUNT) => {
                    *counts.entry(name).or_default() += 1;
                    continue;
                }
                Some(&QUERY) => counts
                    .get(&name)
                    .copied()
                    .unwrap_or(0)
                    .to_be_bytes()
                    .to_vec(),
                _ => continue,
            };

            drop(socket.send_segments(Some(source), &answer, None).await);
        }
    }
}

/// Asks the origin how many datagrams came under `name`.
///
/// # Errors
/// When it does not answer.
pub async fn received(origin: SocketAddr, name: [u8; 4]) -> Result<u64> {
    let socket = tokio::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    let mut question = vec![QUERY];
    question.extend(name);
    let mut answer = [0; 8];
    let mut answered = None;

    // Where too much is sent, the question or the answer may be lost too.
    for _ in 0..QUESTIONS {
        socket.send_to(&question, origin).await?;
        if let Ok(length) = timeout(ANSWER_LIMIT, socket.recv(&mut answer)).await {
            answered = Some(length?);
            break;
        }
    }

    let length = answered.context("the origin does not answer")?;
    ensure!(length == answer.len(), "the origin gave another answer");
    Ok(u64::from_be_bytes(answer))
}
