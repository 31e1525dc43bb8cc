//! One end of a resumable tunnel, without the streams.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::SESSION;
use super::capsules::{
    ResumableDecoder, ResumableError, ResumablePiece, ResumeOf, encode_ack, encode_reset,
    encode_resume,
};
use super::window::{OVERHEAD, Window};

/// Bytes that are received before they are acknowledged, unless the end comes first. Until then the peer keeps them.
#[doc(alias = "bound")]
const UNACKNOWLEDGED: u64 = 32 * 1024;

/// The same of pieces, which cost their sender more than their bytes.
#[doc(alias = "bound")]
const UNACKNOWLEDGED_PIECES: u32 = 32;

/// The smallest replay window, in bytes: with less, both ends could wait for each other.
pub const LEAST_WINDOW: usize = 64 * 1024;

/// An event for the side that this end serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Bytes.
    Data(Bytes),
    /// The end of the direction, once.
    End,
    /// The tunnel is over, because the far side broke: an error code of HTTP/2, and words.
    Reset(u64, String),
}

/// One end of a tunnel that outlives the path to the other end.
///
/// Bytes of the side that it serves go in by [`keep`](Self::keep) as far as there is
/// [`room`](Self::room), and leave as capsules by [`poll_send`](Self::poll_send). Bytes from the
/// path go in by [`handle_path`](Self::handle_path) once nothing is left to be
/// [delivered](Self::poll_deliver). When the path is lost, [`resume`](Self::resume) begins the next
/// one.
#[derive(Debug)]
pub struct ResumableEnd {
    session: [u8; SESSION],
    epoch: u64,
    /// The most that the replay window may cost, in bytes.
    limit: usize,
    window: Window,
    /// The side that this end serves has ended its direction.
    ended: bool,
    decoder: ResumableDecoder,
    deliveries: VecDeque<Delivery>,
    arrived: Arrived,
    path: PathState,
    /// Why the tunnel is over here, which the peer is told last.
    reset: Option<(u64, String)>,
}

/// Bytes received from the peer.
#[derive(Debug, Default)]
struct Arrived {
    /// Bytes, and one for the end.
    received: u64,
    /// The count that the peer was told.
    told: u64,
    /// Pieces received since then.
    pieces: u32,
    ended: bool,
}

/// How far the agreement on a path has come.
#[derive(Debug, PartialEq, Eq)]
enum PathState {
    /// Data may be sent and received.
    Open,
    /// RESUME has to be sent and received before data.
    Greeting { is_said: bool, is_heard: bool },
    /// RESET was sent, which ends the tunnel.
    Over,
}

impl ResumableEnd {
    /// One end of a new tunnel. Its replay window may cost [`LEAST_WINDOW`] at first.
    pub fn new(session: [u8; SESSION], epoch: u64) -> Self {
        Self {
            session,
            epoch,
            limit: LEAST_WINDOW,
            window: Window::default(),
            ended: false,
            decoder: ResumableDecoder::default(),
            deliveries: VecDeque::new(),
            arrived: Arrived::default(),
            path: PathState::Open,
            reset: None,
        }
    }

    /// The session's name.
    pub fn session(&self) -> [u8; SESSION] {
        self.session
    }

    /// The cost of the replay window now, in bytes.
    pub fn held(&self) -> usize {
        self.window.held()
    }

