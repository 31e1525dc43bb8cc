//! Received groups of datagrams: each on a stream of its own, which leads to the queue of its session as if QUIC datagrams had come.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermes_net::clock;
use hermes_proto::h3::datagram_group::GroupDecoder;
use hermes_proto::h3::{Code, Fault};
use tokio::time::timeout;

use super::drive::Source;
use super::queue::{Queue, Total};
use super::shared::Shared;

/// How long a group may last: senders give theirs up after ten seconds at most.
#[doc(alias = "bound")]
const LIFE: Duration = Duration::from_secs(15);

/// Groups of one session that are read at once: more than we send.
#[doc(alias = "bound")]
const GROUPS: usize = 96;

/// Reads a group to its end. A mistake ends its stream, and nothing else.
///
/// # Errors
/// It was of no use: it belongs to no session, is malformed, or brings nothing.
pub(super) async fn receive(shared: &Shared, source: &mut Source) -> Result<(), Fault> {
    let received = timeout(LIFE, read(shared, source)).await;
    let received = received.unwrap_or(Err(refused("a group of datagrams does not end")));
    if let Err(fault) = received {
        tracing::debug!(peer = %shared.connection.info().peer, %fault, "a group of datagrams was refused");
        source.stop(fault.code);
    }
    received
}

async fn read(shared: &Shared, source: &mut Source) -> Result<(), Fault> {
    let mut decoder = GroupDecoder::default();
    let head = loop {
        let Some(bytes) = source.next().await else {
            return Err(refused("a group of datagrams ends before its session"));
        };
        decoder.push(&bytes);
        if let Some(head) = decoder.head()? {
            break head;
        }
    };

    let queue = shared.datagrams.queue(head.stream);
    let queue = queue.ok_or(Fault::stream(
        Code::DatagramError,
        "a group of datagrams is of no session",
    ))?;
    let _open = OpenGroup::begin(&queue)?;
    let mut partial = PartialDatagram::new(shared.datagrams.total());
    let mut count = 0;
    loop {
        let mut datagrams = Vec::new();
        while let Some(datagram) = decoder.next_datagram()? {
            datagrams.push(datagram);
        }
        let first = head.first + count;
        count += datagrams.len() as u64;
        queue
            .grouped
            .fetch_add(datagrams.len() as u64, Ordering::Relaxed);
        queue.extend_in_order(first, datagrams, clock::now().into_std());
        partial.set(decoder.held());

        let Some(bytes) = source.next().await else {
            break;
        };
        decoder.push(&bytes);
    }
    match count {
        0 => Err(refused("a group has no datagrams")),
        _ => Ok(()),
    }
}

fn refused(reason: &'static str) -> Fault {
    Fault::stream(Code::ExcessiveLoad, reason)
}

/// Counts a group of a session as long as it is read.
struct OpenGroup<'a>(&'a Queue);

impl<'a> OpenGroup<'a> {
    fn begin(queue: &'a Arc<Queue>) -> Result<Self, Fault> {
        let open = Self(queue);
        let before = queue.groups.fetch_add(1, Ordering::Relaxed);
        match before < GROUPS {
            true => Ok(open),
            false => Err(refused("a session has too many groups of datagrams")),
        }
    }
}

impl Drop for OpenGroup<'_> {
    fn drop(&mut self) {
        self.0.groups.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts the bytes of a datagram whose rest has not come.
struct PartialDatagram<'a> {
    total: &'a Total,
    bytes: usize,
}

impl<'a> PartialDatagram<'a> {
    fn new(total: &'a Total) -> Self {
        Self { total, bytes: 0 }
    }

    fn set(&mut self, bytes: usize) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.total.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for PartialDatagram<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}
