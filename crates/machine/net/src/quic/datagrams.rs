//! Unreliable datagrams (RFC 9221) in batches, and the count of those that were dropped.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use quinn::SendDatagramError;

use super::error::ConnectionError;

/// The bytes that quinn counts against the buffer for each datagram besides its payload.
const OVERHEAD: usize = 32;

/// The result of handing datagrams over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentDatagrams {
    /// Accepted for sending.
    pub sent: usize,
    /// Larger than the path or the peer takes now, or the peer takes no datagrams.
    pub too_large: usize,
    /// Not accepted: the send buffer was full.
    pub dropped: usize,
}

/// Counts of one connection's datagrams since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Accepted for sending.
    pub sent: u64,
    /// Dropped here: larger than the path or the peer takes.
    pub too_large: u64,
    /// Dropped here: the send buffer was full.
    pub dropped: u64,
    /// Received and taken.
    pub received: u64,
    /// Received and not taken: dropped as the oldest because no one took them in time, or still waiting.
    pub not_taken: u64,
}

/// The counters behind [`DatagramCounts`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    sent: AtomicU64,
    too_large: AtomicU64,
    dropped: AtomicU64,
    received: AtomicU64,
}

impl Counters {
    pub(super) fn read(&self, connection: &quinn::Connection) -> DatagramCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let received = read(&self.received);
        DatagramCounts {
            sent: read(&self.sent),
            too_large: read(&self.too_large),
            dropped: read(&self.dropped),
            received,
            not_taken: connection
                .stats()
                .frame_rx
                .datagram
                .saturating_sub(received),
        }
    }

    pub(super) fn count_sent(&self, batch: SentDatagrams) {
        let add = |counter: &AtomicU64, count: usize| {
            if count > 0 {
                counter.fetch_add(count as u64, Ordering::Relaxed);
            }
        };

        add(&self.sent, batch.sent);
        add(&self.too_large, batch.too_large);
        add(&self.dropped, batch.dropped);
    }
}

/// Hands over the datagrams that fit. quinn would silently drop older datagrams for newer ones:
/// here the newer ones are dropped, and counted.
pub(super) fn send(
    connection: &quinn::Connection,
    counters: &Counters,
    datagrams: impl IntoIterator<Item = Bytes>,
) -> SentDatagrams {
    let largest = connection.max_datagram_size().unwrap_or(0);
    let mut room = connection.datagram_send_buffer_space();
    let mut batch = SentDatagrams::default();

    for datagram in datagrams {
        let needs = datagram.len() + OVERHEAD;
        if datagram.len() > largest {
            batch.too_large += 1;
        } else if needs > room {
            batch.dropped += 1;
        } else {
            match connection.send_datagram(datagram) {
                Ok(()) => {
                    room -= needs;
                    batch.sent += 1;
                }
                Err(SendDatagramError::ConnectionLost(_)) => batch.dropped += 1,
                Err(_) => batch.too_large += 1,
            }
        }
    }

    counters.count_sent(batch);
    batch
}

/// Waits for one datagram, then takes those that are there, `most` at most.
pub(super) async fn receive(
    connection: &quinn::Connection,
    counters: &Counters,
    into: &mut Vec<Bytes>,
    most: usize,
) -> Result<(), ConnectionError> {
    let before = into.len();
    into.push(connection.read_datagram().await?);
    let mut cx = Context::from_waker(Waker::noop());

    while into.len() - before < most {
        match pin!(connection.read_datagram()).poll(&mut cx) {
            Poll::Ready(Ok(datagram)) => into.push(datagram),
            // The next call reports the error, after the datagrams before it were used.
            Poll::Ready(Err(_)) | Poll::Pending => break,
        }
    }

    counters
        .received
        .fetch_add((into.len() - before) as u64, Ordering::Relaxed);
    Ok(())
}
