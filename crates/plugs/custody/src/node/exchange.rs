//! The exchanges of a node, as the tasks have them that carry their requests and responses.

use std::time::Instant;

use bytes::Bytes;
use hermes_net::StreamInfo;
use hermes_proto::custody::ErrCode;
use tokio::sync::watch as changes;

use super::{Custody, OpenExchange};
use crate::engine::{AskingProgress, ExchangeKey, NeighbourId, Opening, Reading};
use crate::owner::HeldAccount;

/// Bytes that are read of an exchange at once.
#[doc(alias = "bound")]
const READ: usize = 64 * 1024;

/// One side of an exchange. If this node began it, dropping it ends it.
pub(crate) struct Exchange {
    custody: Custody,
    key: ExchangeKey,
    asking: bool,
}

/// The exchange is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Over;

impl Custody {
    /// Begins an exchange for a request that came from there; `None` if there are too many.
    pub(crate) fn open(
        &self,
        neighbour: NeighbourId,
        repeatable: bool,
        source: &StreamInfo,
    ) -> Option<Exchange> {
        let parent = self.parent(source);
        let mut exchange = [0; 16];
        aws_lc_rs::rand::fill(&mut exchange).ok()?;
        let key = ExchangeKey {
            neighbour,
            exchange,
        };
        let keep = self.0.settings.lock().keep_for;
        let opening = Opening {
            keep,
            repeatable,
            parent,
        };
        let mut engine = self.0.engine.lock();
        if !engine.open(key, opening, Instant::now()) {
            return None;
        }
        drop(engine);
        Some(self.asking(key))
    }

    /// The exchange with this neighbour that was begun for the same request before the node was started again.
    pub(crate) fn adopt(&self, neighbour: NeighbourId, source: &StreamInfo) -> Option<Exchange> {
        let parent = self.parent(source)?;
        let key = self.0.engine.lock().adopt(parent)?;
        let exchange = self.asking(key);
        // Of another neighbour it is not wanted: it ends when it is dropped here.
        (key.neighbour == neighbour).then_some(exchange)
    }

    /// Whether the request from there was acted on when the last process ended, and may not be again.
    pub(crate) fn is_taken_up(&self, source: &StreamInfo) -> bool {
        let parent = self.parent(source);
        parent.is_some_and(|parent| self.0.engine.lock().is_taken_up(parent))
    }

    /// The exchange that the last process began for the request from there goes on.
    pub(crate) fn continues(&self, source: &StreamInfo) {
        let parent = source.origin_key();
        let mut waiting = self.0.waiting.lock();
        if let Some(open) = parent.and_then(|key| waiting.get_mut(key)) {
            open.is_continued = true;
        }
    }

    fn asking(&self, key: ExchangeKey) -> Exchange {
        self.0.waiting.lock().insert(key, OpenExchange::new());
        Exchange {
            custody: self.clone(),
            key,
            asking: true,
        }
    }

    /// The exchange whose request came from there, unless it is over.
    fn parent(&self, source: &StreamInfo) -> Option<ExchangeKey> {
        let key = source.origin_key()?;
        self.0.waiting.lock().contains_key(key).then_some(*key)
    }

    /// An exchange that a neighbour has asked for.
    pub(crate) fn answer(&self, key: ExchangeKey) -> Exchange {
        Exchange {
            custody: self.clone(),
            key,
            asking: false,
        }
    }
}

impl Exchange {
    /// Counts an exchange that a neighbour has begun for this user, as the neighbour names it: the name counts among its own users only.
    pub(crate) fn belongs_to(&self, user: Option<&str>) {
        let mut engine = self.custody.0.engine.lock();
        let owner = engine.owner_of(Some(self.key.neighbour), user);
        engine.belongs(self.key, owner);
    }

    /// It was begun for the request from there, and is of the same owner; or of this user, where a client of this node has asked.
    pub(crate) fn belongs_as(&self, source: &StreamInfo, user: Option<&str>) {
        let parent = self.custody.parent(source);
        let mut engine = self.custody.0.engine.lock();
        let owner = match parent {
            Some(parent) => engine.owner(parent),
            None => user.map(|user| engine.owner_of(None, Some(user))),
        };
        if let Some(owner) = owner {
            engine.belongs(self.key, owner);
        }
    }

    /// An account for the head that its reader holds.
    pub(crate) fn account(&self) -> HeldAccount {
        self.custody.0.engine.lock().account(self.key)
    }

    /// Whether the exchange that the last process began for it goes on.
    pub(crate) fn is_continued(&self) -> bool {
        let waiting = self.custody.0.waiting.lock();
        let open = waiting.get(&self.key);
        open.is_some_and(|open| open.is_continued)
    }

    /// It is a tunnel: both directions end by themselves, and nothing of it is kept on disk.
    pub(crate) fn tunnel(&self) {
        self.custody.0.engine.lock().tunnel(self.key);
    }

    /// No more of a tunnel is read here.
    pub(crate) fn done_reading(&self) {
        let mut engine = self.custody.0.engine.lock();
        engine.done_reading(self.key, Instant::now());
        self.custody.0.due.notify_one();
    }

    /// Whether it was kept when the last process ended.
    pub(crate) fn is_resumed(&self) -> bool {
        self.custody.0.engine.lock().is_resumed(self.key)
    }

