//! Going on with a response whose content broke off, from another attempt.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, Bytes};
use hermes_http::{Frame, Incoming, Outgoing, RequestHead};
use hermes_packet::{Broken, Side};
use hermes_plug::rest::Original;
use hermes_plug::target::Target;
use hermes_rules::retry::Outcome;

use crate::message::hedge::{Responded, attempt};
use crate::pump::{Direction, pump_answer, silence};
use crate::reach::retry::Tries;
use crate::reach::verdict;

/// A response that is being delivered.
pub(crate) struct Interrupted<'a> {
    pub(crate) tries: &'a Tries<'a>,
    pub(crate) request: &'a RequestHead,
    pub(crate) target: &'a Target,
    pub(crate) original: Original,
    /// Longest silence within its content.
    pub(crate) idle: Duration,
}

/// How an attempt at the rest ended, if not well.
enum RestEnd {
    /// It broke off, too, or was not reached.
    Again(Broken),
    Over(Broken),
}

impl Interrupted<'_> {
    /// Goes on until all was delivered.
    ///
    /// # Errors
    /// Why the response ends where it is.
    pub(crate) async fn go_on(
        &self,
        mut broken: Broken,
        outgoing: &mut Outgoing,
    ) -> Result<(), Broken> {
        let exchange = &self.tries.routed.exchange;
        let moved = &exchange.counters().target_to_client;
        while broken.side == Side::Target && broken.is_of_the_path() {
            // The position in the content: bytes that were written to the client.
            let at = moved.load(Ordering::Relaxed);
            // Only its end is missing. No server could satisfy a range behind the last byte.
            if self.original.is_all(at) {
                break;
            }

            let pause = match self.tries.again(Some(Outcome::Interrupted), true) {
                Ok(pause) => pause,
                Err(stop) if stop.words().is_empty() => break,
                Err(stop) => return Err(broken.note(stop.words())),
            };
            exchange.waits(Some(format!(
                "the rest after {at} bytes: {}",
                broken.details()
            )));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                reset = outgoing.broken() => return Err(Broken::reset(Side::Client, reset)),
            }

            match Box::pin(self.rest(at, outgoing)).await {
                Ok(()) => return Ok(()),
                Err(RestEnd::Again(again)) => broken = again,
                Err(RestEnd::Over(over)) => return Err(over),
            }
        }
        Err(broken)
    }

    /// Asks for the bytes from `at` on, and delivers them.
    async fn rest(&self, at: u64, outgoing: &mut Outgoing) -> Result<(), RestEnd> {
        let lost = |reason: &str| {
            let reset = hermes_http::Reset::Connect;
            Broken::reset(Side::Target, reset).note(reason)
        };
        let exchange = &self.tries.routed.exchange;
        let asking = self.original.ask(self.request, at);

        let asked = tokio::select! {
            asked = attempt(self.tries, &asking, self.target) => asked,
            reset = outgoing.broken() => {
                return Err(RestEnd::Over(Broken::reset(Side::Client, reset)));
            }
        };
        let Responded {
            head,
            mut incoming,
            endpoint,
            held: _held,
            ..
        } = asked.map_err(|error| RestEnd::Again(lost(&error.reason())))?;

        // An error of the server says nothing of the resource: another attempt may still find it unchanged.
        if verdict::is_server_error(head.status) {
            return Err(RestEnd::Again(lost(&format!(
                "the answer was {}",
                head.status
            ))));
        }
        // From here on nothing is tried again: the content has changed, or the server cannot tell.
        let part = self.original.part(at, &head, incoming.length());
        let part = part.map_err(|reason| RestEnd::Over(lost(&format!("not resumed: {reason}"))))?;
        exchange.answered_by(&endpoint);
        exchange.waits(None);

        let moved = &exchange.counters().target_to_client;
        let delivering = async {
            // The position must not count bytes that are skipped: the client has them already.
            if let Some(first) = skip(&mut incoming, part.skip).await? {
                let length = first.len() as u64;
                let sent = outgoing.data(first, false).await;
                sent.map_err(|error| Broken::write(Side::Client, &error))?;
                moved.fetch_add(length, Ordering::Relaxed);
            }
            self.deliver(&mut incoming, outgoing, part.whole).await
        };
        let delivered = tokio::select! {
            delivered = delivering => delivered,
            () = silence(exchange.counters(), self.idle) => {
                return Err(RestEnd::Over(Broken::idle(Side::Target)));
            }
        };
        delivered.map_err(RestEnd::Again)
    }

    async fn deliver(
        &self,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
        whole: Option<u64>,
    ) -> Result<(), Broken> {
        let exchange = &self.tries.routed.exchange;
        let moved = &exchange.counters().target_to_client;
        let direction = Direction {
            from: Side::Target,
            moved,
            rules: Some(&*self.tries.routed.snapshot),
        };

        // A part that is not the last must not look like the end: its end would be passed on.
        let left = whole.map(|whole| whole.saturating_sub(moved.load(Ordering::Relaxed)));
        if left
            .zip(incoming.length())
            .is_some_and(|(left, length)| length < left)
        {
            return self.part_of(incoming, outgoing).await;
        }
        pump_answer(incoming, outgoing, direction).await
    }

    /// Delivers a part that others follow; its end counts as a broken response.
    async fn part_of(
        &self,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
    ) -> Result<(), Broken> {
        let moved = &self.tries.routed.exchange.counters().target_to_client;
        while let Some(frame) = incoming.frame().await {
            match frame.map_err(|error| Broken::read(Side::Target, &error))? {
                Frame::Data(data) => {
                    let length = data.len() as u64;
                    // Never as the last bytes: another part follows, or the response breaks off visibly.
                    let sent = outgoing.data(data, false).await;
                    sent.map_err(|error| Broken::write(Side::Client, &error))?;
                    moved.fetch_add(length, Ordering::Relaxed);
                }
                Frame::Trailers(_) => break,
            }
        }

        let reset = hermes_http::Reset::Connect;
        Err(Broken::reset(Side::Target, reset).note("only a part of the rest came"))
    }
}

/// Drops the first bytes; returns the rest of the piece in which they end.
async fn skip(incoming: &mut Incoming, mut count: u64) -> Result<Option<Bytes>, Broken> {
    while count > 0 {
        match incoming.frame().await {
            Some(Ok(Frame::Data(mut data))) => {
                let gone = data.len().min(usize::try_from(count).unwrap_or(usize::MAX));
                data.advance(gone);
                count -= gone as u64;
                if !data.is_empty() {
                    return Ok(Some(data));
                }
            }
            Some(Ok(Frame::Trailers(_))) => {}
            Some(Err(error)) => return Err(Broken::read(Side::Target, &error)),
            None => {
                let reset = hermes_http::Reset::Connect;
                return Err(Broken::reset(Side::Target, reset).note("it ended before"));
            }
        }
    }
    Ok(None)
}