    /// Sets the most that the window may cost; never less than [`LEAST_WINDOW`].
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(LEAST_WINDOW);
    }

    /// Bytes that may be read from the side that this end serves; 0 after its end.
    pub fn room(&self) -> usize {
        if self.ended {
            return 0;
        }
        self.limit.saturating_sub(self.window.held() + OVERHEAD)
    }

    /// Keeps bytes of the served side until the peer has acknowledged them.
    pub fn keep(&mut self, bytes: &[u8]) {
        debug_assert!(!self.ended, "bytes after the end");
        if !bytes.is_empty() {
            self.window.push(bytes, false);
        }
    }

    /// The served side has ended its direction.
    pub fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            self.window.push(b"", true);
        }
    }

    /// The served side broke, or the tunnel may not go on: the peer is told before anything else.
    pub fn reset(&mut self, code: u64, reason: &str) {
        self.reset.get_or_insert_with(|| (code, reason.to_owned()));
    }

    /// The next bytes for the path.
    pub fn poll_send(&mut self) -> Option<Bytes> {
        match &mut self.path {
            PathState::Over => return None,
            PathState::Greeting { is_said, .. } if !*is_said => {
                *is_said = true;
                return Some(self.greeting());
            }
            PathState::Greeting { .. } | PathState::Open => {}
        }

        // Behind the greeting, without which the peer cannot tell the tunnel; before data, which has no use any more.
        if let Some((code, reason)) = &self.reset {
            let mut output = BytesMut::new();
            encode_reset(*code, reason, &mut output);
            self.path = PathState::Over;
            return Some(output.freeze());
        }
        if self.path != PathState::Open {
            return None;
        }
        if self.owes_ack() {
            return Some(self.ack());
        }
        self.window.send()
    }

    /// Whether [`poll_send`](Self::poll_send) has said the last of this tunnel.
    pub fn has_said_reset(&self) -> bool {
        self.path == PathState::Over
    }

    fn greeting(&mut self) -> Bytes {
        let mut output = BytesMut::new();
        let resume = ResumeOf {
            session: self.session,
            epoch: self.epoch,
            received: self.arrived.received,
        };
        encode_resume(&resume, &mut output);

        self.arrived.told = self.arrived.received;
        self.arrived.pieces = 0;
        self.greeted();
        output.freeze()
    }

    /// Opens the path once both ends have said how much they received.
    fn greeted(&mut self) {
        if self.path
            == (PathState::Greeting {
                is_said: true,
                is_heard: true,
            })
        {
            self.path = PathState::Open;
        }
    }

    fn owes_ack(&self) -> bool {
        let Arrived {
            received,
            told,
            pieces,
            ended,
        } = self.arrived;

        received - told >= UNACKNOWLEDGED
            || pieces >= UNACKNOWLEDGED_PIECES
            || ended && received > told
    }

    fn ack(&mut self) -> Bytes {
        let mut output = BytesMut::new();
        encode_ack(self.arrived.received, &mut output);
        self.arrived.told = self.arrived.received;
        self.arrived.pieces = 0;
        output.freeze()
    }

    /// Whether more may be taken from the path: all that came has been delivered.
    pub fn wants_path(&self) -> bool {
        self.deliveries.is_empty()
    }

    /// Handles bytes from the path.
    ///
    /// # Errors
    /// The peer does not keep to the protocol: the tunnel is over.
    pub fn handle_path(&mut self, chunk: Bytes) -> Result<(), ResumableError> {
        self.decoder.push(chunk);
        while let Some(piece) = self.decoder.next()? {
            self.handle(piece)?;
        }
        Ok(())
    }

    fn handle(&mut self, piece: ResumablePiece) -> Result<(), ResumableError> {
        if let PathState::Greeting { is_heard, .. } = &mut self.path
            && !*is_heard
        {
            // First of all: bytes of another session must never reach this one.
            let ResumablePiece::Resume(resume) = piece else {
                return Err(ResumableError::OtherSession);
            };
            if resume.session != self.session || resume.epoch != self.epoch {
                return Err(ResumableError::OtherSession);
            }

            *is_heard = true;
            self.window.resume(resume.received)?;
            self.greeted();
            return Ok(());
        }

        let arrived = &mut self.arrived;
        match piece {
            ResumablePiece::Data(bytes) => {
                arrived.received += bytes.len() as u64;
                arrived.pieces += 1;
                self.deliveries.push_back(Delivery::Data(bytes));
            }
            ResumablePiece::End => {
                arrived.received += 1;
                arrived.ended = true;
                self.deliveries.push_back(Delivery::End);
            }
            ResumablePiece::Ack(received) => self.window.acknowledge(received)?,
            ResumablePiece::Reset(code, reason) => {
                self.deliveries.push_back(Delivery::Reset(code, reason));
            }
            ResumablePiece::Resume(_) => return Err(ResumableError::OtherSession),
        }
        Ok(())
    }

    /// The next event for the side that this end serves.
    pub fn poll_deliver(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// Continues the tunnel on another path, of which no byte was read or written yet.
    pub fn resume(&mut self) {
        self.decoder = ResumableDecoder::after(self.arrived.ended);
        self.path = PathState::Greeting {
            is_said: false,
            is_heard: false,
        };
    }

    /// Whether both directions have ended and arrived, and both ends know; the last acknowledgment of this end may be on its way.
    pub fn is_complete(&self) -> bool {
        self.path == PathState::Open
            && self.ended
            && self.window.is_empty()
            && self.arrived.ended
            && self.arrived.told == self.arrived.received
    }
}

