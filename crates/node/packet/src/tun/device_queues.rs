//! The queues of a device: each is read by one worker, and a flow stays in one of them.
//!
//! The kernel gives a packet to the queue into which the answers of its flow were written last, and
//! chooses by a hash of its own without any. So packets are written to the queue where their flow
//! is read: otherwise the kernel would move the flow, and packets that wait in the old queue would
//! be overtaken.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use hermes_net::tun::{HEADER_BYTES, TunPort, TunQueue, TunWriter};
use hermes_proto::ip::{IpFlow, Packet};
use parking_lot::Mutex;

/// Flows for which a device with several queues remembers the reading queue, two bytes each. Those
/// that share an entry may change their queue.
#[doc(alias = "bound")]
const FLOW_ENTRIES: usize = 32_768;

/// The queues.
#[derive(Debug)]
pub(super) struct DeviceQueues {
    writers: Vec<TunWriter>,
    /// Queues that no worker reads yet.
    unread: Mutex<Vec<ReadQueue<TunQueue>>>,
    /// How many packets came out of each.
    packets: Vec<AtomicU64>,
    flows: QueueOfFlows,
}

/// A queue, and its number.
#[derive(Debug)]
struct ReadQueue<Q> {
    number: usize,
    queue: Q,
}

/// A queue of the worker that reads it.
#[derive(Debug)]
pub struct ClaimedQueue {
    pub(super) number: usize,
    pub(super) port: TunPort,
}

impl DeviceQueues {
    /// The queues of a new device.
    pub(super) fn new(queues: Vec<TunQueue>) -> Self {
        let count = queues.len();
        let writers = queues.iter().map(TunQueue::writer).collect();
        let numbered = queues.into_iter().enumerate();
        let unread = numbered.map(|(number, queue)| ReadQueue { number, queue });
        Self {
            writers,
            unread: Mutex::new(unread.collect()),
            packets: (0..count).map(|_| AtomicU64::new(0)).collect(),
            flows: QueueOfFlows::new(count),
        }
    }

    /// A queue that no one reads yet, for the runtime that this is called in.
    pub(super) fn claim(&self) -> io::Result<Option<ClaimedQueue>> {
        let Some(ReadQueue { number, queue }) = self.unread.lock().pop() else {
            return Ok(None);
        };
        let port = queue.register()?;
        Ok(Some(ClaimedQueue { number, port }))
    }

    /// A packet came out of this queue.
    pub(super) fn note(&self, number: usize, packet: &Packet<'_>) {
        self.packets[number].fetch_add(1, Ordering::Relaxed);
        self.flows.note(&packet.flow(), number);
    }

    /// Writes a packet with its header, into the queue out of which its answers come.
    ///
    /// # Errors
    /// As [`TunWriter::write`].
    pub(super) fn write(&self, header: &[u8; HEADER_BYTES], packet: &[u8]) -> io::Result<()> {
        let number = match Packet::parse(packet) {
            Ok(parsed) if self.writers.len() > 1 => self.flows.queue(&parsed.flow()),
            _ => 0,
        };
        self.writers[number].write(header, packet)
    }

    /// How many packets came out of each.
    pub(super) fn packets(&self) -> Vec<u64> {
        let counts = self.packets.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

/// In which queue the packets of each flow are read.
#[derive(Debug)]
struct QueueOfFlows {
    queues: usize,
    /// By hash: one more than the number of the queue; 0 for none yet.
    entries: Vec<AtomicU16>,
    hasher: RandomState,
}

impl QueueOfFlows {
    fn new(queues: usize) -> Self {
        let entries = if queues > 1 { FLOW_ENTRIES } else { 0 };
        Self {
            queues,
            entries: (0..entries).map(|_| AtomicU16::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Both directions of a flow have one entry.
    fn hash(&self, flow: &IpFlow) -> usize {
        let one: (IpAddr, u16) = (flow.source, flow.source_port);
        let other: (IpAddr, u16) = (flow.destination, flow.destination_port);
        let ends = if one <= other {
            (one, other)
        } else {
            (other, one)
        };
        self.hasher.hash_one((ends, flow.protocol)) as usize
    }

    fn note(&self, flow: &IpFlow, number: usize) {
        if self.entries.is_empty() {
            return;
        }
        let entry = &self.entries[self.hash(flow) % FLOW_ENTRIES];
        let noted = number as u16 + 1;
        // Most packets are of a flow that is known: nothing is written then, which other workers would have to wait for.
        if entry.load(Ordering::Relaxed) != noted {
            entry.store(noted, Ordering::Relaxed);
        }
    }

    fn queue(&self, flow: &IpFlow) -> usize {
        if self.entries.is_empty() {
            return 0;
        }
        let hash = self.hash(flow);
        match self.entries[hash % FLOW_ENTRIES].load(Ordering::Relaxed) {
            // Without an answer, the queue follows from the hash.
            0 => hash / FLOW_ENTRIES % self.queues,
            noted => usize::from(noted) - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> IpFlow {
        IpFlow {
            source: [192, 0, 2, 1].into(),
            destination: [198, 51, 100, 2].into(),
            protocol: 17,
            source_port: port,
            destination_port: 443,
        }
    }

    #[test]
    fn answers_go_where_their_flow_is_read_and_new_flows_are_spread() {
        let queues = QueueOfFlows::new(3);
        let mut used = [0; 3];
        for port in 1..=300 {
            used[queues.queue(&flow(port))] += 1;
        }
        assert!(used.iter().all(|count| *count > 30), "{used:?}");

        for number in [0, 2, 1] {
            queues.note(&flow(7), number);
            assert_eq!(queues.queue(&flow(7)), number);
            assert_eq!(queues.queue(&flow(7).reversed()), number);
        }
    }

    #[test]
    fn one_queue_has_all_and_remembers_nothing() {
        let queues = QueueOfFlows::new(1);
        queues.note(&flow(7), 0);
        assert_eq!(queues.queue(&flow(7)), 0);
        assert!(queues.entries.is_empty());
    }
}
