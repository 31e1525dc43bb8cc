//! One end of a tunnel whose datagrams are recovered.

use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::frame::{Frame, FrameBody, FrameError, Report};
use crate::receiver::{Came, Receiver};
use crate::sender::Sender;
use crate::settings::RecoverySettings;

/// One end: what its owner sends goes out as frames, and frames of the peer come out as datagrams, in their order.
///
/// After each call, what is in [`poll_frame`](Self::poll_frame) is to be sent to the peer, what is in [`poll_datagram`](Self::poll_datagram)
/// to be given to the owner, and [`handle_time`](Self::handle_time) to be called at [`due`](Self::due).
#[derive(Debug)]
pub struct RecoveryEnd {
    tag: u16,
    sender: Sender,
    receiver: Receiver,
}

/// Counts of an end so far, in datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecoveryTally {
    /// Sent again, for the peer asked for them.
    pub sent_again: u64,
    /// Sent as parity.
    pub sent_parity: u64,
    /// Of the peer's, those that came when they were sent again.
    pub came_again: u64,
    /// Of the peer's, those that were computed from parity.
    pub computed: u64,
    /// Of the peer's, those that were given up.
    pub lost: u64,
    /// Of the peer's, those that came twice or too late.
    pub spare: u64,
}

impl RecoveryEnd {
    /// An end that sends so. `tag` is random, so that the peer knows frames of an earlier path; `within` is the time that both agreed on.
    #[must_use]
    pub fn new(settings: RecoverySettings, within: Duration, tag: u16) -> Self {
        Self {
            tag,
            sender: Sender::new(settings, tag),
            receiver: Receiver::new(within, settings.bytes),
        }
    }

    /// Sends so from now on.
    pub fn set(&mut self, settings: RecoverySettings) {
        self.sender.set(settings);
    }

    /// Sends a datagram of the owner.
    pub fn send(&mut self, datagram: &[u8], now: Instant) {
        self.sender.send(datagram, now);
    }

    /// Takes a frame of the peer.
    ///
    /// # Errors
    /// It is malformed, and has no effect.
    pub fn handle_frame(&mut self, frame: Bytes, now: Instant) -> Result<(), FrameError> {
        let Frame { tag, body } = Frame::decode(frame)?;
        match body {
            FrameBody::Data {
                number,
                attempt,
                payload,
            } => {
                let came = Came {
                    number,
                    attempt,
                    payload,
                };
                self.receiver.handle_data(tag, came, now);
            }
            FrameBody::Parity {
                block,
                index,
                shard,
            } => self.receiver.handle_parity(tag, block, (index, shard), now),
            FrameBody::Probe(probe) => {
                let report = self.receiver.handle_probe(tag, probe, now);
                self.report(tag, report);
            }
            FrameBody::Report(report) if tag == self.tag => {
                self.sender.handle_report(&report, now);
            }
            // It is about an earlier path.
            FrameBody::Report(_) => {}
        }
        Ok(())
    }

    /// When [`handle_time`](Self::handle_time) is to be called; `None` if nothing is waited for.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.sender
            .due()
            .into_iter()
            .chain(self.receiver.due())
            .min()
    }

    /// Acts on the time.
    pub fn handle_time(&mut self, now: Instant) {
        self.sender.handle_time(now);
        if let Some(report) = self.receiver.handle_time(now)
            && let Some(tag) = self.receiver.tag()
        {
            self.report(tag, report);
        }
    }

    /// The next frame for the peer.
    pub fn poll_frame(&mut self) -> Option<Bytes> {
        self.sender.frames.pop_front()
    }

    /// Whether there is a frame for the peer.
    #[must_use]
    pub fn has_frames(&self) -> bool {
        !self.sender.frames.is_empty()
    }

    /// The next datagram for the owner.
    pub fn poll_datagram(&mut self) -> Option<Bytes> {
        self.receiver.datagrams.pop_front()
    }

    /// Whether there is a datagram for the owner.
    #[must_use]
    pub fn has_datagrams(&self) -> bool {
        !self.receiver.datagrams.is_empty()
    }

    /// Its counts so far.
    #[must_use]
    pub fn tally(&self) -> RecoveryTally {
        RecoveryTally {
            sent_again: self.sender.tally.again,
            sent_parity: self.sender.tally.parity,
            came_again: self.receiver.tally.again,
            computed: self.receiver.tally.computed,
            lost: self.receiver.tally.lost,
            spare: self.receiver.tally.spare,
        }
    }

    /// The share of our datagrams that the path loses, from 0 to 1, as the peer's reports show it.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.sender.loss()
    }

    /// The round trip to the peer, once it is measured.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.sender.round_trip()
    }

    /// Reports are about the peer's stream, and so bear its tag.
    fn report(&mut self, tag: u16, report: Report) {
        let frame = Frame {
            tag,
            body: FrameBody::Report(report),
        };
        self.sender.push_report(frame.encode());
    }
}
