//! What one process of a node tells another about a neighbour: frames that it has opened, and the neighbour's address.

use std::time::Duration;

use bytes::Bytes;
use hermes_custody::Engine;
use hermes_custody::engine::{Came, Whereabouts};
use hermes_proto::custody::CustodyPacket;

use crate::pair::{Pair, client_at, engine};

/// A client and a server that have an exchange, and another process of the server, which has just come.
struct Succession {
    pair: Pair,
    newer: Engine,
}

impl Succession {
    fn new() -> Self {
        let mut pair = Pair::new();
        pair.open(1, true);
        pair.settle();
        pair.server.set_shared(true);
        let (mut newer, _) = engine(&pair.keys[1], &pair.keys[0], None, pair.now);
        newer.set_shared(true);
        Self { pair, newer }
    }

    fn came(&self) -> Came {
        Came {
            from: client_at(),
            waited: Duration::ZERO,
            now: self.pair.now,
        }
    }

    /// The messages by which the older process gives on what the client says next.
    fn opened(&mut self) -> Vec<Bytes> {
        let now = self.pair.now;
        let Pair { client, server, .. } = &mut self.pair;
        while let Some((_, datagram)) = client.poll_transmit(now) {
            server.handle_datagram(&datagram, client_at(), now);
        }
        let foreign = std::iter::from_fn(|| server.poll_foreign());
        let foreign: Vec<_> = foreign.collect();
        let messages = foreign.iter().map(|frames| server.encode_foreign(frames));
        messages.collect()
    }

    /// The newer process begins the exchange of such a message.
    fn begin(&mut self, message: &Bytes) {
        let frames = self.newer.foreign(message, self.came()).unwrap();
        self.newer.handle_foreign(frames);
    }

    /// The newer process hears where the older one knows the client to be.
    fn tell(&mut self) {
        let now = self.pair.now;
        let known = self.pair.server.whereabouts(now);
        assert_eq!(known.len(), 1);
        let told = Whereabouts::decode(&known[0].encode(), known[0].address).unwrap();
        self.newer.handle_whereabouts(&told, now);
    }
}

#[test]
fn a_process_answers_at_an_address_that_another_vouches_for_whichever_word_comes_first() {
    for is_told_first in [true, false] {
        let mut all = Succession::new();
        all.pair.open(2, true);
        let opened = all.opened();
        assert_eq!(opened.len(), 1);
        if is_told_first {
            all.tell();
            all.begin(&opened[0]);
        } else {
            all.begin(&opened[0]);
            all.tell();
        }

        // It has no keys yet.
        let (to, datagram) = all.newer.poll_transmit(all.pair.now).unwrap();
        assert_eq!(to, client_at());
        let packet = CustodyPacket::decode(&datagram);
        assert!(matches!(packet, Ok(CustodyPacket::Hello { .. })));
    }
}

#[test]
fn an_address_that_no_one_vouches_for_is_answered_once_enough_has_come_from_there() {
    let mut all = Succession::new();
    all.pair.open(2, true);
    let mut heard = 0;
    let mut said = 0;
    for _ in 0..1000 {
        for message in all.opened() {
            heard += message.len();
            all.begin(&message);
        }
        while let Some((_, datagram)) = all.newer.poll_transmit(all.pair.now) {
            said += datagram.len();
        }
        assert!(said <= 3 * heard, "{said} for {heard}");
        all.pair.now += Duration::from_millis(1);
    }
    assert!(said > 0, "{heard} were heard");
}
