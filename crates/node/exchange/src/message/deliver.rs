//! Delivers an answer to the client.

use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;

use hermes_admit::explain;
use hermes_http::{Incoming, Outgoing, Reset, Responder, ResponseHead};
use hermes_packet::{Broken, Side};
use hermes_plug::rest::Original;
use http::Method;

use super::answer::{Answer, Upload};
use super::attempt::{Request, silence_of};
use super::interrupted::Interrupted;
use super::returning;
use crate::pump::{Direction, meanwhile, pump_answer, silence};
use crate::reach::cause;

impl Request<'_> {
    /// Sends the answer to the client, while the rest of the request goes out; says how that ended.
    pub(super) async fn deliver(&self, answer: Answer<'_>, responder: Responder) -> String {
        let exchange = &self.routed.exchange;
        let Answer {
            head,
            content: mut incoming,
            mut upload,
            _stream,
        } = answer;
        let refused = cause::of(self.routed, self.tries.next, &head);
        let interrupted = self.interrupted(&head, &incoming, &upload);

        // There is no further attempt: the rest of the request need not be kept.
        self.lost.store(true, Ordering::Relaxed);
        let mut head = returning(self.routed, head);
        if explain::hide(self.routed, &mut head) {
            incoming = Incoming::Empty;
        }

        exchange.status(head.status.as_u16());
        let idle = self.tries.next.timeouts.idle_of(upload.hop);
        let mut silent = pin!(silence(exchange.counters(), idle));

        let length = self.response_length(&incoming);
        let respond = pin!(responder.respond(head, length));
        let responded = tokio::select! {
            biased;
            responded = meanwhile(&mut incoming, respond) => responded,
            () = silent.as_mut() => return Broken::idle(Side::Client).reason(),
        };
        let mut outgoing = match responded {
            Ok(Ok(outgoing)) => outgoing,
            Ok(Err(error)) => return format!("client_closed: {error}"),
            Err(error) => return Broken::read(Side::Target, &error).reason(),
        };

        let done = self
            .contents(&mut incoming, &mut outgoing, &mut upload, silent)
            .await;
        let done = match (done, interrupted) {
            (Err(broken), Some(interrupted)) => {
                // The failed response is not read any further.
                drop(incoming);
                Box::pin(interrupted.go_on(broken, &mut outgoing)).await
            }
            (done, _) => done,
        };

        match done {
            Ok(()) => refused.map_or_else(|| "done".to_owned(), |told| told.to_string()),
            Err(broken) => {
                outgoing.reset(reset_of_message(broken.reset));
                broken.reason()
            }
        }
    }

    /// Moves the content of the answer while the rest of the request goes out.
    async fn contents(
        &self,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
        upload: &mut Upload<'_>,
        mut silent: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), Broken> {
        let direction = Direction {
            from: Side::Target,
            moved: &self.routed.exchange.counters().target_to_client,
            rules: Some(&*self.routed.snapshot),
        };
        let mut download = pin!(pump_answer(incoming, outgoing, direction));
        loop {
            tokio::select! {
                biased;
                // The response is first: its end ends the exchange, whether or not the content
                // was all taken.
                done = download.as_mut() => return done,
                _ = upload.sent(), if !upload.is_over() => {}
                () = silent.as_mut() => {
                    let time = silence_of(self.tries, upload.hop);
                    return Err(Broken::silent(Side::Target, &time));
                }
            }
        }
    }

    /// The state from which a response that breaks off is continued, where the policy says so.
    fn interrupted(
        &self,
        head: &ResponseHead,
        incoming: &Incoming,
        upload: &Upload<'_>,
    ) -> Option<Box<Interrupted<'_>>> {
        if !self.tries.asks_for_rest() || !upload.is_empty {
            return None;
        }
        let original = Original::of(self.head, head, incoming.length())?;
        Some(Box::new(Interrupted {
            tries: self.tries,
            request: self.head,
            target: self.target,
            original,
            idle: self.tries.next.timeouts.idle_of(upload.hop),
        }))
    }

    /// Bytes of content that the response announces.
    fn response_length(&self, incoming: &Incoming) -> Option<u64> {
        if self.head.method == Method::HEAD {
            return Some(0);
        }
        // A response may have no content and still trailers.
        incoming
            .length()
            .filter(|length| *length > 0 || incoming.is_end())
    }
}

/// How a message that broke is told: CONNECT_ERROR speaks of tunnels only (RFC 9113, section 7).
fn reset_of_message(reset: Reset) -> Reset {
    match reset {
        Reset::Connect | Reset::Lost | Reset::Silent(_) => Reset::Internal,
        other => other,
    }
}
