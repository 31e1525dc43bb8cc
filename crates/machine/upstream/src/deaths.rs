//! Messages among the workers about a peer that seems to be gone.
//!
//! Each worker has links of its own, and would have to get an ICMP error of its own when the peer's
//! port is closed. But a machine sends only a few errors a second (RFC 4443, 2.4 (f); RFC 1812,
//! 4.3.2.8), and a worker without one waits for seconds.

use std::net::SocketAddr;

use tokio::sync::broadcast;

/// Messages that wait for a link with a busy worker: a worker that misses one finds out by itself.
#[doc(alias = "bound")]
const WORDS: usize = 4;

/// A message about an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerNotice {
    /// Its machine says that nothing listens there: a hint, that can be forged.
    Refused,
    /// A link to it is dead, and a new connection was refused.
    Gone,
}

/// Where it is said, of one endpoint.
#[derive(Debug)]
pub(crate) struct Deaths(broadcast::Sender<(SocketAddr, PeerNotice)>);

/// Receives the messages about one address.
#[derive(Debug)]
pub(crate) struct NoticeReceiver {
    address: SocketAddr,
    notices: broadcast::Receiver<(SocketAddr, PeerNotice)>,
}

impl Default for Deaths {
    fn default() -> Self {
        Self(broadcast::Sender::new(WORDS))
    }
}

impl Deaths {
    /// Tells all who listen for this address, the caller included.
    pub(crate) fn tell(&self, address: SocketAddr, notice: PeerNotice) {
        // It is no error if there is no receiver.
        let _ = self.0.send((address, notice));
    }

    /// Receives the messages about an address from now on.
    pub(crate) fn subscribe(&self, address: SocketAddr) -> NoticeReceiver {
        NoticeReceiver {
            address,
            notices: self.0.subscribe(),
        }
    }
}

impl NoticeReceiver {
    /// The next notice; never, once there are no senders left. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> PeerNotice {
        use broadcast::error::RecvError;
        loop {
            match self.notices.recv().await {
                Ok((address, notice)) if address == self.address => return notice,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_death_is_told_to_all_who_know_the_address() {
        let (deaths, [one, other]) = (
            Deaths::default(),
            [1, 2].map(|port| SocketAddr::from(([192, 0, 2, 1], port))),
        );
        let mut receivers = [one, one, other].map(|address| deaths.subscribe(address));
        deaths.tell(one, PeerNotice::Refused);
        deaths.tell(one, PeerNotice::Gone);
        deaths.tell(other, PeerNotice::Refused);
        for receiver in &mut receivers[..2] {
            assert_eq!(
                [receiver.next().await, receiver.next().await],
                [PeerNotice::Refused, PeerNotice::Gone]
            );
        }
        assert_eq!(receivers[2].next().await, PeerNotice::Refused);
    }
}
