//! Arbitrary bytes at an interface.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::interface::Interface;
use crate::macs::MacKeys;
use crate::message::MAC;
use crate::peer::PeerSettings;
use crate::timestamp::WallClock;
use hermes_noise::{PrivateKey, PublicKey};

/// Gives an interface arbitrary bytes, as they are and with a MAC that is right: no packet comes of them, nothing is kept of them, and no answer
/// is longer than its question.
///
/// # Panics
/// One of that is not so.
pub(crate) fn fuzz_one(data: &[u8], now: Instant) {
    let Ok(key) = PrivateKey::of([0x41; 32]) else {
        return;
    };
    let clock = WallClock {
        at: now,
        unix: Duration::from_secs(1),
    };
    let Ok(mut interface) = Interface::new(key, clock) else {
        return;
    };
    let peer = PeerSettings {
        public_key: PublicKey([9; 32]),
        preshared_key: None,
        endpoint: None,
        allowed: Vec::new(),
        keepalive: None,
        mtu: 1420,
    };
    let id = interface.add_peer(peer, clock.at);

    take(&mut interface, data, clock.at);
    if let Some(body) = data.len().checked_sub(2 * MAC) {
        let mut message = data[..body].to_vec();
        MacKeys::of(&interface.public_key()).complete(&mut message, None);
        take(&mut interface, &message, clock.at);
    }
    let view = id.ok().and_then(|id| interface.view(id, clock.at));
    assert!(view.is_some_and(|view| view.endpoint.is_none()));
}

fn take(interface: &mut Interface, datagram: &[u8], now: Instant) {
    let from = SocketAddr::from(([192, 0, 2, 1], 51820));
    let mut room = Vec::new();
    let packet = interface.handle_datagram(from, datagram, &mut room, now);
    assert!(packet.is_none() && room.is_empty());
    while let Some(answer) = interface.poll_outgoing() {
        assert!(answer.payload.len() <= datagram.len());
    }
}
