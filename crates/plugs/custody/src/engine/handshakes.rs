//! Handshakes that neighbours begin.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;

use super::Engine;
use super::strangers::RefusedDatagrams;
use crate::neighbour::AcceptedHello;
use crate::noise::respond;

impl Engine {
    /// Handles a HELLO with a good cookie. Its cost before its sender is known is bounded; one that was answered is answered again, which
    /// costs nothing.
    pub(super) fn handle_hello(
        &mut self,
        epoch: u32,
        message: &Bytes,
        from: SocketAddr,
        now: Instant,
    ) {
        let mut neighbours = self.neighbours.iter_mut();
        if let Some(answer) = neighbours.find_map(|known| known.keys.answer_again(message, from)) {
            return self.strangers.answer(answer, from);
        }
        if !self.admits(from, now) {
            return;
        }

        // From here on a HELLO costs agreements of keys: `admits` has bounded how often.
        let Ok(handshake) = respond(&self.identity.key, message) else {
            self.strangers.refused().unknown_keys += 1;
            return;
        };
        let Some(id) = self.keys.known.get(&handshake.peer).copied() else {
            self.strangers.refused().unknown_keys += 1;
            self.strangers.unknown = Some((from, handshake.peer));
            return;
        };
        // The HELLO comes again, if there is no number that is free.
        let Some(own) = drawn().filter(|own| self.of_epoch(*own).is_none()) else {
            return;
        };
        let accepted = AcceptedHello::new((own, epoch), message.clone(), handshake, now);
        self.strangers.answer(accepted.answer.clone(), from);
        self.neighbours[id.0].handle_hello(accepted, from);
        self.note_epoch(own, id);
    }

    /// The datagrams that were refused.
    pub fn refused(&mut self) -> RefusedDatagrams {
        *self.strangers.refused()
    }

    /// Whether a message of a handshake from there is read.
    pub(super) fn admits(&mut self, from: SocketAddr, now: Instant) -> bool {
        let addresses = self.neighbours.iter().filter_map(|known| known.address());
        let is_neighbour = addresses.into_iter().any(|known| known.ip() == from.ip());
        self.strangers.admits(from.ip(), is_neighbour, now)
    }
}

/// A number that no one can guess, if there is one.
fn drawn() -> Option<u32> {
    let mut drawn = [0; 4];
    let is_drawn = aws_lc_rs::rand::fill(&mut drawn).is_ok();
    is_drawn.then(|| u32::from_be_bytes(drawn))
}
