//! The flows of a tunnel: counted, and told of when they end.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use hermes_ip::{EndedFlow, FlowCount, FlowSampling, FlowTable};
use hermes_proto::ip::Packet;
use hermes_rules::packets::OpenedBy;

/// Flows that are ended beside one packet: no packet waits for many.
#[doc(alias = "bound")]
const ENDED_AT_ONCE: usize = 4;

/// The facts of a flow when it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowMark {
    /// Which side of the tunnel sent its first packet.
    pub opened_by: OpenedBy,
    /// The rule that decided about that, or `default`; `None`: there is no policy, or it was not asked.
    pub rule: Option<Arc<str>>,
    /// Whether it may pass.
    pub is_allowed: bool,
}

/// Receives the events of flows.
pub trait FlowWatcher: Send {
    /// One begins.
    fn began(&mut self, is_allowed: bool);

    /// One has ended.
    fn ended(&mut self, flow: EndedFlow<FlowMark>, now: Instant);
}

/// The flows of one tunnel. Open ones end when it is dropped.
pub struct FlowLedger {
    table: FlowTable<FlowMark>,
    watcher: Box<dyn FlowWatcher>,
}

impl fmt::Debug for FlowLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowLedger")
            .field("open", &self.table.len())
            .finish_non_exhaustive()
    }
}

impl FlowLedger {
    /// Follows flows as `sampling` says, and tells `watcher` of them. `seed` is a number that peers do not know.
    pub fn new(sampling: FlowSampling, seed: u64, watcher: impl FlowWatcher + 'static) -> Self {
        Self {
            table: FlowTable::new(sampling, seed),
            watcher: Box::new(watcher),
        }
    }

    /// How many flows are open.
    pub fn open(&self) -> usize {
        self.table.len()
    }

    /// Goes on with the flows of another one, if that follows as this does.
    pub(super) fn go_on(&mut self, other: &mut Self) {
        if other.table.sampling() == self.table.sampling() {
            std::mem::swap(&mut self.table, &mut other.table);
        }
    }

    /// Counts a packet that was decided about. `mark` is asked about the first packet of a flow.
    pub(super) fn handle_packet(
        &mut self,
        packet: &Packet<'_>,
        packets: usize,
        now: Instant,
        mark: impl FnOnce() -> FlowMark,
    ) {
        let count = FlowCount {
            packets: packets as u64,
            bytes: packet.bytes().len() as u64,
        };
        let mut began = None;
        let mark = || {
            let mark = mark();
            began = Some(mark.is_allowed);
            mark
        };
        let ended = self.table.handle_packet(packet, count, now, mark);
        if let Some(ended) = ended {
            self.watcher.ended(ended, now);
        }
        if let Some(is_allowed) = began {
            self.watcher.began(is_allowed);
        }
        self.end_silent(now, ENDED_AT_ONCE);
    }

    /// Ends so many flows that have ended by now.
    pub(super) fn end_silent(&mut self, now: Instant, most: usize) {
        for _ in 0..most {
            let Some(ended) = self.table.poll_ended(now) else {
                return;
            };
            self.watcher.ended(ended, now);
        }
    }
}

impl Drop for FlowLedger {
    fn drop(&mut self) {
        let now = Instant::now();
        while let Some(ended) = self.table.poll_rest() {
            self.watcher.ended(ended, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hermes_ip::FlowEnd;
    use parking_lot::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Watched(Arc<Mutex<(usize, Vec<FlowEnd>)>>);

    impl FlowWatcher for Watched {
        fn began(&mut self, _: bool) {
            self.0.lock().0 += 1;
        }

        fn ended(&mut self, flow: EndedFlow<FlowMark>, _: Instant) {
            self.0.lock().1.push(flow.end);
        }
    }

    fn echo(last: u8) -> Vec<u8> {
        let mut packet = vec![
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0, 10, 7, 0, 2, 10, 0, 2, last,
        ];
        let sum = hermes_proto::ip::checksum::checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend([8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
        packet
    }

    fn see(ledger: &mut FlowLedger, last: u8, now: Instant) {
        let packet = echo(last);
        let packet = Packet::parse(&packet).unwrap();
        ledger.handle_packet(&packet, 1, now, || FlowMark {
            opened_by: OpenedBy::Client,
            rule: None,
            is_allowed: true,
        });
    }

    #[test]
    fn every_flow_is_told_of_once_although_another_ledger_goes_on_with_it() {
        let sampling = FlowSampling {
            one_in: 1,
            silence: Duration::from_secs(10),
            room: 100,
        };
        let watched = Watched::default();
        let now = Instant::now();
        let mut ledger = FlowLedger::new(sampling, 1, watched.clone());
        for last in 1..=20 {
            see(&mut ledger, last, now);
        }

        let mut next = FlowLedger::new(sampling, 2, watched.clone());
        next.go_on(&mut ledger);
        drop(ledger);
        assert_eq!((next.open(), watched.0.lock().1.len()), (20, 0));
        see(&mut next, 1, now + Duration::from_secs(11));
        assert_eq!(
            watched.0.lock().1.len(),
            ENDED_AT_ONCE,
            "no packet waits for all"
        );
        next.end_silent(now + Duration::from_secs(12), usize::MAX);
        assert_eq!((next.open(), watched.0.lock().1.len()), (1, 19));
        drop(next);
        let (began, ended) = &*watched.0.lock();
        assert_eq!((*began, ended.len()), (20, 20));
        assert_eq!(ended.last(), Some(&FlowEnd::TunnelEnded));
    }
}
