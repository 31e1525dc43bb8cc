//! The links to one place, of HTTP/2 and HTTP/3, that exchanges share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermes_net::clock;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::link::Link;
use super::taken::{Carrier, Fits, Taken};
use crate::limits::Room;
use crate::link_use::{Counted, Use};

/// Links to one place: with the usual 100 to 1000 streams each, more would only spread a load that
/// is too high.
#[doc(alias = "bound")]
const LINKS: usize = 8;

/// Exchanges after which a link is replaced: long before its stream identifiers (2^30) end, and the
/// budgets of either side for a connection's life. One exchange in a million pays for a handshake.
#[doc(alias = "bound")]
pub(crate) const EXCHANGES: u64 = 1 << 20;

/// How long a link without exchanges is kept: idle connections die unseen.
#[doc(alias = "bound")]
const IDLE_TIME: Duration = Duration::from_secs(300);

/// Links to one place.
#[derive(Debug)]
pub(super) struct Links {
    links: Mutex<Vec<Shared>>,
    /// Exchanges that each serves.
    most: u64,
}

impl Links {
    /// No links yet; each will serve `most` exchanges.
    pub(super) fn new(most: u64) -> Self {
        Self {
            links: Mutex::default(),
            most,
        }
    }
}

#[derive(Debug)]
struct Shared {
    link: Link,
    address: Option<SocketAddr>,
    uses: Arc<Use>,
    /// When it was last seen with an exchange.
    busy: Instant,
    room: Room,
    /// Exchanges that began on it.
    begun: AtomicU64,
    /// How many may begin on it before it has served its time.
    most: u64,
}

impl Shared {
    fn streams(&self) -> usize {
        self.uses.streams()
    }

    /// Whether new exchanges may begin on it.
    fn is_usable(&self) -> bool {
        self.link.is_alive() && !self.link.is_silent()
    }

    /// Whether it has served its time. Its exchanges go on, and until its follower is there it serves new ones, too.
    fn is_retired(&self) -> bool {
        self.begun.load(Ordering::Relaxed) >= self.most || self.link.is_retired()
    }

    /// A place, if the peer allows one more.
    fn claim(&self) -> Option<Taken> {
        self.link.claim(self.streams()).map(|link| self.taken(link))
    }

    fn taken(&self, link: Link) -> Taken {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let carrier = Carrier::Shared(link, Counted::on(&self.uses));
        Taken {
            carrier,
            address: self.address,
            reused: true,
            room: self.room.clone(),
        }
    }
}

impl Links {
    /// A place on the least busy link, or on any with room, unless a further link should be made first.
    pub(super) fn share(&self, fits: Fits<'_>) -> Option<Taken> {
        let links = self.links.lock();
        // Retired links sort last: if the first one is retired, so are all, and a new link is due.
        let quietest = least_busy(&links, fits)?;
        if quietest.is_retired() {
            return None;
        }

        // The usual case, with one pass over the links.
        if let Some(taken) = quietest.claim() {
            return Some(taken);
        }
        let young = || {
            links
                .iter()
                .filter(|shared| shared.is_usable() && !shared.is_retired())
        };

        // Peers allow different numbers, which change.
        if let Some(taken) = young()
            .filter(|shared| fits(shared.address))
            .find_map(Shared::claim)
        {
            return Some(taken);
        }

        (young().count() >= LINKS).then(|| quietest.taken(quietest.link.clone()))
    }

    /// A place on the least busy link, even if it has to be waited for.
    pub(super) fn any(&self, fits: Fits<'_>) -> Option<Taken> {
        least_busy(&self.links.lock(), fits).map(|shared| shared.taken(shared.link.clone()))
    }

    /// Counts the first exchange on a new link, and with `keep` lets others share it.
    pub(super) fn add(
        &self,
        link: Link,
        address: Option<SocketAddr>,
        room: Room,
        keep: bool,
    ) -> Counted {
        let uses = Arc::new(Use::default());
        let counted = Counted::on(&uses);
        if keep {
            self.links.lock().push(Shared {
                link,
                address,
                uses,
                busy: clock::now(),
                begun: AtomicU64::new(1),
                most: self.most,
                room,
            });
        }

        counted
    }