/// A peer that sends arbitrary bytes is answered within bounds, and can acknowledge only bytes that
/// were sent.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let [how, stream @ ..] = data else { return };
    let mut end = ResumableEnd::new([0; SESSION], 0);
    end.keep(b"some bytes");
    if how & 1 == 1 {
        end.resume();
    }

    for chunk in stream.chunks(usize::from(*how).max(1)) {
        while end.poll_send().is_some() {}
        if end.handle_path(Bytes::copy_from_slice(chunk)).is_err() {
            return;
        }
        while end.poll_deliver().is_some() {}
        assert!(end.held() <= LEAST_WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A tunnel between two ends, and the path between them.
    struct Pair {
        ends: [ResumableEnd; 2],
        /// Capsules on their way to each end.
        wires: [VecDeque<Bytes>; 2],
        delivered: [Vec<u8>; 2],
        ended: [bool; 2],
    }

    impl Pair {
        fn new() -> Self {
            let end = || ResumableEnd::new([7; SESSION], 9);
            Self {
                ends: [end(), end()],
                wires: Default::default(),
                delivered: Default::default(),
                ended: [false; 2],
            }
        }

        /// An end sends one capsule; false if it has none.
        fn send(&mut self, from: usize) -> bool {
            let sent = self.ends[from].poll_send();
            let is_some = sent.is_some();
            self.wires[1 - from].extend(sent);
            is_some
        }

        /// An end takes one chunk, and delivers it; false if there is no chunk.
        fn take(&mut self, to: usize) -> bool {
            let Some(chunk) = self.wires[to].pop_front() else {
                return false;
            };
            self.ends[to].handle_path(chunk).unwrap();
            while let Some(delivery) = self.ends[to].poll_deliver() {
                match delivery {
                    Delivery::Data(bytes) => self.delivered[to].extend_from_slice(&bytes),
                    Delivery::End => {
                        assert!(!std::mem::replace(&mut self.ended[to], true), "one end");
                    }
                    Delivery::Reset(..) => panic!("a reset"),
                }
            }
            true
        }

        /// The path is lost with its capsules, and another begins.
        fn lose(&mut self) {
            self.wires = Default::default();
            self.ends.iter_mut().for_each(ResumableEnd::resume);
        }

        fn settle(&mut self) {
            while (0..2).any(|end| self.send(end) || self.take(end)) {}
        }
    }

    #[test]
    fn a_small_tunnel_costs_two_capsules_and_an_acknowledgement_each_way() {
        let mut pair = Pair::new();
        pair.ends[0].keep(b"question");
        pair.ends[0].end();
        pair.ends[1].keep(b"answer");
        pair.ends[1].end();

        let mut capsules = 0;
        while (0..2).any(|end| {
            pair.send(end) && {
                capsules += 1;
                true
            } || pair.take(end)
        }) {}
        assert!(capsules <= 6, "{capsules}");
        assert_eq!(pair.delivered, [b"answer".to_vec(), b"question".to_vec()]);
        assert!(pair.ends.iter().all(ResumableEnd::is_complete));
    }

    #[test]
    fn the_window_holds_back_who_is_not_acknowledged() {
        let mut end = ResumableEnd::new([0; SESSION], 0);
        while end.room() > 0 {
            end.keep(&[0; 1000]);
            assert!(end.poll_send().is_some());
        }
        assert!((LEAST_WINDOW - 1200..LEAST_WINDOW + 1200).contains(&end.held()));
        end.set_limit(LEAST_WINDOW * 2);
        assert!(end.room() > 0);
        end.set_limit(0);
        assert_eq!(end.room(), 0, "there is a least one");
    }

    #[test]
    fn ends_with_the_least_windows_never_wait_for_each_other() {
        for size in [1, 100, 5_000, 40_000] {
            let mut pair = Pair::new();
            let mut kept = 0_usize;
            for _ in 0..3_000 {
                pair.settle();
                let room = pair.ends[0].room();
                assert!(room > 0, "after {kept} bytes in pieces of {size}");
                let piece = vec![1; size.min(room)];
                pair.ends[0].keep(&piece);
                kept += piece.len();
            }
        }
    }

    #[test]
    fn another_session_or_process_is_not_believed() {
        for other in [
            ResumableEnd::new([8; SESSION], 9),
            ResumableEnd::new([7; SESSION], 8),
        ] {
            let mut ends = [ResumableEnd::new([7; SESSION], 9), other];
            ends.iter_mut().for_each(ResumableEnd::resume);
            let greeting = ends[1].poll_send().unwrap();
            assert_eq!(
                ends[0].handle_path(greeting),
                Err(ResumableError::OtherSession)
            );
        }

        let mut end = ResumableEnd::new([7; SESSION], 9);
        end.resume();
        let (data, _) = super::super::capsules::data(b"x", false);
        assert_eq!(end.handle_path(data), Err(ResumableError::OtherSession));
    }

    #[test]
    fn a_reset_is_said_on_the_next_path_if_there_is_none() {
        let mut pair = Pair::new();
        pair.ends[0].keep(b"lost with the tunnel");
        pair.ends[0].reset(8, "the client is gone");
        pair.lose();
        for _ in 0..2 {
            pair.send(0);
            pair.send(1);
        }
        while let Some(chunk) = pair.wires[1].pop_front() {
            pair.ends[1].handle_path(chunk).unwrap();
        }
        assert_eq!(
            pair.ends[1].poll_deliver(),
            Some(Delivery::Reset(8, "the client is gone".to_owned()))
        );
        assert!(pair.ends[0].has_said_reset() && pair.ends[0].poll_send().is_none());
    }

    /// An event of a tunnel.
    #[derive(Debug, Clone)]
    enum Step {
        Keep(usize, Vec<u8>),
        End(usize),
        Send(usize),
        Take(usize),
        Lose,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let end = 0_usize..2;
        let step = prop_oneof![
            3 => (end.clone(), proptest::collection::vec(any::<u8>(), 1..20_000))
                .prop_map(|(end, bytes)| Step::Keep(end, bytes)),
            1 => end.clone().prop_map(Step::End),
            6 => end.clone().prop_map(Step::Send),
            6 => end.prop_map(Step::Take),
            2 => Just(Step::Lose),
        ];
        proptest::collection::vec(step, 0..80)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_byte_is_lost_repeated_or_changed(steps in steps()) {
            let mut pair = Pair::new();
            let mut kept = [Vec::new(), Vec::new()];
            for step in steps {
                match step {
                    Step::Keep(from, bytes) if pair.ends[from].room() > 0 => {
                        kept[from].extend_from_slice(&bytes);
                        pair.ends[from].keep(&bytes);
                    }
                    Step::Keep(..) => {}
                    Step::End(from) => pair.ends[from].end(),
                    Step::Send(from) => drop(pair.send(from)),
                    Step::Take(to) => drop(pair.take(to)),
                    Step::Lose => pair.lose(),
                }
            }

            pair.ends.iter_mut().for_each(ResumableEnd::end);
            pair.settle();
            prop_assert!(pair.delivered[1] == kept[0] && pair.delivered[0] == kept[1]);
            prop_assert!(pair.ended == [true; 2]);
            prop_assert!(pair.ends.iter().all(ResumableEnd::is_complete));
            prop_assert!(pair.ends.iter().all(|end| end.held() == 0));
        }

        #[test]
        fn arbitrary_bytes_are_answered_within_bounds(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            fuzz_one(&data);
        }
    }
}
