//! Contents on their way through a translation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_http::{Frame, Incoming, Outgoing};
use hermes_net::memory::{Charge, Memory, Owner, Purpose};
use http::StatusCode;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::content::{ContentPlan, ContentTranslator};
use crate::template::Scope;
use crate::unfit::Unfit;

/// How long the next piece of a content may be awaited of which nothing has gone on yet.
#[doc(alias = "bound")]
const PIECE: Duration = Duration::from_secs(30);

/// How long all of it may take until then.
#[doc(alias = "bound")]
const COLLECTED: Duration = Duration::from_secs(120);

/// Bytes that are read in one go.
#[doc(alias = "bound")]
const SLICE: usize = 4 << 10;

/// Bytes of memory from which a content is finished beside the workers.
#[doc(alias = "bound")]
const LARGE: usize = 256 << 10;

/// Slices that are translated at once, and large contents that are finished at once.
#[doc(alias = "bound")]
const AT_ONCE: usize = 4;

/// The turns of all contents, first come, first served.
static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// A content that is being translated.
pub(crate) struct Pumped {
    incoming: Incoming,
    /// Gone at the end of the content.
    translator: Option<ContentTranslator>,
    charge: Charge,
}

/// How a content broke off.
pub(crate) enum Broken {
    /// It cannot be translated.
    Unfit(Unfit),
    /// Its sender has gone.
    Gone,
}

impl From<Unfit> for Broken {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

impl Pumped {
    /// Begins with a content, in the account of its owner.
    pub(crate) fn new(
        plan: &Arc<ContentPlan>,
        scope: &Arc<Scope>,
        incoming: Incoming,
        owner: &Owner,
    ) -> Self {
        let account = Memory::node().owner(owner.clone());
        Self {
            incoming,
            translator: Some(plan.begin(scope)),
            charge: account.empty_charge(Purpose::Collected),
        }
    }

    /// Whether all of it went on.
    pub(crate) fn is_done(&self) -> bool {
        self.translator.is_none()
    }

    /// The first bytes that can go on: all of them, where the content is translated as a whole.
    ///
    /// # Errors
    /// It cannot be translated, does not come in time, or breaks off.
    pub(crate) async fn first(&mut self) -> Result<Vec<u8>, Broken> {
        let mut out = Vec::new();
        let first = async {
            while out.is_empty() && !self.is_done() {
                let next = timeout(PIECE, self.next(&mut out)).await;
                next.unwrap_or_else(|_| Err(late()))?;
            }
            Ok(())
        };
        timeout(COLLECTED, first)
            .await
            .unwrap_or_else(|_| Err(late()))?;
        Ok(out)
    }

    /// Sends these bytes, and all that follow.
    ///
    /// # Errors
    /// The content cannot be translated, or breaks off; it breaks off for its receiver, too.
    pub(crate) async fn send(
        mut self,
        first: Vec<u8>,
        outgoing: &mut Outgoing,
    ) -> Result<(), Broken> {
        let mut out = first;
        loop {
            if !out.is_empty() {
                let piece = Bytes::from(std::mem::take(&mut out));
                outgoing
                    .data(piece, false)
                    .await
                    .map_err(|_| Broken::Gone)?;
            }
            // Only now: an end that comes before the last bytes would cut the content off.
            if self.is_done() {
                return outgoing.finish(None).await.map_err(|_| Broken::Gone);
            }
            tokio::select! {
                next = self.next(&mut out) => next?,
                // A receiver who has left is noticed while nothing comes, too.
                _ = outgoing.broken() => return Err(Broken::Gone),
            }
        }
    }

    /// Takes the next piece.
    async fn next(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        match self.incoming.frame().await {
            Some(Ok(Frame::Data(piece))) => {
                for slice in piece.chunks(SLICE) {
                    self.push(slice, out).await?;
                }
            }
            // Trailers tell of the content as it was, so they end with it.
            Some(Ok(Frame::Trailers(_))) => {}
            Some(Err(_)) => return Err(Broken::Gone),
            None => self.finish(out).await?,
        }
        self.pay(out.len())
    }

    /// Translates a slice once it has its turn: of a crowd of costly contents only few are ready to run at once, so that all else on this worker
    /// waits for these, and not for the crowd.
    async fn push(&mut self, slice: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        let Some(translator) = &mut self.translator else {
            return Ok(());
        };
        let turn = TURNS.acquire().await;
        let pushed = translator.push(slice, out);
        // The turn is kept while others run: else every content that waits would be ready again.
        tokio::task::yield_now().await;
        drop(turn);
        Ok(pushed?)
    }

    /// Translates the rest: a large one, which cannot be left in its midst, beside the workers.
    async fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Broken> {
        let Some(mut translator) = self.translator.take() else {
            return Ok(());
        };
        if translator.held() < LARGE {
            return Ok(translator.finish(out)?);
        }
        let turn = TURNS.acquire().await;
        let mut sent = std::mem::take(out);
        let finished = spawn_blocking(move || {
            let finished = translator.finish(&mut sent);
            finished.map(|()| sent)
        });
        let finished = finished.await;
        drop(turn);
        *out = finished.map_err(|_| Broken::Gone)??;
        Ok(())
    }

    /// Charges the owner for the memory that is held.
    fn pay(&mut self, sent: usize) -> Result<(), Broken> {
        let held = self.translator.as_ref().map_or(0, ContentTranslator::held) + sent;
        let charged = self.charge.bytes();
        // An element has gone on: its room is free for others.
        if held < charged {
            self.charge.shrink(charged - held);
            return Ok(());
        }
        match self.charge.grow(held - charged) {
            Ok(()) => Ok(()),
            Err(overdrawn) => {
                let unfit = Unfit::new(StatusCode::SERVICE_UNAVAILABLE, overdrawn.to_string());
                Err(Broken::Unfit(unfit))
            }
        }
    }
}

fn late() -> Broken {
    let reason = "its content has not come in time";
    Broken::Unfit(Unfit::new(StatusCode::REQUEST_TIMEOUT, reason))
}

#[cfg(test)]
mod tests {
    use hermes_http::pipe;

    use super::*;
    use crate::content::tests::whole_plan;

    #[tokio::test(start_paused = true)]
    async fn a_content_that_stops_is_given_up() {
        let (mut outgoing, incoming) = pipe(None);
        let scope = Arc::default();
        let mut pumped = Pumped::new(&whole_plan(), &scope, incoming, &Owner::Local);
        outgoing
            .data(Bytes::from_static(b"{\"a\":"), false)
            .await
            .unwrap();
        let Err(Broken::Unfit(unfit)) = pumped.first().await else {
            panic!("nothing more came");
        };
        assert_eq!(unfit.status, StatusCode::REQUEST_TIMEOUT);
    }
}
