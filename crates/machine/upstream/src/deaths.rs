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
pub(crate) enum Word {
    /// Its machine says that nothing listens there: a hint, that can be forged.
    Refused,
    /// A link to it is dead, and a new connection was refused.
    Gone,
}

/// Where it is said, of one endpoint.
#[derive(Debug)]
pub(crate) struct Deaths(broadcast::Sender<(SocketAddr, Word)>);

/// Receives the messages about one address.
#[derive(Debug)]
pub(crate) struct Ear {
    address: SocketAddr,
    words: broadcast::Receiver<(SocketAddr, Word)>,
}

impl Default for Deaths {
    fn default() -> Self {
        Self(broadcast::Sender::new(WORDS))
    }
}

impl Deaths {
    /// Tells all who listen for this address, the caller included.
    pub(crate) fn tell(&self, address: SocketAddr, word: Word) {
        // It is no error if there is no receiver.
        let _ = self.0.send((address, word));
    }

    /// Receives the messages about an address from now on.
    pub(crate) fn hear(&self, address: SocketAddr) -> Ear {
        Ear {
            address,
            words: self.0.subscribe(),
        }
    }
}

impl Ear {
    /// The next word; never, once no one can say one. Dropping the future loses nothing.
    pub(crate) async fn word(&mut self) -> Word {
        use broadcast::error::RecvError;
        loop {
            match self.words.recv().await {
                Ok((address, word)) if address == self.address => return word,
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
        let mut ears = [one, one, other].map(|address| deaths.hear(address));
        deaths.tell(one, Word::Refused);
        deaths.tell(one, Word::Gone);
        deaths.tell(other, Word::Refused);
        for ear in &mut ears[..2] {
            assert_eq!(
                [ear.word().await, ear.word().await],
                [Word::Refused, Word::Gone]
            );
        }
        assert_eq!(ears[2].word().await, Word::Refused);
    }
}