    /// Whether exchanges go over another version than HTTP/3, though they could.
    pub(super) fn lack_quic(&self) -> bool {
        let links = self.links.lock();
        let usable = || links.iter().filter(|shared| shared.is_usable());
        usable().next().is_some() && !usable().any(|shared| matches!(shared.link, Link::H3(_)))
    }

    /// Lets links of HTTP/2 end with the exchanges that they have: one of HTTP/3 is there.
    pub(super) fn prefer_quic(&self) {
        for shared in self
            .links
            .lock()
            .iter()
            .filter(|shared| matches!(shared.link, Link::H2(_)))
        {
            shared.begun.fetch_max(shared.most, Ordering::Relaxed);
        }
    }

    /// Links that can be used.
    pub(super) fn usable(&self) -> usize {
        self.links
            .lock()
            .iter()
            .filter(|shared| shared.is_usable())
            .count()
    }

    /// Drops links that ended and, but for `warm` of them, those that no one has used for long.
    pub(super) fn sweep(&self, warm: usize, now: Instant) {
        let mut links = self.links.lock();
        let mut spare = links
            .iter()
            .filter(|shared| shared.link.is_alive())
            .count()
            .saturating_sub(warm);
        let is_useless = |shared: &mut Shared| {
            if shared.streams() > 0 {
                shared.busy = now;
            }
            let retired = shared.is_retired() && shared.streams() == 0;
            let is_old = shared.link.is_alive() && now >= shared.busy + IDLE_TIME && spare > 0;
            spare -= usize::from(is_old);
            is_old || retired || !shared.link.is_alive()
        };

        // Dropped below, outside the lock: closing a link wakes its driver.
        let useless: Vec<_> = links.extract_if(.., is_useless).collect();
        drop(links);
        drop(useless);
    }

    pub(super) fn clear(&self) {
        // The guard goes at the end of this line, before the links do.
        let all = std::mem::take(&mut *self.links.lock());
        drop(all);
    }

    pub(super) fn len(&self) -> usize {
        self.links.lock().len()
    }
}

fn least_busy<'a>(links: &'a [Shared], fits: Fits<'_>) -> Option<&'a Shared> {
    links
        .iter()
        .filter(|shared| shared.is_usable() && fits(shared.address))
        .min_by_key(|shared| (shared.is_retired(), shared.streams()))
}

#[cfg(test)]
mod tests {
    use hermes_http::client;
    use hermes_net::{PeerAddress, Stream, StreamInfo};
    use tokio::io::DuplexStream;
    use tokio_util::task::TaskTracker;

    use super::*;

    /// A link, and the end that keeps it open.
    async fn link() -> (Link, DuplexStream) {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let info = StreamInfo {
            peer: PeerAddress::Unix { uid: None },
            local: None,
            tls: None,
            origin: None,
        };
        let link = client::TcpLink::connect(
            Stream::other(Box::new(near), info),
            None,
            &TaskTracker::new(),
        )
        .await;
        (Link::H2(link.unwrap()), far)
    }

    #[tokio::test]
    async fn a_link_that_has_served_its_time_is_followed_before_it_goes() {
        let links = Links::new(3);
        let ((first, _first), (second, _second)) = (link().await, link().await);
        let addresses = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut held = vec![links.add(first, Some(addresses[0]), None, true)];
        let fits: Fits<'_> = &|_| true;
        let mut share = || {
            let taken = links.share(fits)?;
            let Carrier::Shared(_, counted) = taken.carrier else {
                panic!("a link was asked for")
            };
            held.push(counted);
            taken.address
        };
        assert_eq!(
            [share(), share(), share()],
            [Some(addresses[0]), Some(addresses[0]), None]
        );
        assert_eq!(
            links.any(fits).unwrap().address,
            Some(addresses[0]),
            "it serves until its follower is there"
        );
        let follower = links.add(second, Some(addresses[1]), None, true);
        assert_eq!(share(), Some(addresses[1]));
        links.sweep(0, Instant::now());
        assert_eq!(links.len(), 2, "its exchanges go on");
        drop(held);
        links.sweep(0, Instant::now());
        assert_eq!(links.len(), 1);
        drop(follower);
    }
}
