//! HTTP/2 links that exchanges share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hermes_http::h2::client::Link;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Carrier, Fits, Taken};
use crate::limits::Room;

/// Links to one place. With the usual 100 to 1000 streams each, more would only spread a load that is too high.
const LINKS: usize = 8;

/// How long a link without exchanges is kept.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// Links to one place.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: Mutex<Vec<Shared>>,
}

#[derive(Debug)]
struct Shared {
    link: Link,
    address: Option<SocketAddr>,
    streams: Arc<AtomicUsize>,
    /// When it was last seen with an exchange.
    busy: Instant,
    room: Room,
}

/// Counts one exchange on its link until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn on(streams: &Arc<AtomicUsize>) -> Self {
        streams.fetch_add(1, Ordering::Relaxed);
        Self(streams.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    fn taken(&self) -> Taken {
        let carrier = Carrier::H2(self.link.clone(), Counted::on(&self.streams));
        Taken { carrier, address: self.address, reused: true, room: self.room.clone() }
    }
}

impl Links {
    /// A place on the least busy link, unless a further link should be made first.
    pub(super) fn share(&self, fits: Fits<'_>) -> Option<Taken> {
        let links = self.links.lock();
        let quietest = least_busy(&links, fits)?;
        let alive = links.iter().filter(|shared| shared.link.is_alive()).count();
        let has_room = quietest.streams() < quietest.link.max_streams();
        (has_room || alive >= LINKS).then(|| quietest.taken())
    }

    /// A place on the least busy link, even if it has to be waited for.
    pub(super) fn any(&self, fits: Fits<'_>) -> Option<Taken> {
        least_busy(&self.links.lock(), fits).map(Shared::taken)
    }

    /// Counts the first exchange on a new link, and with `keep` lets others share it.
    pub(super) fn add(&self, link: Link, address: Option<SocketAddr>, room: Room, keep: bool) -> Counted {
        let streams = Arc::new(AtomicUsize::new(0));
        let counted = Counted::on(&streams);
        if keep {
            self.links.lock().push(Shared { link, address, streams, busy: Instant::now(), room });
        }
        counted
    }

    /// Links that can be used.
    pub(super) fn alive(&self) -> usize {
        self.links.lock().iter().filter(|shared| shared.link.is_alive()).count()
    }

    /// Drops links that ended and, but for `warm` of them, those that nobody has used for long.
    pub(super) fn sweep(&self, warm: usize, now: Instant) {
        let mut links = self.links.lock();
        let mut spare = links.iter().filter(|shared| shared.link.is_alive()).count().saturating_sub(warm);
        let is_useless = |shared: &mut Shared| {
            if shared.streams() > 0 {
                shared.busy = now;
            }
            let is_old = shared.link.is_alive() && now >= shared.busy + IDLE_TIME && spare > 0;
            spare -= usize::from(is_old);
            is_old || !shared.link.is_alive()
        };
        let useless: Vec<_> = links.extract_if(.., is_useless).collect();
        drop(links);
        drop(useless);
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.links.lock());
        drop(all);
    }

    pub(super) fn len(&self) -> usize {
        self.links.lock().len()
    }
}

fn least_busy<'a>(links: &'a [Shared], fits: Fits<'_>) -> Option<&'a Shared> {
    links.iter().filter(|shared| shared.link.is_alive() && fits(shared.address)).min_by_key(|shared| shared.streams())
}