    /// Whether it was acted on when the last process ended, and may not be again.
    pub(crate) fn is_taken_up(&self) -> bool {
        self.custody.0.engine.lock().is_taken_up(self.key)
    }

    /// How far it is, if this node has asked for it.
    pub(crate) fn progress(&self) -> Option<AskingProgress> {
        let engine = self.custody.0.engine.lock();
        engine.progress(self.key, Instant::now())
    }

    /// How much this node has written.
    pub(crate) fn written_length(&self) -> u64 {
        self.custody.0.engine.lock().written_length(self.key)
    }

    /// Some of the bytes that this node has written, from `offset` on; empty behind the last, and where they were let go.
    pub(crate) fn written(&self, offset: u64) -> Bytes {
        self.custody.0.engine.lock().written_bytes(self.key, offset)
    }

    /// Subscribes to its changes, from now on; `None` if the exchange is over.
    pub(crate) fn changes(&self) -> Option<changes::Receiver<()>> {
        let waiting = self.custody.0.waiting.lock();
        let open = waiting.get(&self.key);
        open.map(|open| open.changes.subscribe())
    }

    /// Resolves when the exchange is over.
    pub(crate) async fn over(&self) {
        if let Some(mut changes) = self.changes() {
            while changes.changed().await.is_ok() {}
        }
    }

    /// The next bytes that the neighbour gives.
    ///
    /// # Errors
    /// It will not be whole.
    pub(crate) async fn read(&self) -> Result<Option<Bytes>, ErrCode> {
        loop {
            // Subscribed before the look: a change between the two would be missed.
            let changes = self.changes();
            let reading = self.custody.0.engine.lock().read(self.key, READ);
            match (reading, changes) {
                (Reading::Bytes(bytes), _) => {
                    // There may be room to ask for more.
                    self.custody.0.due.notify_one();
                    return Ok(Some(bytes));
                }
                (Reading::End, _) => return Ok(None),
                (Reading::Broken(code), _) => return Err(code),
                (Reading::Waiting, Some(mut changes)) => {
                    // An end is seen by the next look.
                    let _ = changes.changed().await;
                }
                (Reading::Waiting, None) => return Err(ErrCode::Expired),
            }
        }
    }

    /// Gives bytes, as soon as there is room.
    ///
    /// # Errors
    /// The exchange is over, or the neighbour wants no more of it.
    pub(crate) async fn write(&self, mut bytes: Bytes) -> Result<(), Over> {
        while !bytes.is_empty() {
            let mut changes = self.changes().ok_or(Over)?;
            let room = {
                let mut engine = self.custody.0.engine.lock();
                if !engine.is_wanted(self.key) {
                    return Err(Over);
                }
                let room = engine.room(self.key).min(bytes.len());
                engine.write(self.key, bytes.split_to(room));
                room
            };
            if room == 0 {
                changes.changed().await.map_err(|_| Over)?;
            } else {
                self.custody.0.due.notify_one();
            }
        }
        Ok(())
    }

    /// Ends the bytes that this node gives.
    pub(crate) fn finish(&self) {
        self.custody.0.engine.lock().finish(self.key);
        self.custody.0.due.notify_one();
    }

    /// Breaks off the bytes that this node gives: the neighbour is told this code.
    pub(crate) fn break_off(&self, code: ErrCode) {
        self.custody.0.engine.lock().break_off(self.key, code);
        self.custody.0.due.notify_one();
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.asking {
            let mut engine = self.custody.0.engine.lock();
            engine.close(self.key, Instant::now());
            drop(engine);
            self.custody.0.waiting.lock().remove(&self.key);
            self.custody.0.due.notify_one();
            self.custody.0.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use hermes_net::{IngressOrigin, PeerAddress};
    use hermes_noise::PrivateKey;

    use super::*;
    use crate::settings::{NamedNeighbour, Settings};

    #[test]
    fn a_request_is_known_by_its_key_whatever_address_it_is_said_to_come_from() {
        let keys = [(); 2].map(|()| PrivateKey::generate().unwrap());
        let at: SocketAddr = "192.0.2.1:4500".parse().unwrap();
        let custody = Custody::new(Settings {
            key: keys[0].clone(),
            keep_for: None,
            neighbours: vec![NamedNeighbour {
                name: "next".to_owned(),
                key: keys[1].public(),
                address: Some(at),
            }],
            disk: None,
        });
        let key = ExchangeKey {
            neighbour: custody.neighbour("next").unwrap(),
            exchange: [7; 16],
        };
        let source = |port| StreamInfo {
            peer: PeerAddress::Ip(SocketAddr::new(at.ip(), port)),
            local: None,
            tls: None,
            origin: Some(Arc::new(IngressOrigin::new(None, key))),
        };

        assert_eq!(custody.parent(&source(1)), None, "it is not open");
        let open = OpenExchange::new();
        custody.0.waiting.lock().insert(key, open);
        // Two records of one source, as where a trusted proxy names the client's address.
        assert_eq!(custody.parent(&source(1)), Some(key));
        custody.continues(&source(2));
        assert!(custody.answer(key).is_continued());

        let other = StreamInfo {
            origin: None,
            ..source(1)
        };
        assert_eq!(custody.parent(&other), None);
    }
}
