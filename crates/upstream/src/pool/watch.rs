//! Watches over a QUIC link: one that falls silent gets no new exchanges, and is given up once the peer was reached otherwise.
//!
//! Silence alone ends nothing. A peer that stands still for a moment, or a path that is gone as a whole, may come back, and with
//! it all that the link carries. Only when a connection that was begun later comes about, over TCP or over QUIC, is it certain
//! that waiting is of no use.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hermes_http::h3::Watched;
use tokio::time::{Instant, sleep};

use super::links::Use;
use super::{Pool, Slot};
use crate::failure::ConnectFailure;
use crate::keeping;
use crate::silence::{SILENCE, Silence};

/// How often a link is looked at that carries something, and one that does not. The first look at what begins is at once.
const LOOK: Duration = Duration::from_millis(100);
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// How long a silent link is waited for once the peer was reached otherwise: one that stood still answers on both at once.
const GRACE: Duration = Duration::from_millis(150);

/// Before the peer of a silent link is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a link was given up.
const BLOCKED: &str = "UDP became blocked: nothing was acknowledged any more, while TCP reached the peer";
const DEAD: &str = "the connection died: nothing was acknowledged on it any more, while a new one reached the peer";

/// A link that is watched over.
pub(super) struct Ward {
    pub(super) link: Watched,
    pub(super) uses: Arc<Use>,
    pub(super) pool: Weak<Pool>,
    pub(super) slot: Weak<Slot>,
}

/// Whether the peer was reached over QUIC.
type Reaching = Pin<Box<dyn Future<Output = Result<bool, ConnectFailure>> + Send>>;

impl Ward {
    /// Watches until the link has ended.
    pub(super) async fn watch(self) {
        let (link, mut silence) = (self.link.clone(), Silence::new(self.link.pulse(), Instant::now()));
        let mut closed = pin!(link.closed());
        let mut reaching: Option<Reaching> = None;
        loop {
            tokio::select! {
                () = self.next_look(&silence) => {}
                () = &mut closed => return,
                reached = finished(&mut reaching) => match reached {
                    Ok(quic) => {
                        silence.handle(self.link.pulse(), Instant::now());
                        if !silence.has_heard() {
                            return self.give_up(quic);
                        }
                        reaching = self.reach(PAUSE);
                    }
                    Err(failure) => {
                        tracing::debug!(reason = failure.reason, "the peer of a silent link is not reached");
                        reaching = self.reach(PAUSE);
                    }
                },
            }
            let was_silent = self.link.is_silent();
            let is_silent = silence.handle(self.link.pulse(), Instant::now());
            if self.uses.streams() > 0 && silence.wants_probe(Instant::now()) {
                self.link.probe();
            }
            self.link.set_silent(is_silent);
            match (was_silent, is_silent) {
                (false, true) => reaching = self.reach(Duration::ZERO),
                (true, false) => reaching = None,
                _ => {}
            }
        }
    }

    async fn next_look(&self, silence: &Silence) {
        if self.uses.streams() > 0 || silence.is_waiting() {
            return sleep(LOOK).await;
        }
        tokio::select! {
            () = sleep(IDLE_LOOK) => {}
            () = self.uses.began() => {}
        }
    }

    /// Begins to reach the peer otherwise.
    fn reach(&self, pause: Duration) -> Option<Reaching> {
        let (pool, slot) = (self.pool.upgrade()?, self.slot.upgrade()?);
        let (client, (upstream, index)) = (pool.client.upgrade()?, slot.endpoint()?);
        upstream.endpoints[index].quic.doubted(Instant::now());
        // Later than the silent link itself; links that fall silent together share what comes about.
        let since = Instant::now().checked_sub(SILENCE / 2)?;
        Some(Box::pin(async move {
            sleep(pause).await;
            let quic = keeping::reach_anew(&client, &upstream, index, &slot, since).await?;
            sleep(GRACE).await;
            Ok(quic)
        }))
    }

    fn give_up(&self, quic: bool) {
        self.link.give_up(if quic { DEAD } else { BLOCKED });
        let endpoint = self.slot.upgrade().and_then(|slot| slot.endpoint());
        if let Some((upstream, index)) = endpoint.filter(|_| !quic) {
            let endpoint = &upstream.endpoints[index];
            endpoint.quic.fell_silent(Instant::now());
            tracing::warn!(
                upstream = upstream.name(),
                endpoint = &*endpoint.text,
                "UDP became silent; HTTP/3 is left out"
            );
        }
    }
}

async fn finished(reaching: &mut Option<Reaching>) -> Result<bool, ConnectFailure> {
    match reaching {
        Some(running) => {
            let reached = running.await;
            *reaching = None;
            reached
        }
        None => std::future::pending().await,
    }
}
