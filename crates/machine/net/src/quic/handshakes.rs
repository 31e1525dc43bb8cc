//! Handshakes that have not ended, of one socket: how many there may be, and from when on clients must prove their address.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::peer::network;

/// Unfinished handshakes of one socket above which clients must prove their address first (RFC 9000
/// section 8.1.2): more than a burst of honest clients, fewer than a forger of addresses would need
/// for an effect.
#[doc(alias = "bound")]
pub const RETRY_ABOVE: usize = 64;

/// Unfinished handshakes of one socket; more are refused. Each is a few milliseconds of work and some 50 KiB.
#[doc(alias = "bound")]
pub const HANDSHAKES: usize = 1024;

/// Unfinished handshakes of one source that proved its address: four sources are needed to fill a
/// socket.
#[doc(alias = "bound")]
pub const HANDSHAKES_OF_SOURCE: usize = 256;

/// The unfinished handshakes of a socket. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Handshakes {
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    /// Counts of clients with proven addresses alone: a forged address must not use up its owner's
    /// share.
    proved: HashMap<IpAddr, usize>,
}

/// The decision about a client that asks for a connection.
#[derive(Debug)]
pub(super) enum Judged {
    /// Its handshake may begin.
    Welcome(Handshake),
    /// The client must prove its address first.
    Retry,
    /// There is no room for it.
    Refused,
}

/// Counts one unfinished handshake for as long as it lives.
#[derive(Debug)]
pub(super) struct Handshake {
    of: Handshakes,
    source: Option<IpAddr>,
}

impl Handshakes {
    /// The decision about a client at `peer`, which has `proved` that address or not.
    pub(super) fn judge(&self, peer: SocketAddr, proved: bool, retry_above: usize) -> Judged {
        let mut open = self.open.lock();
        if open.all >= HANDSHAKES {
            return Judged::Refused;
        }

        if !proved && open.all >= retry_above {
            return Judged::Retry;
        }

        let source = proved.then(|| network(peer.ip()));
        if let Some(source) = source {
            let held = open.proved.entry(source).or_default();
            if *held >= HANDSHAKES_OF_SOURCE {
                return Judged::Refused;
            }
            *held += 1;
        }

        open.all += 1;
        drop(open);
        Judged::Welcome(Handshake {
            of: self.clone(),
            source,
        })
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut open = self.of.open.lock();
        open.all -= 1;
        let Some(source) = self.source else { return };

        if let Some(held) = open.proved.get_mut(&source) {
            *held -= 1;
            if *held == 0 {
                open.proved.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome(judged: Judged) -> Handshake {
        let Judged::Welcome(handshake) = judged else {
            panic!("{judged:?}")
        };
        handshake
    }

    fn peer(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().unwrap(), 4433)
    }

    #[test]
    fn clients_prove_their_address_from_the_threshold_on() {
        let handshakes = Handshakes::default();
        let held = [(); 2].map(|()| welcome(handshakes.judge(peer("192.0.2.1"), false, 2)));
        assert!(matches!(
            handshakes.judge(peer("192.0.2.2"), false, 2),
            Judged::Retry
        ));
        drop(welcome(handshakes.judge(peer("192.0.2.2"), true, 2)));
        drop(held);
        drop(welcome(handshakes.judge(peer("192.0.2.2"), false, 2)));
        assert_eq!(handshakes.open.lock().all, 0);
    }

    #[test]
    fn a_source_that_proved_itself_leaves_room_to_others_and_a_forged_one_costs_it_nothing() {
        let handshakes = Handshakes::default();
        let source = peer("192.0.2.1");
        let forged: Vec<_> = (0..300)
            .map(|_| welcome(handshakes.judge(source, false, usize::MAX)))
            .collect();
        let held: Vec<_> = (0..HANDSHAKES_OF_SOURCE)
            .map(|_| welcome(handshakes.judge(source, true, 0)))
            .collect();
        assert!(matches!(handshakes.judge(source, true, 0), Judged::Refused));
        let other = welcome(handshakes.judge(peer("192.0.2.2"), true, 0));
        drop((forged, held, other));
        assert!(
            handshakes.open.lock().proved.is_empty(),
            "nothing is remembered"
        );
    }

    #[test]
    fn all_are_bounded() {
        let handshakes = Handshakes::default();
        let address =
            |index: usize| SocketAddr::from(([10, 0, (index / 256) as u8, (index % 256) as u8], 1));
        let held: Vec<_> = (0..HANDSHAKES)
            .map(|index| welcome(handshakes.judge(address(index), true, 0)))
            .collect();
        assert!(matches!(
            handshakes.judge(peer("192.0.2.2"), true, 0),
            Judged::Refused
        ));
        drop(held);
        drop(welcome(handshakes.judge(peer("192.0.2.2"), true, 0)));
    }
}
